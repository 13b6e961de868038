"""The process tree: spawns, starts, exits, and what the supervisors decide about them.

The rules are in ``kernel/supervision/reducer.py``; here its effects are carried out (:mod:`kernel.process.effects`).
Every address that has children has a supervisor: a real one (a slot of type supervisor, with a PID and no cell) or, for
a worker with children, one that shares the worker's address and parks what fails too often.

Ending. What is ended is ended to its last leaf: first the children, in the reverse of the order in which they started
and each after what is below it, then the process itself. All of them learn at once that they are ending (they *drain*:
a turn that is open may end, no other begins), so a whole tree takes no longer than one process may. A supervisor whose
children have ended is not gone before what is below those is; what it ends with is *held* until then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Protocol

from chain.ledger.ledger import Draft
from kernel.clock import Clock, LoopClock
from kernel.errors import NotFound, Refused, StateError
from kernel.model.address import ROOT, USER, ancestors, child_of, name_of
from kernel.model.address import parent as parent_of
from kernel.model.makers import OPERATOR
from kernel.model.pids import ROOT_PID
from kernel.model.spec import ProcessSpec
from kernel.model.states import (
    CELL_LOST,
    CRASH,
    KILLED,
    NOPROC,
    SHUTDOWN,
    ProcessEvent,
    ProcessState,
    is_blameless,
)
from kernel.policy.pipeline import Policy
from kernel.process.admission import Admission
from kernel.process.effects import Effects
from kernel.process.listing import Listing
from kernel.process.live import LiveProcess, LiveTable, Supervisors
from kernel.process.pid_blocks import PidBlocks
from kernel.process.process_signals import (
    AddressDown,
    ProcessExited,
    ProcessRunning,
)
from kernel.process.slot_writer import SlotWriter
from kernel.process.specs import TERM_S, child_spec, flags_of
from kernel.process.starts import Starts
from kernel.signals import Signals
from kernel.slices.tree.exits import NEVER, Exit
from kernel.slices.tree.slots import Slot
from kernel.state.recorder import Recorder
from kernel.supervision.reducer import (
    INFINITY,
    Add,
    Dropped,
    Effect,
    Event,
    Exited,
    Flags,
    GiveUp,
    Remove,
    RestartDue,
    Shutdown,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
    begin,
    step,
)

EXITS_IN_A_UNIT = 50
REMOVED_AT_ONCE = 20  # between two rounds of the event loop


class Launcher(Protocol):
    """What the tree needs of the cells."""

    def place(self, process: LiveProcess) -> None:
        """Start the process in a cell; ``Processes.started``, ``start_failed`` or ``refused`` follows."""

    def stop(self, pid: int, why: str) -> None:
        """The process is dead to the node: see that its cell knows."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker is to exit once nothing is left below it. ``hard``: without waiting for its turn."""

    reason: str
    detail: str
    hard: bool


