"""The supervision tree as it is meant to be: a slot for each child, by its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from kernel.abi import LastExit
from kernel.model.address import ancestors
from kernel.model.in_order import InOrder
from kernel.model.makers import AGENT, OPERATOR, MadeBy, is_peer
from kernel.model.rows import as_rows, as_text, made, row
from kernel.model.spec import ProcessSpec
from kernel.operations.spawning import Isolation
from kernel.slice import Handler, Keeper, Table, Told
from kernel.slices.tree.exits import NEVER, Exit, read_exit, told_of

Key = TypeVar("Key")
DOWN = ("stopped", "parked")  # states of a slot that runs again only when somebody starts it


@dataclass(slots=True)
class Slot:
    """A child slot: ``state`` as in ``states.SLOT_TABLE``, ``pid`` the present or last incarnation (0: none yet).

    ``last_exit`` says of the last incarnation whose end was seen how it ended; ``made_by`` who had the slot made;
    ``changed_seq`` which entry said ``spec``, -1 for the one that made the slot. ``felled``: how many shared cells its
    incarnations have taken down; ``isolated``: because of that it is in no cell with any that is not. ``ending``: what
    runs there has begun to end, and will leave it stopped.
    """

    address: str
    parent: str
    spec: ProcessSpec
    spawned_seq: int
    state: str = "running"
    why: str = ""
    pid: int = 0
    restarts: int = -1
    last_exit: Exit = NEVER
    made_by: str = OPERATOR
    changed_seq: int = -1
    suspended: str = ""
    suspended_us: int = 0
    felled: int = 0
    isolated: bool = False
    ending: bool = False

    @property
    def isolation(self) -> Isolation:
        """Whether it shares its cell."""
        return "dedicated" if self.isolated else self.spec.isolation

    def forerunner(self, unwritten: Exit = NEVER) -> LastExit | None:
        """How the incarnation before the next one ended, as that is told; ``unwritten``: the end that is not recorded
        yet.
        """
        return told_of(
            unwritten if unwritten.pid > self.last_exit.pid else self.last_exit,
            self.pid,
            max(0, self.restarts + 1),
        )


class Slots(Table[str, Slot]):
    """All of them, in the order in which they were spawned."""

    NAME = "slots"
    FORMAT = 14
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: [[*each, OPERATOR] for each in as_rows(rows)],
        2: lambda rows: rows,  # a spec without a strategy is read as one_for_one
        3: lambda rows: rows,  # and one without what was added since as what was true before
        4: lambda rows: [[*each[:8], row(read_exit(as_text(each[8]))), each[9]] for each in as_rows(rows)],
        5: lambda rows: rows,  # a spec without on_logical is read as restart
        6: lambda rows: rows,  # and one without capabilities as one that is held to none
        7: lambda rows: [[*each, -1] for each in as_rows(rows)],
        8: lambda rows: [[*each, "", 0] for each in as_rows(rows)],
        9: lambda rows: [[*each, 0, False] for each in as_rows(rows)],
        10: lambda rows: rows,  # a spec without turn_timeout_s is held to the node's
        11: lambda rows: [[*each, False] for each in as_rows(rows)],
        12: lambda rows: rows,  # a spec without a mailbox has the node's
        13: lambda rows: rows,  # and one without a session is of no chat
    }

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        super().__init__(self._slots)
        self._children: dict[str, dict[str, Slot]] = {}
        self._in_order = InOrder(self._children)
        self._named: dict[str, dict[str, Slot]] = {}
        self._sessions: dict[str, dict[str, Slot]] = {}
        self._below: Counter[tuple[str, str]] = Counter()
        self._directly_below: Counter[tuple[str, str]] = Counter()
        self._workspaces: Counter[str] = Counter()
        self._of_peer: dict[str, str] = {}
        self._by_peer: Counter[str] = Counter()

    # -- what is recorded ----------------------------------------------------------------------------------------

    def hears(self) -> Mapping[str, Handler]:
        return {
            "process.spawned": self._spawned,
            "process.changed": self._respecified,
            "process.started": self._started,
            "process.exited": self._exited,
            "process.felled": self._felled,
            "process.ending": self._ending,
            "process.slot": self._changed,
            "process.suspended": lambda told: self._suspend(told, told.body["by"], told.time_us),
            "process.resumed": lambda told: self._suspend(told, "", 0),
        }

    def keeps(self) -> Mapping[str, Keeper]:
        return {"exit": self._forget_exit}

    def _spawned(self, told: Told) -> None:
        body = told.body
        made_by = body.get("made_by", OPERATOR)
        spec = ProcessSpec.from_json(body["spec"])
        self.place(Slot(body["address"], body["parent"], spec, told.seq, made_by=made_by))

    def _respecified(self, told: Told) -> None:
        slot = self._slots.get(told.body["address"])
        if slot is not None:
            slot.spec, slot.changed_seq = ProcessSpec.from_json(told.body["spec"]), told.seq

    def _started(self, told: Told) -> None:
        slot = self._slots.get(told.body["address"])
        if slot is not None:
            slot.pid = told.body["pid"]
            slot.restarts += 1
            if slot.state not in DOWN:  # a stop that crossed the start holds
                slot.state, slot.why = "running", ""

    def _exited(self, told: Told) -> None:
        body = told.body
        slot = self._slots.get(body["address"])
        if slot is not None:
            slot.last_exit = Exit(body["pid"], body["reason"], body["detail"], told.time_us)

    def _felled(self, told: Told) -> None:
        slot = self._slots.get(told.body["address"])
        if slot is not None:
            slot.felled, slot.isolated = told.body["times"], told.body["isolated"]

    def _changed(self, told: Told) -> None:
        body = told.body
        slot = self._slots.get(body["address"])
        if slot is None:
            return
        if body["state"] == "removed":
            self._remove(slot)
        else:
            slot.state, slot.why, slot.ending = body["state"], body["why"], False

    def _ending(self, told: Told) -> None:
        slot = self._slots.get(told.body["address"])
        if slot is not None:
            slot.ending = told.body["stops"]

    def _suspend(self, told: Told, by: str, time_us: int) -> None:
        slot = self._slots.get(told.body["address"])
        if slot is not None:
            slot.suspended, slot.suspended_us = by, time_us

    def _forget_exit(self, address: str, value: None) -> None:
        slot = self._slots.get(address)
        if slot is not None:
            slot.last_exit = Exit(slot.last_exit.pid)

    def rows(self) -> Any:
        return [row(slot) for slot in self._slots.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self.place(made(Slot, each))

    # -- the tree ------------------------------------------------------------------------------------------------

    def place(self, slot: Slot) -> None:
        """Take a slot into the tree."""
        address = slot.address
        present = self._slots.get(address)
        if present is None:
            self._in_order.added(slot.parent, address)
        else:
            self._uncount(present)
        self._slots[address] = slot
        self._count(slot)
        self._children.setdefault(slot.parent, {})[address] = slot
        self._named.setdefault(slot.spec.name, {})[address] = slot
        if slot.spec.session:
            self._sessions.setdefault(slot.parent, {})[address] = slot

    def _remove(self, slot: Slot) -> None:
        address = slot.address
        self._uncount(slot)
        del self._slots[address]
        listed = [(self._children, slot.parent), (self._named, slot.spec.name)]
        if slot.spec.session:
            listed.append((self._sessions, slot.parent))
        for table, key in listed:
            del table[key][address]
            if not table[key]:
                del table[key]
        self._in_order.removed(slot.parent, address)

    def _count(self, slot: Slot) -> None:
        peer = _peer(slot.made_by) or self._of_peer.get(slot.parent, "")
        if peer:
            self._of_peer[slot.address] = peer
            self._by_peer[peer] += 1
        self._workspaces[slot.spec.workspace] += 1
        if slot.spec.session:  # of these an agent has a number of its own
            return
        self._directly_below[slot.parent, peer] += 1
        for above in ancestors(slot.address):
            self._below[above, peer] += 1

    def _uncount(self, slot: Slot) -> None:
        peer = self._of_peer.pop(slot.address, "")
        if peer:
            _less(self._by_peer, peer)
        _less(self._workspaces, slot.spec.workspace)
        if slot.spec.session:
            return
        _less(self._directly_below, (slot.parent, peer))
        for above in ancestors(slot.address):
            _less(self._below, (above, peer))

    def below(self, address: str, maker: MadeBy = OPERATOR) -> int:
        """How many slots there are below ``address``, however deep, that count to the peer ``maker``, or to no peer;
        without sessions of chats.
        """
        return self._below[address, _peer(maker)]

    def directly_below(self, address: str, maker: MadeBy = OPERATOR) -> int:
        """The same of its children."""
        return self._directly_below[address, _peer(maker)]

    def works_in(self, workspace: str) -> int:
        """How many slots have this workspace."""
        return self._workspaces[workspace]

    def workspaces(self) -> list[str]:
        """Those that slots have, each once."""
        return [workspace for workspace in self._workspaces if workspace]

    def children(self, address: str) -> list[Slot]:
        """Slots directly below ``address``, in the order they were spawned."""
        return list(self._children.get(address, {}).values())

    def sessions(self, agent: str) -> list[Slot]:
        """Those of its children that are sessions of chats, in the order they were spawned."""
        return list(self._sessions.get(agent, {}).values())

    def agents_with_sessions(self) -> list[str]:
        """The addresses that have any."""
        return list(self._sessions)

    def tree(self, address: str) -> Iterator[str]:
        """``address`` and every one below it, in the order they were spawned."""
        yield address
        for child in self.children(address):
            yield from self.tree(child.address)

    def child_count(self, address: str) -> int:
        """How many slots there are directly below ``address``."""
        return len(self._children.get(address, ()))

    def following(self, address: str, count: int) -> list[Slot]:
        """The next ``count`` slots behind ``address``, parents before children, those of one parent by name."""
        return [self._slots[each] for each in islice(self._in_order.following(address), count)]

    def maker(self, address: str) -> str:
        """To whom a process counts: the peer that made it or what it is below; an agent, when some worker is above it;
        else the operator.
        """
        above = ancestors(address)
        for at in (address, *above) if self._of_peer else ():
            if at in self._of_peer:
                return self._of_peer[at]
        for at in above:
            slot = self._slots.get(at)
            if slot is not None and slot.spec.type == "worker":
                return AGENT
        return OPERATOR

    def count_of(self, peer: str) -> int:
        """How many slots count to a peer (``peer:ORIGIN``)."""
        return self._by_peer[peer]

    def down(self, address: str) -> Slot | None:
        """The nearest slot, at ``address`` or above it, that is down until somebody starts it."""
        for at in (address, *ancestors(address)):
            slot = self._slots.get(at)
            if slot is not None and slot.state in DOWN:
                return slot
        return None

    def worker_above(self, address: str) -> Slot | None:
        """The nearest slot, at ``address`` or above it, that runs a behaviour."""
        for at in (address, *ancestors(address)):
            slot = self._slots.get(at)
            if slot is not None and slot.spec.type == "worker":
                return slot
        return None

    def named(self, name: str) -> list[str]:
        """Addresses of the slots of this name."""
        return list(self._named.get(name, {}))

    def beginning(self, name: str) -> list[str]:
        """Addresses of the slots whose names begin so."""
        return [address for own, slots in self._named.items() if own.startswith(name) for address in slots]


def _peer(maker: MadeBy) -> str:
    """Empty for who is none."""
    return maker if is_peer(maker) else ""


def _less(counts: Counter[Key], key: Key) -> None:
    """One less; what there is none of is not counted."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
