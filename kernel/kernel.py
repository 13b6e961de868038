"""The kernel of one node: its parts, built once in the order in which they stand on each other, and the table of who
hears what.

Every decision is elsewhere: ``processes`` (the tree), ``turns`` (messages and their handling), ``syscalls``,
``tool_calls`` and ``model_calls`` (what turns ask), ``messaging`` and ``router`` (acceptance, dead letters).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chain.journal.sequencer import COUNTERS
from kernel.bounds import Bounds
from kernel.cells.cell_events import (
    CellAsked,
    CellCrashed,
    CellLeft,
    CellLogged,
    CellLost,
    CellRefused,
    CellStarted,
    CellStartFailed,
    CellUsed,
    EngineLost,
    TurnDiffers,
    TurnDone,
)
from kernel.cells.cell_log import CellLog
from kernel.cells.cells import Cells
from kernel.cells.launcher import BehaviourEntry, CellLauncher, Told
from kernel.chance import Chance
from kernel.clock import Clock, LoopClock
from kernel.helper.helpers import HelperNotice, Helpers, WorkerSeen
from kernel.memory.memory import Ask, Memory, no_archive
from kernel.message.downs import Downs
from kernel.message.events import Events
from kernel.message.expiries import Expiries
from kernel.message.message_signals import (
    AskAnswered,
    LettersCame,
    LinkBroken,
    MessageArrived,
    MessageDied,
    Overflowed,
    QuestionDropped,
    TurnCut,
    TurnOver,
)
from kernel.message.messaging import Messaging
from kernel.message.publications import Publications
from kernel.message.turn_feed import TurnFeed
from kernel.message.watch import Watchers
from kernel.model.states import DIVERGED
from kernel.peer.mesh_port import MeshPort, NoMesh
from kernel.peer.peer_records import PeerRefused
from kernel.peer.remote import Remote, RemoteParts
from kernel.peer.remote_calls import QuestionWithdrawn
from kernel.peer.router import Router
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import Gate
from kernel.policy.rules.in_force import NothingRuled, Rules
from kernel.policy.scope import held_tools
from kernel.policy.terms import Terms
from kernel.process.ends import Ends
from kernel.process.live import LiveTable
from kernel.process.pid_blocks import PidBlocks
from kernel.process.process_signals import (
    AddressDown,
    PidsReserved,
    ProcessExited,
    ProcessRunning,
    SlotGoing,
    SlotGone,
    SlotWoken,
    SlotWritten,
)
from kernel.process.processes import Processes
from kernel.signals import Handlers, Signals
from kernel.state.recorder import Recorder, Unrecorded
from kernel.syscall.attempts import Attempts
from kernel.syscall.memory_tools import MemoryTools
from kernel.syscall.models.asking import Gateway
from kernel.syscall.models.model_calls import ModelCalls
from kernel.syscall.models.quotes import Quotes
from kernel.syscall.monitor_calls import MonitorCalls
from kernel.syscall.node_tools import NodeTools
from kernel.syscall.prompts.compactions import Compactions
from kernel.syscall.prompts.prompt_files import PromptFileCalls
from kernel.syscall.replies import Replies
from kernel.syscall.settlement import Settlement
from kernel.syscall.syscalls import SyscallParts, Syscalls
from kernel.syscall.tool_calls import ToolCalls, ToolParts
from kernel.syscall.trap_calls import TrapCalls
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.toolbox.registry import Registry
from kernel.turn.budget_watch import BudgetWatch
from kernel.turn.cancels import Cancels, WasCut
from kernel.turn.chat_sessions import ChatSessions
from kernel.turn.divergence import Divergences
from kernel.turn.opened_sessions import OpenedSessions
from kernel.turn.partial_answers import PartialAnswers
from kernel.turn.steering import Steering
from kernel.turn.turn_signals import BudgetsDue, BudgetShort, SessionRead, TimeOver, TurnDiverged, TurnDrained
from kernel.turn.turns import TurnParts, Turns
from kernel.turn.value_calls import ValueCalls
from kernel.worker.workers import Workers


@dataclass(frozen=True, slots=True)
class Environment:
    """What the kernel is told of its node. ``archive`` asks the archive; it raises HelperLost, HelperRefused. Whatever
    is random comes from ``chance``, what time has passed from ``clock``. ``name``: the node's petname. ``terms``: who
    may ask, how often, and for how much. ``protected`` is shown by no workspace. ``rules``: what configuration says of
    the calls and the time of a turn.
    """

    boot: int
    bounds: Bounds
    gates: Sequence[Gate]
    behaviours: Mapping[str, BehaviourEntry]
    log: Callable[..., None]
    archive: Ask = no_archive
    chance: Random = field(default_factory=Chance)
    clock: Clock = field(default_factory=LoopClock)
    mesh: MeshPort = field(default_factory=NoMesh)
    name: str = ""
    protected: ProtectedPaths = NOTHING_PROTECTED
    rules: Rules = field(default_factory=NothingRuled)
    terms: Terms = field(default_factory=Terms)


class Kernel:
    """The parts. ``signals`` is the queue that ``cells`` and ``workers`` say things in."""

    def __init__(
        self,
        recorder: Recorder,
        registry: Registry,
        cells: Cells,
        workers: Workers,
        gateway: Gateway,
        signals: Signals,
        env: Environment,
    ) -> None:
        bounds = env.bounds
        self.env = env
        self.recorder, self.state = recorder, recorder.state
        self.registry, self.cells, self.workers, self.gateway = registry, cells, workers, gateway
        self.live, self.watchers, self.events = LiveTable(), Watchers(), Events()
        self.opened = OpenedSessions()
        self._counters_due = 2 * COUNTERS  # so many of them are looked through
        recorder.ledger.on_group(self.events.group)
        self.feed = TurnFeed(recorder)
        self.policy = Policy(env.gates, recorder, bounds, measured=not cells.remote)
        launcher = CellLauncher(cells, self.state, env.behaviours, signals)
        self.processes = Processes(
            recorder,
            self.live,
            PidBlocks(recorder, signals),
            launcher,
            self.policy,
            signals,
            env.clock,
            env.chance,
        )
        self.helpers = Helpers(recorder, self.processes, env.log, env.clock, env.chance, workers)
        attempts = self.attempts = Attempts()
        self.ends = Ends()
        settlement = Settlement(recorder, self.live, attempts, registry, bounds)
        self.messaging = Messaging(
            recorder, self.live, bounds, self.policy, signals, self.ends, settlement.of_message, env.terms
        )
        self._expiries = Expiries(recorder, self.messaging, env.clock)
        self._downs = Downs(recorder, self.messaging)
        self.publications = Publications(recorder, self.messaging, self.policy, bounds)
        self._budget_watch = BudgetWatch(recorder, self.messaging, self.processes)
        self.remote = Remote(
            RemoteParts(
                recorder,
                self.messaging,
                self.processes,
                self.live,
                bounds,
                self.policy,
                signals,
                env.clock,
                registry.effects,
                settlement.replied,
                self.watchers.ended,
                env.name,
                env.boot,
            ),
            env.mesh,
        )
        self.router = Router(recorder, self.messaging, self.remote)
        self._replies = Replies(recorder, self.watchers, self.remote.outboxes, settlement)
        partial = PartialAnswers()
        turn_parts = TurnParts(
            self.messaging.dead_letter,
            self._replies.put,
            settlement.of_turn,
            self.remote.left_to,
            lambda spec: held_tools(spec, registry),
            partial,
            env.rules,
            Told(env.behaviours),
            registry.sizes,
        )
        self.turns = Turns(recorder, self.live, cells, bounds, self.watchers, signals, self.ends, turn_parts)
        self.cancels = Cancels(recorder, self.turns, self.watchers, signals, self.ends, self._replies.put)
        self.chats = ChatSessions(
            recorder,
            self.messaging,
            self.processes,
            self.live,
            bounds,
            env.clock,
            launcher.told,
            self.cancels,
            self.ends,
        )
        self.divergences = Divergences(
            recorder,
            self.live,
            self.messaging.dead_letter,
            settlement.of_turn,
            self.turns.deliver_next,
            attempts.under_way,
        )
        node_tools = NodeTools(
            recorder,
            self.messaging,
            self.publications,
            self.router,
            self.processes,
            self.remote,
            self.cancels,
            bounds,
            self.policy,
            env.behaviours,
        )
        self.memory = Memory(recorder, bounds, env.archive)
        tool_parts = ToolParts(
            workers,
            node_tools,
            MemoryTools(self.memory, self.policy, bounds),
            self.policy,
            bounds,
            f"{env.boot:016x}",
            env.chance,
            env.rules,
        )
        self.tool_calls = ToolCalls(
            recorder, self.live, self.turns, registry, attempts, settlement, tool_parts
        )
        self.model_calls = ModelCalls(
            recorder,
            self.turns,
            registry,
            gateway,
            self.watchers,
            self.feed,
            self.policy,
            bounds,
            env.terms,
            partial,
        )
        value_calls = ValueCalls(recorder, self.turns, env.chance)
        self._monitor_calls = MonitorCalls(
            recorder, self.live, self.turns, self.messaging, self.remote, self._downs, self.policy
        )
        self._prompt_files = PromptFileCalls(recorder, self.turns, env.protected)
        self._compactions = Compactions(recorder, self.turns, env.protected)
        syscall_parts = SyscallParts(
            self.turns,
            self.processes,
            self.tool_calls,
            self.model_calls,
            value_calls,
            self._monitor_calls,
            TrapCalls(recorder, self.turns),
            Quotes(recorder, self.turns, gateway, env.terms),
            self._prompt_files,
            Steering(recorder, self.turns, self.watchers, self.chats.policy),
            self._compactions,
            self.watchers,
            env.log,
        )
        self._syscalls = Syscalls(recorder, self.live, self.ends, bounds, syscall_parts)
        self._settlement = settlement
        self._signals = signals

    def _handlers(self, log: CellLog) -> Handlers:
        """Who hears what, in this order."""
        processes, turns, syscalls = self.processes, self.turns, self._syscalls
        return {
            CellStarted: (lambda said: processes.all_started(said.pids, said.cell),),
            CellStartFailed: (
                log.start_failed,
                lambda said: processes.start_failed(said.pid, said.reason, said.why),
            ),
            CellRefused: (log.start_failed, lambda said: processes.refused(said.pid, said.why)),
            CellAsked: (syscalls.asked,),
            TurnDiffers: (
                log.differs,
                lambda said: self.divergences.differed(
                    said.pid, said.turn, said.ordinal, said.first, said.then
                ),
            ),
            TurnDone: (syscalls.done,),
            CellCrashed: (
                log.crashed,
                lambda said: processes.exit(said.pid, "crash", said.detail, True, said.beside),
            ),
            CellLeft: (lambda said: processes.exit(said.pid, said.reason, said.detail, True, said.beside),),
            CellUsed: (
                lambda said: self._budget_watch.used(said.address, said.pid, said.cpu_ms, said.last),
                lambda said: self._budget_watch.holds(said.address, said.pid, said.memory_bytes),
            ),
            CellLogged: (log.logged,),
            CellLost: (
                log.cell_lost,
                lambda said: processes.cell_lost(
                    said.cell if said.died else None,
                    said.running_pid,
                    said.pids,
                    said.why,
                    said.reason,
                    said.felled_by,
                ),
            ),
            EngineLost: (log.engine_lost,),
            SlotWritten: (lambda said: processes.begin(said.address), lambda said: self.chats.look()),
            SlotWoken: (lambda said: processes.woken(said.address), lambda said: self.chats.look()),
            ProcessRunning: (
                lambda said: self._budget_watch.running(said.address),
                lambda said: turns.deliver_next(said.address),
            ),
            ProcessExited: (
                lambda said: self.remote.monitors.exited(said.process.pid, said.reason),
                self._downs.exited,
                turns.exited,
                self._settlement.exited,
                syscalls.exited,
                processes.exited,
            ),
            AddressDown: (
                lambda said: self._monitor_calls.gone(said.address),
                lambda said: self.messaging.dead_letter_all(said.address, said.why),
            ),
            SlotGoing: (
                lambda said: self.messaging.dead_letter_all(
                    said.slot.address, f"{said.slot.address} was removed: {said.why}"
                ),
                processes.slots.going,
            ),
            SlotGone: (
                self.model_calls.slot_gone,
                lambda said: self._monitor_calls.gone(said.slot.address),
            ),
            PidsReserved: (self._forget_counters,),
            MessageArrived: (
                lambda said: turns.deliver_next(said.address),
                lambda said: self._expiries.look(),
            ),
            MessageDied: (self._replies.died,),
            Overflowed: (self.messaging.overflowed,),
            LettersCame: (lambda said: self.messaging.trim(),),
            AskAnswered: (self.tool_calls.answered,),
            LinkBroken: (lambda said: processes.taken_along(said.address, said.pid, said.reason, said.why),),
            SessionRead: (self.opened.read,),
            TurnDiverged: (lambda said: processes.end_for(said.address, DIVERGED, said.why, said.cause),),
            TurnDrained: (lambda said: processes.drained(said.pid),),
            TurnOver: (syscalls.over,),
            BudgetsDue: (lambda said: self._budget_watch.look(),),
            BudgetShort: (lambda said: self._budget_watch.short(said.address, said.resource),),
            WasCut: (self.cancels.was_cut,),
            TurnCut: (self.tool_calls.cut,),
            TimeOver: (self.model_calls.time_over,),
            QuestionDropped: (self.remote.dropped,),
            QuestionWithdrawn: (self._withdrawn,),
            PeerRefused: (lambda said: self.remote.on_refused(said.who, said.why),),
            Unrecorded: (
                lambda said: self.env.log("something could not be recorded", kinds=said.kinds, why=said.why),
            ),
            HelperNotice: (self.model_calls.noticed,),
            WorkerSeen: (lambda said: self.helpers.worker(said.name, said.os_pid),),
        }

    def _forget_counters(self, reserved: PidsReserved) -> None:
        """PIDs that are long past write nothing any more. It is looked at when there are many more than the last time:
        thousands that live have one each, and to go through them takes the loop some milliseconds.
        """
        if self.recorder.ledger.counters < self._counters_due:
            return
        in_use = {process.pid for process in self.live.all()} | self.helpers.pids()
        in_use.update(slot.pid for slot in self.state.slots.values())
        self.recorder.ledger.forget_counters(in_use)
        self._counters_due = self.recorder.ledger.counters + COUNTERS

    def _withdrawn(self, said: QuestionWithdrawn) -> None:
        self.cancels.withdrawn(said.sender, said.reply_to, f"cancelled by who asked ({said.sender})")

    def boot(self, hears: Handlers) -> None:
        """Hear what is said from now on, settle what the last boot left in doubt, then start the tree. ``hears`` are
        the rows of those who are the node's and not the kernel's; they hear after the kernel has.
        """
        self._signals.connect(joined(self._handlers(CellLog(self.env.log, self.live)), hears))
        self.turns.histories.evict()
        self.tool_calls.recover()
        self.processes.slots.settle()
        self._downs.recover()
        self.processes.boot()
        self._budget_watch.recover()
        self._expiries.look()
        self.chats.look()

    async def close(self) -> None:
        """Stop everything that runs; mail, turns and slots stay as they are for the next boot."""
        self.helpers.closing = True
        self._expiries.close()
        self.chats.close()
        await self.remote.close()
        await self.processes.close()
        await self.model_calls.close()
        await self._prompt_files.close()
        await self._compactions.close()
        await self.tool_calls.close()
        await self.cells.close()
        await self.workers.close()
        await self.helpers.close()


def joined(first: Handlers, then: Handlers) -> dict[Any, Any]:
    """Both tables as one: a row of both is heard by the first, then by the second."""
    return {kind: (*first.get(kind, ()), *then.get(kind, ())) for kind in {**first, **then}}