class Processes:
    """The tree. It says what :mod:`kernel.process.process_signals` has, and hears of its own exits last: what else
    follows from one has been done before a supervisor acts on it.

    Starting and ending are one state machine over supervisors, endings and what is held, so they are one class of more
    than 25 methods: a cut between them would hand all of these to both sides. Who may make, start or remove what is
    ``admission``; what is written of slots is the slot writer's.
    """

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        pids: PidBlocks,
        launcher: Launcher,
        policy: Policy,
        signals: Signals,
        clock: Clock | None = None,
        chance: Random | None = None,
    ) -> None:
        self._recorder = recorder
        self._signals = signals
        self._state = recorder.state
        self._live = live
        self.pids = pids
        self._launcher = launcher
        self._clock = clock or LoopClock()
        self._chance = chance or SystemRandom()
        self.listing = Listing(recorder.state, live, self._clock.now_s)
        self.supervisors = Supervisors(live)
        self.effects = Effects(self._perform, self._clock)
        self.removed_at_once = REMOVED_AT_ONCE
        self._starts = Starts()
        self.slots = SlotWriter(recorder, self.effects, self._starts, signals)
        self.admission = Admission(self._state, live, self.supervisors, self.effects, policy)
        self._unnumbered: set[str] = set()  # addresses whose start waits for a PID
        self._endings: dict[str, Ending] = {}
        self._held: dict[str, str] = {}  # reasons of supervisors that wait for what is below their children
        self._dropping: dict[str, str] = {}  # why; of slots that go once nothing is left below them
        self._unwritten: dict[str, Exit] = {}  # by address, the last end that the disk has yet to take

    # -- boot ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the root and, below it, everything that was meant to run."""
        self._dead_letter_what_is_down()
        flags = Flags(intensity=20, on_exceed="park")
        root = LiveProcess(ROOT_PID, ROOT, ProcessSpec("root", type="supervisor"), self._clock.now_s())
        self._live.add(root)
        root.on(ProcessEvent.STARTED)
        if USER not in self._state.slots:
            spec = ProcessSpec("user", type="supervisor", tools=())
            body = {"address": USER, "parent": ROOT, "spec": spec.to_json(), "made_by": OPERATOR}
            self._recorder.commit([Draft("process.spawned", body, ROOT_PID)])
        user = child_spec(self._state.slots[USER].spec)
        self.supervisors[ROOT], effects = begin(flags, [(user, SlotState.RUNNING)])
        self.effects.carry_out(ROOT, effects)

    def _dead_letter_what_is_down(self) -> None:
        """A slot that the last boot could not leave any more: its process was still ending when the node ended."""
        for address in list(self._state.mail):
            down = self._state.slots.down(address)
            if down is not None:
                self._signals.say(AddressDown(address, f"{down.address} is {down.state}"))

    def _begin_children(self, address: str, without: str = "") -> None:
        """Give ``address`` its supervisor, with the children its slots say, but for the one that is to be added, and
        for those that are about to go.
        """
        if address in self.supervisors:
            raise StateError(f"{address} has a supervisor already: a fault in weftos, please report it")
        below = [
            (child_spec(child.spec), self.slots.meant(child))
            for child in self._state.slots.children(address)
            if child.address != without and not self.slots.is_leaving(child)
        ]
        self.supervisors[address], effects = begin(flags_of(self._state.slots[address]), below)
        self.effects.carry_out(address, effects)

    # -- asked for -----------------------------------------------------------------------------------------------

    def begin(self, address: str) -> None:
        """Start a slot that was just written. One whose parent does not run just now starts with it."""
        slot = self._state.slots.get(address)
        if slot is None:
            return
        parent = slot.parent
        begun = parent in self.supervisors  # also while a worker waits for its restart
        if self.supervisors.is_ending(parent) or not (begun or self._live.at(parent)):
            self._starts.failed(address, f"{parent} does not run just now: it starts when that does")
            return
        if not begun:
            self._begin_children(parent, without=address)
        if name_of(address) not in self.supervisors[parent].table:
            self._event(parent, Add(child_spec(slot.spec)))

    def when_started(self, address: str) -> asyncio.Future[int]:
        """A future of the next PID that runs at ``address``; fails with Refused when the start fails."""
        future, process = self._starts.wait(address), self._live.at(address)
        if process is not None and process.state is ProcessState.RUNNING:
            self._starts.started(address, process.pid)
        return future

    def stop(self, address: str) -> None:
        """Stop a slot: it ends orderly and stays down until it is started by hand."""
        slot = self.admission.slot(address)
        if slot.parent not in self.supervisors:
            raise Refused(
                f"{slot.parent}, which supervises {address}, does not run: what is below it is down with it"
            )
        self._event(slot.parent, Stop(name_of(address)))

    def start(self, address: str) -> None:
        """Start a stopped or parked slot."""
        slot = self.admission.check_start(address)
        self._event(slot.parent, Start(name_of(address)))

    async def remove(self, address: str, recursive: bool) -> int:
        """Remove what :meth:`Admission.removal` says, a few at a time, and wait until it is gone; how many they were.
        Its mail is dead already. Raises Unavailable when the node stops, LedgerUnavailable.
        """
        gone = self.admission.removal(address, recursive)
        slots = [self._state.slots[one] for one in gone]
        self.admission.removing.add(address)
        try:
            for at in range(0, len(gone), self.removed_at_once):
                for one in gone[at : at + self.removed_at_once]:
                    self.slots.forget(one, "removed by an operator")
                await asyncio.sleep(0)
            try:
                await self.slots.gone(slots)
            finally:  # also what goes later, when the disk takes it, is started no more
                self._unlist(address)
        finally:
            self.admission.removing.discard(address)
        return len(gone)

    def _unlist(self, address: str) -> None:
        """Its supervisor, if one is there and not ending, knows it no more."""
        parent, name = parent_of(address), name_of(address)
        supervisor = self.supervisors.get(parent)
        if supervisor is not None and supervisor.closing is None and name in supervisor.table:
            self._event(parent, Remove(name))

    def kill(self, address: str, signal: str) -> None:
        """Send an exit signal to a process and all below it: ``term`` lets open turns end, ``kill`` does not. The
        supervisor of ``address`` then decides what becomes of it; what comes back does so with its children.
        """
        process = self._live.at(address)
        if process is None:
            raise NotFound(f"{address} has no process just now")
        if signal == "kill":
            self._end(process, KILLED, 0.0, "killed by an operator")
        else:
            self._end(process, SHUTDOWN, TERM_S)

    # -- reports from below --------------------------------------------------------------------------------------

    def started(self, pid: int, cell: str) -> None:
        """The cell says the process runs. What runs and is no process of the node any more is stopped where it is."""
        process = self._live.get(pid)
        if process is None:
            self._launcher.stop(pid, NOPROC)
            return
        if process.state not in (ProcessState.STARTING, ProcessState.STOPPING):
            return
        process.on(ProcessEvent.STARTED)
        body = {"address": process.address, "pid": pid, "cell": cell}
        cause = self._state.slots[process.address].spawned_seq
        self._recorder.must([Draft("process.started", body, pid, str(pid), b"", cause)])
        self._starts.started(process.address, pid)
        self._event(parent_of(process.address), Started(name_of(process.address), pid))
        self._signals.say(ProcessRunning(process.address))

    def start_failed(self, pid: int, reason: str, detail: str) -> None:
        """The process never ran, and its cell knows."""
        process = self._live.get(pid)
        if process is not None:
            self._gone(ProcessExited(process, reason, detail, False, None))

    def refused(self, pid: int, why: str) -> None:
        """There is no cell left for the process. Who asked for its start is told; one that comes back waits for a cell,
        and is not to blame.
        """
        process = self._live.get(pid)
        if process is not None:
            child = self.supervisors.child(process.address)
            asked_for = child is not None and child.slot is SlotState.RUNNING
            self.start_failed(pid, CRASH if asked_for else CELL_LOST, why)

    def exit(self, pid: int, reason: str, detail: str = "", told: bool = False, beside: bool = False) -> None:
        """The node declares a process dead. ``told``: its cell knows already. ``beside``: it ended of an earlier turn
        than it is in, which it had not left yet.
        """
        process = self._live.get(pid)
        if process is None:
            return
        if not told and process.spec.type == "worker":
            self._launcher.stop(pid, reason)
        self._gone(_exit_of(process, reason, detail), beside)

    def exited(self, end: ProcessExited) -> None:
        """What the tree makes of an exit: a restart, or the end of more."""
        address = end.process.address
        if not end.started:
            self._not_started(address, end.reason, end.detail, end.batch)
        elif address != ROOT:
            exited = Exited(name_of(address), end.process.pid, end.reason, end.batch)
            self._event(parent_of(address), exited)
        self._leave_if_down(address)

    def _not_started(self, address: str, reason: str, detail: str, batch: str | None = None) -> None:
        why = f"{address} did not start: {detail}"
        if not is_blameless(reason) and not self.supervisors.is_restarted(address):
            self._starts.failed(address, why)
        self._event(parent_of(address), StartFailed(name_of(address), reason, batch))
        if not self.supervisors.comes_back(address):
            self._starts.failed(address, why)

    def _leave_if_down(self, address: str) -> None:
        """What has ended at ``address`` stays so, when its slot or one above is down."""
        down = self._state.slots.down(address)
        if down is not None and down.address == address:
            self._leave(down)
        elif down is not None:
            self._signals.say(AddressDown(address, f"{down.address} is {down.state}"))

    def _gone(self, end: ProcessExited, beside: bool = False) -> None:
        self._recorder.must([self._taken_out(end, beside=beside)])
        self._keep_unwritten([end])
        self._signals.say(end)

    def _keep_unwritten(self, ends: list[ProcessExited]) -> None:
        """What successors are to be told, which start though the disk takes nothing."""
        if self._recorder.is_behind:
            now_us = self._recorder.ledger.now_us()
            for end in ends:
                exit_ = Exit(end.process.pid, end.reason, end.detail[:500], now_us)
                self._unwritten[end.process.address] = exit_
            self._recorder.when_writable("ends", self._unwritten.clear)

    def _taken_out(self, end: ProcessExited, *, unexplained: bool = False, beside: bool = False) -> Draft:
        """The record of an exit, of a process that is live no more. ``unexplained``: its cell died, and nobody is to
        blame; so that may lie in its turn, unless that waits for the node. ``beside``: it does not lie in its turn.
        """
        process = end.process
        in_turn = unexplained and not process.asked if end.reason == CELL_LOST else not beside
        process.on(ProcessEvent.EXIT)
        self._live.remove(process.pid)
        self._endings.pop(process.address, None)
        body = {
            "address": process.address,
            "pid": process.pid,
            "reason": end.reason,
            "detail": end.detail[:500],
            "turn": process.turn if in_turn else "",
        }
        turn = self._state.turns.get(process.turn)  # the detail may quote it, and goes when it is erased
        cause = turn.started_seq if turn is not None else -1
        return Draft("process.exited", body, process.pid, str(process.pid), b"", cause)

    # -- supervision ---------------------------------------------------------------------------------------------

    def _event(self, address: str, event: Event) -> None:
        supervisor = self.supervisors.get(address)
        if supervisor is None:
            return
        failed = isinstance(event, (Exited, StartFailed))  # nothing else is jittered, and randomness costs
        jitter = self._chance.random() if failed else 0.0
        after, effects = step(supervisor, event, self._clock.now_s(), jitter)
        self.supervisors[address] = after
        if supervisor.closing is None and after.closing is not None:
            for below in self._state.slots.tree(address):
                if below != address:
                    self._drain(below)
        self.effects.carry_out(address, effects)

    def _perform(self, supervisor: str, effect: Effect | ProcessExited) -> None:
        match effect:
            case ProcessExited():
                self._signals.tell(effect)
            case StartChild(id=ident):
                self._start_child(child_of(supervisor, ident))
            case StartChildAfter(id=ident, delay_s=delay_s):
                self.effects.later(delay_s, lambda: self._event(supervisor, RestartDue(ident)))
            case StopChild(id=ident, reason=reason, timeout_s=timeout_s, why=why):
                self._stop_child(child_of(supervisor, ident), reason, timeout_s, why)
            case SlotChanged(id=ident, state=state, why=why):
                self._slot_changed(child_of(supervisor, ident), state, why)
            case Dropped(id=ident, why=why):
                self._drop(child_of(supervisor, ident), why)
            case GiveUp(reason=reason):
                self._gave_up(supervisor, reason)

    def _start_child(self, address: str) -> None:
        slot = self._state.slots.get(address)
        if self.effects.closed:
            return
        if slot is None:  # removed while this waited for its round; the supervisor is owed a report
            self._event(parent_of(address), StartFailed(name_of(address), KILLED))
            return
        self._unnumbered.discard(address)
        if not self.supervisors.awaits(address):  # a start that waited for a PID, given up or made since
            return
        pid = self.pids.next()
        if pid is None:
            self._unnumbered.add(address)
            self.pids.when_reserved(lambda: self._start_numbered(address))
            return
        process = LiveProcess(pid, address, slot.spec, self._clock.now_s())
        process.draining = any(self.supervisors.is_ending(above) for above in ancestors(address))
        process.after = self._unwritten.get(address, NEVER)
        self._live.add(process)
        if slot.spec.type == "supervisor":
            self._begin_children(address)
            self.started(process.pid, "node")
            return
        self._resume_children(address)
        self._launcher.place(process)

    def _start_numbered(self, address: str) -> None:
        """There are PIDs again, for a start that waits: until its round comes it may still be given up."""
        if address in self._unnumbered:
            self.effects.carry_out(parent_of(address), [StartChild(name_of(address))])

    def _resume_children(self, address: str) -> None:
        """Start again what is below a worker, unless it runs, or has not ended yet."""
        if address not in self.supervisors and self._state.slots.children(address):
            self._begin_children(address)

    # -- ending --------------------------------------------------------------------------------------------------

    def _stop_child(self, address: str, reason: str, timeout_s: float, why: str) -> None:
        process = self._live.at(address)
        if process is not None:
            self._end(process, reason if timeout_s > 0 else KILLED, timeout_s, why)
        elif address in self._unnumbered:
            self._unnumbered.discard(address)
            self._not_started(address, reason, "it was ended before there was a PID for it")
            self._leave_if_down(address)

    def _end(self, process: LiveProcess, reason: str, timeout_s: float, detail: str = "") -> None:
        """End a process after all that is below it. Open turns have ``timeout_s`` to end, counted from when they were
        first told; 0 or less: nothing is waited for.
        """
        address, hard = process.address, timeout_s <= 0
        known = self._endings.get(address)
        if known is None or (hard and not known.hard):
            self._endings[address] = Ending(reason, detail, hard)
        if not hard:
            self._drain(address)
        self._shut(address, KILLED if hard else reason)
        self._finish(address)
        if not hard and timeout_s < INFINITY and self._live.get(process.pid) is not None:
            now_s = self._clock.now_s()
            if process.draining_s is None:
                process.draining_s = now_s
            left_s = max(0.0, process.draining_s + timeout_s - now_s)
            self.effects.later(left_s, lambda: self._overdue(process.pid, timeout_s))

    def _overdue(self, pid: int, timeout_s: float) -> None:
        process = self._live.get(pid)
        if process is not None:
            ending = self._endings.get(process.address)
            late = f"did not stop within {timeout_s:g} s"
            self._end(process, KILLED, 0.0, f"{ending.detail}: {late}" if ending and ending.detail else late)

    def _drain(self, address: str) -> None:
        """No new turn for the worker at ``address``; how an open one ends is its own business."""
        process = self._live.at(address)
        if process is None or process.draining or process.spec.type == "supervisor":
            return
        process.draining, process.draining_s = True, self._clock.now_s()
        if process.state in (ProcessState.RUNNING, ProcessState.SUSPENDED):
            process.on(ProcessEvent.STOP)

    def _shut(self, address: str, reason: str) -> None:
        """End what is below ``address``."""
        self._event(address, Shutdown(reason))
        if address in self._held:
            for below in self._late(address):
                self._shut(below, reason)

    def _late(self, address: str) -> list[str]:
        """Children, the last first, below which something has not ended yet."""
        below = reversed(self._state.slots.children(address))
        return [child.address for child in below if child.address in self.supervisors]

    def _finish(self, address: str) -> None:
        """Exit a worker that is ending, when nothing is below it any more and its turn has ended."""
        ending, process = self._endings.get(address), self._live.at(address)
        if ending is None or process is None or address in self.supervisors:
            return
        if ending.hard or not process.turn or process.state is ProcessState.STARTING:
            self.exit(process.pid, ending.reason, ending.detail)

    def drained(self, pid: int) -> None:
        """The last turn of an ending process has ended."""
        process = self._live.get(pid)
        if process is not None:
            self._finish(process.address)

    def _gave_up(self, address: str, reason: str) -> None:
        """The supervisor at ``address`` has no child any more that runs."""
        late = self._late(address)
        if late:
            self._held[address] = reason
            for below in late:
                self._shut(below, reason)
            return
        self.supervisors.pop(address, None)
        for waited in self._starts.below(address):
            self._starts.failed(waited, f"{address} has ended: {waited} starts when that does")
        process = self._live.at(address)
        if address in self._dropping:
            self.slots.forget_tree(address, self._dropping.pop(address))
        elif process is not None and process.spec.type == "supervisor":
            ending = self._endings.get(address)
            self.exit(process.pid, reason, ending.detail if ending is not None else "")
        elif address in self._endings:
            self._finish(address)
        elif process is not None and not process.draining:
            self._resume_children(address)
        above = parent_of(address)
        if above in self._held and not self._late(above):
            self._gave_up(above, self._held.pop(above))

    def _slot_changed(self, address: str, state: SlotState, why: str) -> None:
        slot = self._state.slots.get(address)
        if slot is None:
            return
        self.slots.change(slot, state, why)
        if state not in (SlotState.STOPPED, SlotState.PARKED):
            return
        if slot.state != state:  # the disk has yet to take it, and the process may end meanwhile
            self._recorder.when_writable(("left", address), lambda: self._left(address))
        if self._live.at(address) is None:
            self._starts.failed(address, f"{address} is {state}: {why}")
            self._leave(slot)

    def _left(self, address: str) -> None:
        """A slot that is down has been recorded so: its process may have ended before."""
        if self._live.at(address) is None:
            self._leave_if_down(address)

    def _leave(self, slot: Slot) -> None:
        """A slot that is down until somebody starts it: its mail is dead, and its children end with it.

        What is below and still runs has its mail made dead letters when it has ended.
        """
        for address in self._state.slots.tree(slot.address):
            if self._live.at(address) is None:
                self._signals.say(AddressDown(address, f"{slot.address} is {slot.state}"))
        if slot.spec.type == "worker":
            self._shut(slot.address, SHUTDOWN)

    def _drop(self, address: str, why: str) -> None:
        """A slot that is no more, and all below it; what runs there is killed."""
        self._dropping[address] = why
        if address in self.supervisors:
            self._shut(address, KILLED)
        else:
            self.slots.forget_tree(address, self._dropping.pop(address))

    # -- losses --------------------------------------------------------------------------------------------------

    def cell_lost(self, cell: str | None, running_pid: int, pids: list[int], why: str) -> None:
        """One event for all of a cell's processes: the running one crashed, the others lost their cell. ``cell`` is
        None when it did not die by itself.

        None of them is live from now on, and that is recorded. What follows is done for a few at a time, and for all of
        them before any comes back: that is an effect of a supervisor, which stands behind them in the same queue.
        """
        lost = [process for pid in pids if (process := self._live.get(pid)) is not None]
        ends = [
            _exit_of(process, CRASH if process.pid == running_pid else CELL_LOST, why, cell)
            for process in lost
        ]
        unexplained = cell is not None and all(end.reason == CELL_LOST for end in ends)
        drafts = [self._taken_out(end, unexplained=unexplained) for end in ends]
        for at in range(0, len(drafts), EXITS_IN_A_UNIT):
            self._recorder.must(drafts[at : at + EXITS_IN_A_UNIT])
        self._keep_unwritten(ends)
        self.effects.carry_out("", ends)

    async def close(self) -> None:
        """Stop what is running, without a word to the slots: they start again with the next boot."""
        self.effects.close()
        self._starts.cancel()


def _exit_of(process: LiveProcess, reason: str, detail: str, batch: str | None = None) -> ProcessExited:
    started = process.state is not ProcessState.STARTING
    return ProcessExited(process, reason, detail if started else detail or reason, started, batch)
