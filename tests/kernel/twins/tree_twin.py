"""The shell of the process tree on twins: a clock that is wound by hand, a journal in memory, cells that do as told.

No file, no loop, no thread: a step takes microseconds, and a walk of hundreds of them is one example of a property.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from chain.entry.kinds import KINDS
from chain.ledger.ledger import Draft, StateChange
from kernel.bounds import Bounds
from kernel.model.address import is_below
from kernel.model.spec import ProcessSpec
from kernel.model.states import CELL_LOST, CRASH, KILLED, SHUTDOWN
from kernel.operations.spawning import TEMPLATE
from kernel.policy.pipeline import Policy
from kernel.process.live import LiveProcess, LiveTable
from kernel.process.pid_blocks import PidBlocks
from kernel.process.process_signals import (
    AddressDown,
    PidsReserved,
    ProcessExited,
    ProcessRunning,
    SlotGoing,
    SlotGone,
    SlotWritten,
)
from kernel.process.processes import Processes
from kernel.signals import Signals
from kernel.state.recorder import Recorder, Unrecorded
from kernel.state.state import State
from weftos.node.gates import GATES


@dataclass(frozen=True)
class Written:
    kind: str
    seq: int
    time_us: int
    trace: bytes
    pid: int


@dataclass(frozen=True)
class Row:
    entry: Written


@dataclass
class Ticket:
    entries: tuple[Row, ...]
    group: object


class Journal:
    """Numbers what it is given, and keeps it; durable at once, or when a ``slow`` one is told to :meth:`sync`."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.units = [0]  # how many drafts there were after each
        self.slow = False
        self._late: list[Ticket] = []
        self._calls: list[Callable[..., None]] = []

    @property
    def next_seq(self) -> int:
        return len(self.drafts)

    refusal = read_only = None

    def on_group(self, call: Callable[..., None]) -> None:
        self._calls.append(call)

    def on_fault(self, call: Callable[..., None]) -> None:
        """It has none."""

    def sync(self) -> None:
        """All that it was given is durable."""
        for ticket in self._late:
            ticket.group = self
        self._late.clear()
        for call in self._calls:
            call(self)

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        rows = []
        for record in records:
            if isinstance(record, Draft):
                assert KINDS[record.kind].check(record.body) == [], record
                rows.append(Row(Written(record.kind, len(self.drafts), 0, record.trace, record.pid)))
                self.drafts.append(record)
        self.units.append(len(self.drafts))
        ticket = Ticket(tuple(rows), None if self.slow else self)
        if self.slow:
            self._late.append(ticket)
        return ticket


@dataclass(eq=False)
class Wound:
    """One call that is due at a time."""

    call: Callable[[], None]
    off: bool = False

    def cancel(self) -> None:
        self.off = True


class HandClock:
    """Stands still until it is wound."""

    def __init__(self) -> None:
        self.time_s = 1_000.0
        self._due: list[tuple[float, int, Wound]] = []
        self._count = itertools.count()

    def now_s(self) -> float:
        return self.time_s

    def later(self, delay_s: float, call: Callable[[], None]) -> Wound:
        timer = Wound(call)
        heapq.heappush(self._due, (self.time_s + delay_s, next(self._count), timer))
        return timer

    def wind(self, by_s: float) -> None:
        until_s = self.time_s + by_s
        while self._due and self._due[0][0] <= until_s:
            self.fire()
        self.time_s = until_s

    def fire(self) -> None:
        """What is due first."""
        self.time_s, _, timer = heapq.heappop(self._due)
        if not timer.off:
            timer.call()

    @property
    def waiting(self) -> int:
        return sum(not timer.off for *_, timer in self._due)


def raised(error: Exception) -> None:
    """A fault of whoever hears fails the test."""
    raise error


