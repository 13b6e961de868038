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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, Protocol

from chain.journal.ticket import Ticket
from chain.ledger.ledger import Draft
from kernel.chance import Chance
from kernel.clock import Clock, LoopClock
from kernel.errors import NotFound, Refused, StateError, SupervisionError
from kernel.model.address import ROOT, USER, ancestors, child_of, name_of
from kernel.model.address import parent as parent_of
from kernel.model.commands import Command
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
    is_logical,
    shutdown_because,
)
from kernel.operations.rights.budgets import PAUSED_BY, Resource
from kernel.policy.pipeline import Policy
from kernel.process.admission import Admission
from kernel.process.effects import Effects
from kernel.process.foreseen import ForeseenEnds
from kernel.process.listing import Listing
from kernel.process.live import LiveProcess, LiveTable, Supervisors
from kernel.process.pid_blocks import PidBlocks
from kernel.process.process_signals import (
    AddressDown,
    ProcessExited,
    ProcessRunning,
)
from kernel.process.slots.change import Change, change_of
from kernel.process.slots.slot_writer import SlotWriter
from kernel.process.slots.specs import TERM_S, child_spec, flags_of
from kernel.process.starts import Starts, StartsTogether
from kernel.signals import Signals
from kernel.slices.tree.exits import NEVER, Exit
from kernel.slices.tree.slots import DOWN, Slot
from kernel.state.recorder import Recorder
from kernel.supervision.reducer import (
    INFINITY,
    Add,
    ChangeSpec,
    Dropped,
    Effect,
    Event,
    Exited,
    Flags,
    GiveUp,
    Phase,
    Remove,
    Restart,
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
    add_all,
    all_started,
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
    """How a worker is to exit once nothing is left below it. ``hard``: without waiting for its turn. ``cause``: the
    entry of who asked for that, or for the end of what is above; -1 for nobody.
    """

    reason: str
    detail: str
    hard: bool
    cause: int


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
        self._chance = chance or Chance()
        self.listing = Listing(recorder.state, live, self._clock.now_s)
        self.supervisors = Supervisors(live)
        self.effects = Effects(self._perform, self._clock)
        self.removed_at_once = REMOVED_AT_ONCE
        self._starts = Starts()
        self.slots = SlotWriter(recorder, self.effects, self._starts, signals)
        self._foreseen = ForeseenEnds(self.supervisors, live, recorder.state.slots, self.slots, self._clock)
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

    def begin_all(self, addresses: Iterable[str]) -> None:
        """As :meth:`begin` of each: those of one parent are added to its supervisor at once."""
        for parent, some in groupby(addresses, parent_of):
            self._begin_below(parent, [*some])

    def _begin_below(self, parent: str, addresses: list[str]) -> None:
        supervisor = self.supervisors.get(parent)
        slots = [self._state.slots.get(address) for address in addresses]
        if supervisor is None or self.supervisors.is_ending(parent) or None in slots:
            for address in addresses:
                self.begin(address)
            return
        specs = [child_spec(slot.spec) for slot in slots if slot and slot.spec.name not in supervisor.table]
        try:
            self.supervisors[parent], effects = add_all(supervisor, specs)
        except SupervisionError:  # those before the one at fault are begun all the same
            for address in addresses:
                self.begin(address)
            return
        self.effects.carry_out(parent, effects)

    def when_started(self, address: str, after: int = 0) -> asyncio.Future[int]:
        """A future of the next PID that runs at ``address``, above ``after``; fails with Refused as its start does."""
        future, process = self._starts.wait(address), self._live.at(address)
        if process is not None and process.state is ProcessState.RUNNING and process.pid > after:
            self._starts.started(address, process.pid)
        return future

    def when_all_started(self, addresses: Iterable[str]) -> StartsTogether:
        """The same of slots that were just made, as one thing to wait for."""
        return self._starts.wait_for_all(addresses)

    def check_stop(self, address: str) -> None:
        """Raises what :meth:`stop` would."""
        self._try(self._stoppable(address).parent, Stop(name_of(address)))

    def stop(self, address: str, command: Command | None = None, reason: str = SHUTDOWN) -> None:
        """Stop a slot: it ends orderly and stays down until it is started by hand. ``command``: its cause."""
        slot = self._stoppable(address)
        self._event(slot.parent, Stop(name_of(address), *_because(command, "stopped"), reason))

    def _stoppable(self, address: str) -> Slot:
        slot = self.admission.slot(address)
        if slot.parent not in self.supervisors:
            raise Refused(
                f"{slot.parent}, which supervises {address}, does not run: what is below it is down with it"
            )
        return slot

    def may_sleep(self, address: str) -> bool:
        """Whether :meth:`sleep` can be asked for now."""
        supervisor, child = self.supervisors.get(parent_of(address)), self.supervisors.child(address)
        return (
            supervisor is not None
            and supervisor.closing is None
            and child is not None
            and child.phase is Phase.UP
        )

    def sleep(self, address: str, why: str) -> None:
        """Stop a slot for a while, ``why``: it is down without being left, and :meth:`woken` has it begin again."""
        slot = self._state.slots[address]
        self.slots.change(slot, SlotState.STOPPED, why)
        self._event(slot.parent, Stop(name_of(address), why, -1, shutdown_because(why)))

    def wake(self, address: str) -> Draft:
        """What writes that a slot that sleeps is to run; when that is written, it begins."""
        body = {"address": address, "state": str(SlotState.RUNNING), "why": ""}
        return Draft("process.slot", body, 0, "", b"", self._state.slots[address].spawned_seq)

    def woken(self, address: str) -> None:
        """Start a slot that was just written as running; one whose parent ends, or does not run, starts with it."""
        child = self.supervisors.child(address)
        if child is None:
            self.begin(address)
        elif child.phase is Phase.NONE and not self.supervisors.is_ending(parent_of(address)):
            self._event(parent_of(address), Start(name_of(address)))

    def falls_asleep(self, address: str) -> bool:
        """Whether what runs at ``address`` has been told to end and has not ended yet."""
        child = self.supervisors.child(address)
        return child is not None and child.phase is Phase.STOPPING

    def let_go(self, address: str, why: str) -> None:
        """Remove a slot at which nothing runs, with all that is of it."""
        self.slots.forget_tree(address, why)
        self._unlist(address)

    def check_suspend(self, address: str) -> Slot:
        """Raises what :meth:`suspend` would."""
        slot = self.admission.slot(address)
        if slot.spec.type == "supervisor":
            raise Refused(f"{address} is a supervisor, which takes no turns: suspend what is below it")
        if slot.suspended:
            raise Refused(f"{address} is suspended already, by {slot.suspended}")
        return slot

    def suspend(self, address: str, command: Command) -> Ticket:
        """Have what runs at ``address``, now and later, begin no turn until :meth:`resume`. Raises Refused."""
        slot = self.check_suspend(address)
        return self._recorder.commit([suspension("process.suspended", slot.address, command)])

    def check_resume(self, address: str) -> Slot:
        """Raises what :meth:`resume` would."""
        slot = self.admission.slot(address)
        if not slot.suspended:
            raise Refused(f"{address} is not suspended by a person; weftos ps shows what it waits for")
        return slot

    def resume(self, address: str, command: Command, *first: Draft) -> Ticket:
        """Have it go on: its messages are for whoever hears that it runs. ``first`` is recorded before that, in one
        unit. Raises Refused.
        """
        self.check_resume(address)
        ticket = self._recorder.commit([*first, suspension("process.resumed", address, command)])
        self._signals.tell(ProcessRunning(address))
        return ticket

    def check_restart(self, address: str) -> None:
        """Raises what :meth:`restart` would."""
        self.admission.check_not_removed(address)
        self._try(self.admission.slot(address).parent, Restart(name_of(address)))

    def restart(self, address: str, command: Command | None = None) -> None:
        """End what runs at a slot in order and start it again, with all its mail; charged to nobody. What was open in
        its turn is handed out again. ``command``: the cause of that end.
        """
        self.admission.check_not_removed(address)
        event = Restart(name_of(address), *_because(command, "restarted"))
        self._event(self.admission.slot(address).parent, event)

    def check_start(self, address: str) -> None:
        """Raises what :meth:`start` would."""
        self._try(self.admission.check_start(address).parent, Start(name_of(address)))

    def start(self, address: str) -> None:
        """Start a stopped or parked slot."""
        slot = self.admission.check_start(address)
        self._event(slot.parent, Start(name_of(address)))

    def change_of(self, address: str, fields: Mapping[str, Any]) -> Change:
        """What :meth:`change` would do. Raises what :func:`change_of` does, and Busy."""
        self.admission.check_not_removed(address)
        return change_of(self._state.slots, self.supervisors, self._state.accounts.book, address, fields)

    def change(self, address: str, fields: Mapping[str, Any], trace: bytes, cause: int) -> Ticket:
        """Change the spec of a slot, and by it the flags of the supervisor of its children: all of it or nothing."""
        change = self.change_of(address, fields)
        body = {"address": address, "spec": change.spec.to_json(), "fields": list(change.fields)}
        drafts = [Draft("process.changed", body, 0, "", trace, cause)]
        if change.lines is not None:
            drafts.append(_relined(change, change.lines, trace, cause))
        if change.resumes:
            drafts.append(suspension("process.resumed", address, Command(cause, PAUSED_BY)))
        ticket = self._recorder.commit(drafts)
        for supervisor, event in change.events:
            self._event(supervisor, event)
        if change.resumes:
            self._signals.tell(ProcessRunning(address))
        return ticket

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

    def check_running(self, address: str) -> LiveProcess:
        """What runs at ``address``. Raises NotFound."""
        process = self._live.at(address)
        if process is None:
            raise NotFound(f"{address} has no process just now; weftos ps shows why")
        return process

    def kill(self, address: str, signal: str, command: Command | None = None) -> None:
        """Send an exit signal to a process and all below it: ``term`` lets open turns end, ``kill`` does not. The
        supervisor of ``address`` then decides what becomes of it; what comes back does so with its children.
        ``command``: the cause of these ends. Raises NotFound.
        """
        process = self.check_running(address)
        if signal == "kill":
            self._end(process, KILLED, 0.0, *_because(command, "killed"))
        else:
            self._end(process, SHUTDOWN, TERM_S, *_because(command, "terminated"))

    # -- reports from below --------------------------------------------------------------------------------------

    def started(self, pid: int, cell: str) -> None:
        """The process runs."""
        self.all_started((pid,), cell)

    def all_started(self, pids: Sequence[int], cell: str) -> None:
        """The cell says that these run: one unit of records. What runs and is no process of the node any more is
        stopped where it is.
        """
        now_s = self._clock.now_s()
        begun = [process for pid in pids if (process := self._begun(pid, now_s)) is not None]
        if begun:
            self._recorder.must([self._start_of(process, cell) for process in begun])
        for parent, some in groupby(begun, lambda process: parent_of(process.address)):
            starts = [Started(name_of(process.address), process.pid) for process in some]
            self._report_started(parent, starts, now_s)
        for process in begun:
            if self._live.get(process.pid) is process:  # else what follows from one before it has ended it
                self._starts.started(process.address, process.pid)
                self._signals.say(ProcessRunning(process.address))

    def _report_started(self, parent: str, starts: list[Started], now_s: float) -> None:
        supervisor = self.supervisors.get(parent)
        if supervisor is not None:
            self.supervisors[parent], effects = all_started(supervisor, starts, now_s)
            self.effects.carry_out(parent, effects)

    def _begun(self, pid: int, now_s: float) -> LiveProcess | None:
        """The process that runs from now on; None when it is none any more, or does so already."""
        process = self._live.get(pid)
        if process is None:
            self._launcher.stop(pid, NOPROC)
        elif process.state in (ProcessState.STARTING, ProcessState.STOPPING):
            process.on(ProcessEvent.STARTED)
            process.since_s = now_s
            return process
        return None

    def _start_of(self, process: LiveProcess, cell: str) -> Draft:
        body = {"address": process.address, "cell": cell, "pid": process.pid}
        cause = self._state.slots[process.address].spawned_seq
        return Draft("process.started", body, process.pid, str(process.pid), b"", cause)

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

    def exit(
        self,
        pid: int,
        reason: str,
        detail: str = "",
        told: bool = False,
        beside: bool = False,
        cause: int = -1,
    ) -> None:
        """The node declares a process dead. ``told``: its cell knows already. ``beside``: it ended of an earlier turn
        than it is in, which it had not left yet. ``cause``: the entry of who asked for it, where somebody did.
        """
        process = self._live.get(pid)
        if process is None:
            return
        if not told and process.spec.type == "worker":
            self._launcher.stop(pid, reason)
        self._gone(_exit_of(process, reason, detail), beside, cause)

    def end_for(self, address: str, reason: str, why: str, cause: int) -> None:
        """What runs at ``address`` ends for a logical ``reason``, in order: its turn has the time for it that its spec
        says. What follows is for its ``on_logical``. ``cause``: the entry that led to it. Nothing is done while it
        starts, and when it ends already.
        """
        process, child = self._live.at(address), self.supervisors.child(address)
        if process is None or child is None or process.draining or process.state is ProcessState.STARTING:
            return
        self._end(process, reason, child.spec.shutdown_s, why, cause)

    def taken_along(self, address: str, pid: int, reason: str, why: str) -> None:
        """What runs at ``address`` ends with one that it is linked with: the incarnation ``pid``, or the present one
        for 0. Its turn has no part in that; what does not run yet was linked with nothing.
        """
        process = self._live.at(address)
        if process is not None and process.state is not ProcessState.STARTING and pid in (0, process.pid):
            self.exit(process.pid, reason, why, beside=True)

    def exited(self, end: ProcessExited) -> None:
        """What the tree makes of an exit: a restart, or the end of more."""
        address = end.process.address
        if not end.started:
            self._not_started(address, end.reason, end.detail, end.batch)
        elif address != ROOT:
            exited = Exited(name_of(address), end.process.pid, end.reason, end.batch)
            self._foreseen.ends(address)
            self._event(parent_of(address), exited)
            self._foreseen.over(address)
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
        if down is None or self._may_come_back(down.address):
            return
        if down.address == address:
            self._leave(down)
        else:
            self._signals.say(AddressDown(address, f"{down.address} is {down.state}"))

    def _may_come_back(self, address: str) -> bool:
        """Whether it is recorded as down, and has been started since: the disk has yet to take that."""
        child = self.supervisors.child(address)
        return child is not None and child.slot not in DOWN

    def _gone(self, end: ProcessExited, beside: bool = False, cause: int = -1) -> None:
        self._recorder.must([self._taken_out(end, beside=beside, cause=cause)])
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

    def _taken_out(
        self, end: ProcessExited, *, unexplained: bool = False, beside: bool = False, cause: int = -1
    ) -> Draft:
        """The record of an exit, of a process that is live no more. ``unexplained``: its cell died, and nobody is to
        blame; so that may lie in its turn, unless that waits for the node. ``beside``: it does not lie in its turn.
        ``cause``: who asked for it, else its turn is what led to it.
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
        if cause < 0 and turn is not None:
            cause = turn.started_seq
        return Draft("process.exited", body, process.pid, str(process.pid), b"", cause)

    # -- supervision ---------------------------------------------------------------------------------------------

    def _try(self, address: str, event: Event) -> None:
        """Raises what the supervisor at ``address`` has against what is asked of it. Nothing changes."""
        supervisor = self.supervisors.get(address)
        if supervisor is not None:
            step(supervisor, event, self._clock.now_s(), 0.0)

    def _event(self, address: str, event: Event) -> None:
        supervisor = self.supervisors.get(address)
        if supervisor is None:
            return
        failed = isinstance(event, (Exited, StartFailed))  # nothing else is jittered, and randomness costs
        jitter = self._chance.random() if failed else 0.0
        after, effects = step(supervisor, event, self._clock.now_s(), jitter)
        self.supervisors[address] = after
        if supervisor.closing is None and after.closing is not None:
            if not isinstance(event, Shutdown):
                self._foreseen.begun(address)
            for below in self._state.slots.tree(address):
                if below != address:
                    self._drain(below)
        else:
            if isinstance(event, ChangeSpec):
                self._foreseen.respecified(child_of(address, event.spec.id))
            self._foreseen.look(address)
        self.effects.carry_out(address, effects)

    def _perform(self, supervisor: str, effect: Effect | ProcessExited) -> None:
        match effect:
            case ProcessExited():
                self._signals.tell(effect)
            case StartChild(id=ident):
                self._start_child(child_of(supervisor, ident))
            case StartChildAfter(id=ident, delay_s=delay_s):
                self.effects.later(delay_s, lambda: self._event(supervisor, RestartDue(ident)))
            case StopChild():
                self._stop_child(child_of(supervisor, effect.id), effect)
            case SlotChanged():
                self._slot_changed(child_of(supervisor, effect.id), effect)
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
        process.alone = self.slots.is_isolated(slot)
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

    def _stop_child(self, address: str, stop: StopChild) -> None:
        process = self._live.at(address)
        if process is not None:
            reason = stop.reason if stop.timeout_s > 0 else KILLED
            cause = stop.cause if stop.cause >= 0 else self._cause_above(address)
            self._end(process, reason, stop.timeout_s, stop.why, cause)
        elif address in self._unnumbered:
            self._unnumbered.discard(address)
            self._not_started(address, stop.reason, "it was ended before there was a PID for it")
            self._leave_if_down(address)

    def _cause_above(self, address: str) -> int:
        """The entry of who has asked for the end of something above, which takes ``address`` along; -1 for nobody."""
        endings = map(self._endings.get, ancestors(address))
        return next((ending.cause for ending in endings if ending is not None and ending.cause >= 0), -1)

    def _end(
        self, process: LiveProcess, reason: str, timeout_s: float, detail: str = "", cause: int = -1
    ) -> None:
        """End a process after all that is below it. Open turns have ``timeout_s`` to end, counted from when they were
        first told; 0 or less: nothing is waited for. ``cause``: the entry of who asked for it.
        """
        address, hard = process.address, timeout_s <= 0
        known = self._endings.get(address)
        if known is None or (hard and not known.hard):
            self._endings[address] = Ending(reason, detail, hard, cause)
        if not hard:
            self._drain(address)
            if process.draining_s is None:
                process.draining_s = self._clock.now_s()
        self._shut(address, KILLED if hard else reason)
        self._finish(address)
        if not hard and timeout_s < INFINITY and self._live.get(process.pid) is not None:
            assert process.draining_s is not None
            left_s = max(0.0, process.draining_s + timeout_s - self._clock.now_s())
            self.effects.later(left_s, lambda: self._overdue(process.pid, timeout_s))

    def _overdue(self, pid: int, timeout_s: float) -> None:
        process = self._live.get(pid)
        if process is not None:
            ending = self._endings.get(process.address)
            late = f"did not stop within {timeout_s:g} s"
            told = f"{ending.detail}: {late}" if ending and ending.detail else late
            reason = ending.reason if ending and is_logical(ending.reason) else KILLED
            self._end(process, reason, 0.0, told, ending.cause if ending else -1)

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
            self.exit(process.pid, ending.reason, ending.detail, cause=ending.cause)

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
            detail, cause = (ending.detail, ending.cause) if ending is not None else ("", -1)
            self.exit(process.pid, reason, detail, cause=cause)
        elif address in self._endings:
            self._finish(address)
        elif process is not None and not process.draining:
            self._resume_children(address)
        above = parent_of(address)
        if above in self._held and not self._late(above):
            self._gave_up(above, self._held.pop(above))

    def _slot_changed(self, address: str, change: SlotChanged) -> None:
        slot, state, why = self._state.slots.get(address), change.state, change.why
        if slot is None:
            return
        if self.slots.meant(slot) is not state:
            self.slots.change(slot, state, why, change.cause)
        if change.cause >= 0 or state is not SlotState.STOPPED:
            self._foreseen.over(address)  # it will not end by itself
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

    def cell_lost(
        self,
        cell: str | None,
        running_pid: int,
        pids: list[int],
        why: str,
        reason: str = CRASH,
        felled_by: tuple[str, int] | None = None,
    ) -> None:
        """One event for all of a cell's processes: the running one exits for ``reason``, the others lost their cell,
        and are told to whom; it comes first. ``cell`` is None when it did not die by itself. ``felled_by``: address and
        PID of who has taken it down, who need not be live any more.

        None of them is live from now on, and that is recorded. What follows is done for a few at a time, and for all of
        them before any comes back: that is an effect of a supervisor, which stands behind them in the same queue.
        """
        lost = [process for pid in pids if (process := self._live.get(pid)) is not None]
        lost.sort(key=lambda process: process.pid != running_pid)
        told = why if cell is None else f"{why}; {_culprit(lost, running_pid, felled_by)}"
        ends = [
            _exit_of(process, reason, why, cell)
            if process.pid == running_pid
            else _exit_of(process, CELL_LOST, told, cell)
            for process in lost
        ]
        known = felled_by is not None or any(end.reason != CELL_LOST for end in ends)
        unexplained = cell is not None and not known
        if cell is not None and felled_by is not None:
            address, pid = felled_by
            there = self._live.at(address)
            self.slots.felled(address, pid, cell, reason, live=there is not None and there.pid == pid)
        drafts = [self._taken_out(end, unexplained=unexplained) for end in ends]
        for at in range(0, len(drafts), EXITS_IN_A_UNIT):
            self._recorder.must(drafts[at : at + EXITS_IN_A_UNIT])
        self._keep_unwritten(ends)
        self.effects.carry_out("", ends)

    async def close(self) -> None:
        """Stop what is running, without a word to the slots: they start again with the next boot."""
        self.effects.close()
        self._starts.cancel()


def _culprit(lost: list[LiveProcess], running_pid: int, felled_by: tuple[str, int] | None) -> str:
    """Who took the others of its cell along, in words for them."""
    for process in lost:
        if process.pid == running_pid:
            return f"{process.address} (PID {process.pid}) was running"
    return "no culprit is known" if felled_by is None else f"it was {felled_by[0]}, which had exited"


def _because(command: Command | None, what: str) -> tuple[str, int]:
    """In words, and the entry that says so."""
    return ("", -1) if command is None else (command.told(what), command.seq)


def suspension(kind: str, address: str, command: Command) -> Draft:
    """``process.suspended`` or ``process.resumed``, with the cause of it."""
    return Draft(kind, {"address": address, "by": command.by}, 0, "", b"", command.seq)


def _relined(change: Change, lines: Mapping[Resource, int], trace: bytes, cause: int) -> Draft:
    """What the account of a process has from then on."""
    budget = change.spec.budget
    body = {
        "address": change.address,
        "then": "refuse" if budget is None else budget.then,
        "resources": list(lines),
        "amounts": list(lines.values()),
    }
    return Draft("budget.changed", body, 0, "", trace, cause)


def _exit_of(process: LiveProcess, reason: str, detail: str, batch: str | None = None) -> ProcessExited:
    started = process.state is not ProcessState.STARTING
    return ProcessExited(process, reason, detail if started else detail or reason, started, batch)
