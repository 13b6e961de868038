"""The state of a supervisor: its children, and the restart of several that is under way.

Values only; the rules are in kernel/supervision/reducer.py, from where all of this can be imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from kernel.errors import SupervisionError
from kernel.model.persistent import PersistentMap
from kernel.model.states import SLOT_TABLE, SlotEvent, SlotState, advance
from kernel.supervision.events import Effect, SlotChanged
from kernel.supervision.specs import INFINITY, ChildSpec, Flags


class Phase(StrEnum):
    """What there is of a child's process just now."""

    NONE = "none"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    WAITING = "waiting"  # for the end of its back-off
    QUEUED = "queued"  # for its turn in the restart of several


AskedFor = Literal["", "add", "start"]
_ALIVE = frozenset({Phase.STARTING, Phase.UP, Phase.STOPPING})


@dataclass(slots=True)
class Child:
    """One slot. Treat as frozen; it is not, because two are made for each start, and a frozen one takes three times as
    long. ``pid`` is that of the incarnation reported last by Started and not yet ended.

    ``asked``: its start was asked for, by an add or by name, and it has not been seen to run since. ``row``: restarts
    without quiet between them. ``charges``: times of restarts charged to this child (on_exceed park). ``failed_s`` and
    ``due_s``: since when its newest back-off goes on, and until when.
    """

    spec: ChildSpec
    order: int
    slot: SlotState
    phase: Phase
    pid: int | None = None
    asked: AskedFor = ""
    up_since_s: float = INFINITY
    row: int = 0
    charges: tuple[float, ...] = ()
    failed_s: float = 0.0
    due_s: float = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, or one is on its way."""
        return self.phase in _ALIVE

    @property
    def is_wanted(self) -> bool:
        """Whether it is meant to run."""
        return self.slot in (SlotState.RUNNING, SlotState.RESTARTING)

    def rested(self, flags: Flags, now_s: float) -> Child:
        """The child that has ended: after a quiet time it begins a new row of restarts."""
        quiet = now_s - self.up_since_s >= flags.period_s
        return replace(self, up_since_s=INFINITY, row=0 if quiet else self.row)

    def move(self, event: SlotEvent, why: str, cause: int = -1) -> tuple[Child, tuple[Effect, ...]]:
        """The child with its slot moved along ``states.SLOT_TABLE``."""
        slot = advance(SLOT_TABLE, self.slot, event)
        if slot is self.slot:
            return self, ()
        return replace(self, slot=slot), (SlotChanged(self.spec.id, slot, why, cause),)


@dataclass(frozen=True, slots=True)
class GroupRestart:
    """A restart of several children, as far as it has come; the rules are in kernel/supervision/group_restart.py.

    Children behind the order ``reached`` are in it, dead or alive; those up to there are not, or it has started them,
    ``starting`` last. So many of ``to_stop`` and ``to_start`` it is done with: ``stopped`` and ``begun``. The
    RestartDue of ``failed`` ends its back-off of ``delay_s``; ``waiting``: that has begun.
    """

    failed: str
    why: str
    to_stop: tuple[str, ...]
    to_start: tuple[str, ...]
    reached: int
    delay_s: float = 0.0
    waiting: bool = False
    stopped: int = 0
    begun: int = 0
    starting: str = ""


@dataclass(slots=True)
class Supervisor:
    """The whole state. Treat as frozen, as a child. ``pardoned`` is the newest batch that is charged to nobody;
    ``group`` the restart of several children that is under way; ``closing`` is the reason it is ending with, ``ended``
    that it has given up; ``active`` children are alive, ``supervisors`` are of that type, and ``significant`` are so
    many of those that are alive, come back, or are parked.
    """

    flags: Flags
    table: PersistentMap[Child] = field(default_factory=PersistentMap)
    added: int = 0
    charges: tuple[tuple[float, str | None], ...] = ()
    pardoned: str | None = None
    group: GroupRestart | None = None
    closing: str | None = None
    ended: bool = False
    to_close: tuple[str, ...] = ()
    closed: int = 0
    active: int = 0
    supervisors: int = 0
    significant: int = 0

    @classmethod
    def having(cls, flags: Flags, children: Mapping[str, Child]) -> Supervisor:
        """One with these children, by their ids. As many steps as there are children: it may be thousands at once."""
        sup = cls(
            flags, PersistentMap(), len(children), supervisors=sum(map(_is_supervisor, children.values()))
        )
        return sup._having(children)

    @property
    def children(self) -> tuple[Child, ...]:
        """All children in the order in which they were added."""
        return tuple(sorted(self.table.values(), key=lambda child: child.order))

    def child(self, id: str) -> Child:
        """The child ``id``; SupervisionError ``not_found``."""
        child = self.table.get(id)
        if child is None:
            raise SupervisionError("not_found", f"there is no child {id!r} under this supervisor")
        return child

    def counts(self) -> dict[str, int]:
        """OTP's ``count_children``: specs, active (alive), supervisors, workers."""
        specs = len(self.table)
        workers = specs - self.supervisors
        return {
            "specs": specs,
            "active": self.active,
            "supervisors": self.supervisors,
            "workers": workers,
        }

    def counted(self, now_s: float) -> int:
        """How many restarts count against its intensity at ``now_s``; where it parks, those of the child with most."""
        of_children = (child.charges for child in self.table.values())
        each = of_children if self.flags.on_exceed == "park" else ([at for at, _ in self.charges],)
        return max((sum(now_s - at <= self.flags.period_s for at in times) for times in each), default=0)

    def put(self, child: Child) -> Supervisor:
        """With ``child`` in the place of what there was of it."""
        return self._with(child.spec.id, child, self.table.set(child.spec.id, child))

    def put_all(self, children: Iterable[Child]) -> Supervisor:
        """With each of these, all of which it has, in the place of what there was of it. As many steps as it has
        children, and not as many times the copy of a part of them.
        """
        return self._having({child.spec.id: child for child in (*self.table.values(), *children)})

    def put_each(self, children: Mapping[str, Child]) -> Supervisor:
        """The same as to :meth:`put` each, whose ids these are."""
        before = [self.table.get(id) for id in children]
        after = children.values()
        return replace(
            self,
            table=self.table.set_all(children),
            added=max(self.added, *(child.order + 1 for child in after)),
            active=self.active + sum(map(_is_alive, after)) - sum(map(_is_alive, before)),
            supervisors=self.supervisors + sum(map(_is_supervisor, after)) - sum(map(_is_supervisor, before)),
            significant=self.significant
            + sum(map(_is_significant, after))
            - sum(map(_is_significant, before)),
        )

    def without(self, id: str) -> Supervisor:
        """Without that child; KeyError when it is not there."""
        return self._with(id, None, self.table.remove(id))

    def _having(self, table: Mapping[str, Child]) -> Supervisor:
        active, significant = (
            sum(map(_is_alive, table.values())),
            sum(map(_is_significant, table.values())),
        )
        return replace(self, table=PersistentMap.of(table), active=active, significant=significant)

    def _with(self, id: str, child: Child | None, table: PersistentMap[Child]) -> Supervisor:
        before = self.table.get(id)
        return Supervisor(  # each event of each child comes here, and replace() takes twice as long
            self.flags,
            table,
            self.added if child is None else max(self.added, child.order + 1),
            self.charges,
            self.pardoned,
            self.group,
            self.closing,
            self.ended,
            self.to_close,
            self.closed,
            self.active + _is_alive(child) - _is_alive(before),
            self.supervisors + _is_supervisor(child) - _is_supervisor(before),
            self.significant + _is_significant(child) - _is_significant(before),
        )


def _is_alive(child: Child | None) -> bool:
    return child is not None and child.is_alive


def _is_significant(child: Child | None) -> bool:
    """What is parked has not ended for good: a person may start it."""
    if child is None or not child.spec.significant:
        return False
    return child.phase is not Phase.NONE or child.slot is SlotState.PARKED


def _is_supervisor(child: Child | None) -> bool:
    return child is not None and child.spec.type == "supervisor"


Result = tuple[Supervisor, tuple[Effect, ...]]