class Tree:
    """A tree of processes. What was placed in a cell starts when :meth:`up` says so.

    ``ended`` has the address, PID and reason of each exit, in order.
    """

    def __init__(
        self, bounds: Bounds | None = None, at_once: int = 1_000_000, former: Sequence[Draft] = ()
    ) -> None:
        signals = Signals(raised)
        self.journal, self.clock, self.live = Journal(), HandClock(), LiveTable()
        self.state = State(100, 10_000)
        recorder = self.recorder = Recorder(self.journal, self.state, signals)  # type: ignore[arg-type]  # a twin
        if former:  # what a boot before had on its disk
            recorder.commit(former)
        self.bounds = bounds or Bounds()
        policy = Policy(GATES, recorder, self.bounds)
        self.processes = Processes(
            recorder, self.live, PidBlocks(recorder, signals), self, policy, signals, clock=self.clock
        )
        self.processes.effects.at_once = self.processes.removed_at_once = at_once
        self.removing: list[Coroutine[None, None, int]] = []
        self.placed: list[LiveProcess] = []
        self.pids: set[int] = set()  # all that ever were in a cell
        self.written: list[str] = []
        self.told: list[int] = []
        self.ended: list[tuple[str, int, str]] = []
        signals.connect(
            {
                Unrecorded: (),
                SlotWritten: (),
                ProcessRunning: (),
                ProcessExited: (self._exited, self.processes.exited),
                AddressDown: (),
                SlotGoing: (self.processes.slots.going,),
                SlotGone: (),
                PidsReserved: (),
            }
        )
        self.processes.slots.settle()
        self.processes.boot()

    # -- the launcher --------------------------------------------------------------------------------------------

    def place(self, process: LiveProcess) -> None:
        self.placed.append(process)
        self.pids.add(process.pid)

    def stop(self, pid: int, why: str) -> None:
        self.told.append(pid)

    def _exited(self, end: ProcessExited) -> None:
        process, reason = end.process, end.reason
        self.ended.append((process.address, process.pid, reason))
        below = [other.address for other in self.live.all() if is_below(other.address, process.address)]
        if reason in (SHUTDOWN, KILLED):  # a test ends a process with other reasons, the tree with these
            assert not below, f"{process.address} ended before {below}"

    # -- what happens --------------------------------------------------------------------------------------------

    def spawn(self, name: str, parent: str = "/user", **fields: Any) -> str:
        """A slot, as the doors make one; started at once, as far as its cell is concerned."""
        address = self.spawn_only(name, parent, **fields)
        self.up()
        return address

    def spawn_only(self, name: str, parent: str = "/user", *, begin: bool = True, **fields: Any) -> str:
        """Without ``begin`` the slot is written, and started by :meth:`begin`: in between a tool call waits for the
        disk.
        """
        draft = self.processes.admission.draft_spawn(self._spec(name, parent, fields), parent, 0, b"", -1)
        self.write(draft)
        self.written.append(draft.body["address"])
        if begin:
            self.begin()
        return str(draft.body["address"])

    def _spec(self, name: str, parent: str, fields: dict[str, Any]) -> ProcessSpec:
        """A supervisor whose strategy wants a template has one, and a child below it is of that."""
        above = self.state.slots.get(parent)
        if above is not None and above.spec.template is not None:
            return above.spec.template.made(name, "", {})
        if fields.get("strategy") == TEMPLATE and fields.get("type") == "supervisor":
            fields = {"template": ProcessSpec("", restart=fields.get("restart", "permanent")), **fields}
        elif fields.get("strategy") == TEMPLATE:
            fields = {**fields, "strategy": "one_for_one"}
        return ProcessSpec(name, **fields)

    def begin(self) -> None:
        """Start what was written."""
        while self.written:
            self.processes.begin(self.written.pop(0))

    def finish(self) -> None:
        """As many rounds of the loop as it takes; no time passes."""
        while self.processes.effects.unfinished:
            self.clock.wind(0.0)

    def remove(self, address: str) -> None:
        """Begin to remove a slot with all below it; :meth:`remove_more` goes on."""
        self.processes.admission.removal(address, True)
        self.removing.append(self.processes.remove(address, True))
        self.remove_more()

    def remove_more(self) -> None:
        """One round of the loop for each removal under way."""
        for removal in list(self.removing):
            try:
                removal.send(None)
            except StopIteration:
                self.removing.remove(removal)

    def write(self, *drafts: Draft) -> None:
        self.recorder.commit(drafts)

    def up(self) -> None:
        """Every process that was placed in a cell reports that it runs."""
        while self.placed:
            self.processes.started(self.placed.pop(0).pid, "c1")

    def up_one(self, number: int) -> None:
        if self.placed:
            self.processes.started(self.placed.pop(number % len(self.placed)).pid, "c1")

    def pid(self, address: str) -> int:
        process = self.live.at(address)
        assert process is not None, f"nothing runs at {address}"
        return process.pid

    def crash(self, address: str, reason: str = CRASH) -> None:
        self.processes.exit(self.pid(address), reason, "the test said so", told=True)

    def use_up_pids(self) -> None:
        """All that are reserved are given out, and the disk is late with more."""
        self.journal.slow = True
        while self.processes.pids.next() is not None:
            pass

    def sync(self) -> None:
        """The disk is no more late."""
        self.journal.slow = False
        self.journal.sync()

    def cell_lost(self, addresses: Sequence[str]) -> None:
        pids = [self.pid(address) for address in addresses]
        self.processes.cell_lost("c1", 0, pids, CELL_LOST)

    def open_turn(self, address: str) -> None:
        process = self.live.at(address)
        if process is not None and not process.draining and process.spec.type == "worker":
            process.turn = "t1"

    def end_turn(self, address: str) -> None:
        """As ``Turns`` does at the end of one."""
        process = self.live.at(address)
        if process is not None and process.turn:
            process.turn = ""
            if process.draining:
                self.processes.drained(process.pid)

    def running(self) -> list[str]:
        return sorted(process.address for process in self.live.all())
