"""Monitors and links that processes have set, and whose end is not told, or carried out, yet.

Theory of operation. A monitor belongs to the watcher's *address*, as its mailbox does, and follows one incarnation of
the watched. ``process.exited`` makes those of that PID **due**; ``monitor.down``, which is written in one unit with the
message that tells the watcher, takes a monitor away. So each is told exactly once, whenever the node dies: what is due
and not told is told by the next boot, what is told is here no more. A monitor ends untold when its watcher takes it
back, when the watcher's slot is down or gone, it or one above it, or when a person has the call that set it forgotten.

A **link** is a monitor whose end is carried out: the watcher ends too, unless it traps exits. Where the other is bound
as well, that is the same row: ``watcher_pid`` is the incarnation whose end makes it due too, **turned** then, since it
is for the other. So whichever ends first, a link has one end. Whoever links back joins the row that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.calls import forgotten
from kernel.slices.tree.slots import DOWN, Slots
from kernel.slices.turns import Turn, Turns

GOES = (*DOWN, "removed")


@dataclass(frozen=True, slots=True)
class Monitor:
    """``target`` as it was asked for; ``address`` and ``pid`` of what it named here (empty and 0 for nothing), or
    ``peer``, the origin of the node where it is. ``sender``, ``session``, ``trace`` and ``rights`` are those of the
    turn that set it: for whom, and with which tools, the DOWN is handled. ``reason``: how the watched ended, once that
    is recorded; or the watcher, when a link is ``turned``.
    """

    ref: str
    seq: int
    watcher: str
    target: str
    address: str
    pid: int
    peer: str
    turn: str
    sender: str
    session: str
    trace: bytes
    rights: frozenset[str] | None
    reason: str = ""
    link: bool = False
    watcher_pid: int = 0
    turned: bool = False

    def bound(self) -> str:
        """The address that its end is for."""
        return self.address if self.turned else self.watcher


class Monitors(Table[str, Monitor]):
    """By reference, in the order in which they were set. ``due``: those whose watched has ended, oldest end first."""

    NAME = "monitors"
    FORMAT = 2
    MIGRATIONS = {  # noqa: RUF012
        0: lambda rows: [],
        1: lambda rows: [[*each, False, 0, False] for each in as_rows(rows)],
    }

    def __init__(self, slots: Slots, turns: Turns) -> None:
        super().__init__()
        self._tree, self._turns = slots, turns
        self._of_watcher: dict[str, dict[str, None]] = {}
        self._of_pid: dict[int, dict[str, None]] = {}
        self._joined: dict[str, dict[str, None]] = {}  # links by the address that is bound too
        self.due: dict[str, None] = {}

    def hears(self) -> Mapping[str, Handler]:
        return {
            "monitor.set": self._set,
            "monitor.removed": self._removed,
            "monitor.down": lambda told: self._take(told.body["ref"]),
            "process.exited": self._exited,
            "process.slot": self._slot,
            "turn.decided": self._decided,
        }

    def of(self, watcher: str) -> list[str]:
        """References of the monitors of an address."""
        return list(self._of_watcher.get(watcher, ()))

    def count_of(self, watcher: str) -> int:
        """How many these are, with the links that others have set and bind it too."""
        return len(self._of_watcher.get(watcher, ())) + len(self._joined.get(watcher, ()))

    def link_of(self, watcher: str, watcher_pid: int, address: str, pid: int, peer: str) -> Monitor | None:
        """The link that there is between these already, whichever of them set it."""
        for ref in self._of_watcher.get(watcher, ()):
            one = self._kept[ref]
            if one.link and not one.reason and (one.address, one.pid, one.peer) == (address, pid, peer):
                return one
        for ref in self._of_watcher.get(address, ()) if pid else ():
            one = self._kept[ref]
            if one.link and not one.reason and one.pid == watcher_pid:
                return one
        return None

    def _set(self, told: Told) -> None:
        body = told.body
        turn: Turn | None = self._turns.get(body["turn"])
        if not body["ref"] or turn is None or self._tree.down(turn.address) is not None:
            return
        there = self._kept.get(body["ref"])
        if there is None:
            self._hold(monitor_of(body, told.seq, told.trace, turn))
        elif there.link and not there.reason and there.watcher != turn.address and body.get("watcher_pid"):
            self._hold(replace(there, watcher_pid=body["watcher_pid"]))

    def _hold(self, monitor: Monitor) -> None:
        self._take(monitor.ref)
        self._kept[monitor.ref] = monitor
        self._of_watcher.setdefault(monitor.watcher, {})[monitor.ref] = None
        if monitor.reason:
            self.due[monitor.ref] = None
        else:
            for pid in filter(None, (monitor.pid, monitor.watcher_pid)):
                self._of_pid.setdefault(pid, {})[monitor.ref] = None
        if monitor.watcher_pid:
            self._joined.setdefault(monitor.address, {})[monitor.ref] = None

    def _take(self, ref: str) -> None:
        monitor = self._kept.pop(ref, None)
        if monitor is not None:
            self.due.pop(ref, None)
            _leave(self._of_watcher, monitor.watcher, ref)
            _leave(self._of_pid, monitor.pid, ref)
            _leave(self._of_pid, monitor.watcher_pid, ref)
            _leave(self._joined, monitor.address, ref)

    def _removed(self, told: Told) -> None:
        """A process has taken back what it calls its own: whether it is so its entry says."""
        if told.body["found"]:
            self._take(told.body["ref"])

    def _exited(self, told: Told) -> None:
        pid = told.body["pid"]
        for ref in self._of_pid.pop(pid, ()):
            monitor = self._kept[ref]
            turned = monitor.pid != pid
            _leave(self._of_pid, monitor.pid if turned else monitor.watcher_pid, ref)
            self._kept[ref] = replace(monitor, reason=told.body["reason"], turned=turned)
            self.due[ref] = None

    def _slot(self, told: Told) -> None:
        """Who watches no more: what is down until somebody starts it, and all below it. A link that binds another to
        the end of one that is still to come stays until then.
        """
        if self._of_watcher and told.body["state"] in GOES:
            for address in self._tree.tree(told.body["address"]):
                for ref in self.of(address):
                    if not self._kept[ref].watcher_pid or told.body["state"] == "removed":
                        self._take(ref)

    def _decided(self, told: Told) -> None:
        """What a turn asked is forgotten: its next delivery sets what it wants anew, and knows none of these."""
        ident, event = told.body["turn"], event_of(TURN_EVENTS, "turn.decided", told.body)
        if event is TurnEvent.ACCEPT and self._turns.after(ident, event):
            turn = self._turns[ident]
            for call in forgotten(turn, told.body["ordinal"]):
                if call.op in ("monitor", "link") and call.outcome is not None:
                    monitor = self._kept.get(call.outcome["ref"])
                    if monitor is not None and monitor.watcher == turn.address:
                        self._take(monitor.ref)

    def rows(self) -> Any:
        """Those that are due last, in the order of their ends."""
        rest = [monitor for ref, monitor in self._kept.items() if ref not in self.due]
        return [row(monitor) for monitor in (*rest, *(self._kept[ref] for ref in self.due))]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(Monitor, each))


def monitor_of(body: dict[str, Any], seq: int, trace: bytes, turn: Turn) -> Monitor:
    """The monitor in monitor.set, which entry ``seq`` is, in ``turn``."""
    return Monitor(
        ref=body["ref"],
        seq=seq,
        watcher=turn.address,
        target=body["target"],
        address=body["address"],
        pid=body["pid"],
        peer=body["peer"],
        turn=turn.id,
        sender=turn.mail.sender,
        session=turn.mail.session,
        trace=trace,
        rights=frozenset(body["rights"]),
        link=body.get("link", False),
        watcher_pid=body.get("watcher_pid", 0),
    )


def _leave(index: dict[Any, dict[str, None]], key: Any, ref: str) -> None:
    refs = index.get(key)
    if refs is not None and refs.pop(ref, ref) is None and not refs:
        del index[key]
