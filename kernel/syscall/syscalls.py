"""What a cell asks in a turn: held to its rules and bounds, and sent to the part it concerns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from chain.errors import LedgerUnavailable
from kernel.abi import Compaction, ToolCall
from kernel.bounds import Bounds
from kernel.cell.protocol import (
    LinkRef,
    LinkTarget,
    ModelQuestion,
    MonitorRef,
    MonitorTarget,
    Nothing,
    Quoting,
    Trapping,
)
from kernel.cells.cell_events import CellAsked, CellCall, TurnDone
from kernel.errors import KernelError, fault_of
from kernel.message.message_signals import TurnOver
from kernel.message.watch import Watchers
from kernel.model.states import NO_PROGRESS
from kernel.operations.spawning import MAX_TOOL_CHARS
from kernel.process.ends import Ends
from kernel.process.live import LiveProcess, LiveTable
from kernel.process.process_signals import ProcessExited
from kernel.process.processes import Processes
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.syscall.models.model_calls import ModelCalls
from kernel.syscall.models.quotes import Quotes
from kernel.syscall.monitor_calls import MonitorCalls
from kernel.syscall.prompts.compactions import Compactions
from kernel.syscall.prompts.prompt_files import OP as PROMPT_FILES
from kernel.syscall.prompts.prompt_files import PromptFileCalls
from kernel.syscall.tool_calls import ToolCalls
from kernel.syscall.trap_calls import TrapCalls
from kernel.turn.progress import no_progress
from kernel.turn.steering import OP as STEERED
from kernel.turn.steering import Steering
from kernel.turn.turns import Turns
from kernel.turn.value_calls import ValueCalls
from kernel.values import clean, ordinal_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyscallParts:
    """Who carries out what. ``log(event, **fields)`` writes into the node's log."""

    turns: Turns
    processes: Processes
    tool_calls: ToolCalls
    model_calls: ModelCalls
    value_calls: ValueCalls
    monitor_calls: MonitorCalls
    trap_calls: TrapCalls
    quotes: Quotes
    prompt_files: PromptFileCalls
    steering: Steering
    compactions: Compactions
    watchers: Watchers
    log: Callable[..., None]


class Syscalls:
    """Takes what cells say of their turns."""

    def __init__(
        self, recorder: Recorder, live: LiveTable, ends: Ends, bounds: Bounds, parts: SyscallParts
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._ends = ends
        self._bounds = bounds
        self._parts = parts

    def asked(self, asked: CellAsked) -> None:
        """One syscall. The turn must be the open one of this process; its ordinal must be new to this incarnation.

        While the ledger takes nothing the call is held back, and made when it does: what is not recorded is not told.
        """
        try:
            self._asked(asked.pid, asked.call)
        except LedgerUnavailable as error:
            call = asked.call
            if not self._recorder.waiting:
                self._parts.log(
                    "syscalls are held back", pid=asked.pid, turn=call.turn, op=call.op, why=str(error)
                )
            key = ("call", call.turn, f"{call.round}.{call.index}")
            self._recorder.when_writable(key, lambda: self.asked(asked))

    def _asked(self, pid: int, call: CellCall) -> None:
        process = self._live.get(pid)
        turn = self._state.turns.get(call.turn)
        if process is None or turn is None or process.turn != turn.id or turn.id in self._ends:
            return
        try:
            ordinal = ordinal_of(call.round, call.index)
            process.calls_s.setdefault(ordinal, asyncio.get_running_loop().time())
            if ordinal not in turn.calls and (stuck := self._no_progress(process, turn)):
                self._parts.processes.exit(pid, NO_PROGRESS, stuck)
                return
            why = "" if ordinal in turn.calls else self._too_much(turn)
            if why:
                self._parts.turns.cut_short(process, "error", why)
                return
            if not self._parts.turns.hold(process, turn, ordinal, call.cost_bytes):
                return
            process.asked.add(ordinal)
            process.ops.add(call.op)
            self._dispatch(process, turn, ordinal, call)
        except LedgerUnavailable:
            process.asked.discard(ordinal)  # what is not compared with the record is not answered from it
            raise
        except KernelError as error:
            self._parts.log("syscall refused", pid=pid, turn=call.turn, op=call.op)
            self._parts.processes.exit(pid, "crash", f"syscall refused: {error}")
        except Exception as error:  # the boundary: whoever asked is answered, and its neighbours go on
            log.error("syscall %s of pid %d failed: %s", call.op, pid, fault_of(error))
            self._node_failed(process, turn, call, error)

    def _node_failed(self, process: LiveProcess, turn: Turn, call: CellCall, error: Exception) -> None:
        """The node failed at a syscall: answered as an error, or in doubt. Where even that fails its process ends."""
        ordinal = f"{call.round}.{call.index}"
        why = f"the node failed at a syscall ({type(error).__name__})"
        try:
            if isinstance(call.args, ToolCall):
                self._parts.tool_calls.failed(process, turn, ordinal, call.args, error)
                return
            if isinstance(call.args, ModelQuestion) and ordinal not in turn.calls:
                self._parts.model_calls.failed(process, turn, ordinal, why)
                return
        except LedgerUnavailable:
            raise
        except Exception as second:
            log.error("a failed syscall of pid %d cannot be recorded: %s", process.pid, fault_of(second))
        self._parts.processes.exit(process.pid, "crash", why)

    def _no_progress(self, process: LiveProcess, turn: Turn) -> str:
        """Why a process that asks for more does not get on; empty while it may. What is recorded of its forerunners
        does not count: it is told of their end, and may do otherwise.
        """
        bounds = self._bounds
        return no_progress(turn.calls, process.known, process.ops, bounds.same_calls, bounds.failed_calls)

    def _too_much(self, turn: Turn) -> str:
        """Why an open turn may make no further call; empty when it may. What its calls hold is kept until it ends."""
        bounds, state = self._bounds, self._state
        if len(turn.calls) >= bounds.syscalls_per_turn:
            return f"more than {bounds.syscalls_per_turn} syscalls in one turn"
        if state.calls.kept[turn.id] >= bounds.turn_bytes:
            return f"the calls of this turn hold {state.calls.kept[turn.id]} bytes, limit {bounds.turn_bytes}"
        if state.kept_bytes >= bounds.turns_bytes:
            return f"the calls of all open turns hold {state.kept_bytes} bytes, limit {bounds.turns_bytes}"
        return ""

    def _dispatch(self, process: LiveProcess, turn: Turn, ordinal: str, call: CellCall) -> None:
        match call.args:
            case ToolCall(name):
                watchers = self._parts.watchers
                if watchers.watched(turn.mail.id):
                    event = {"event": "tool", "name": clean(name[:MAX_TOOL_CHARS]), "ordinal": ordinal}
                    watchers.emit(turn.mail.id, event)
                self._parts.tool_calls.asked(process, turn, ordinal, call.args)
            case ModelQuestion():
                self._parts.model_calls.asked(process, turn, ordinal, call.args)
            case MonitorTarget() | MonitorRef() | LinkTarget() | LinkRef():
                self._parts.monitor_calls.asked(process, turn, ordinal, call.args)
            case Quoting():
                self._parts.quotes.asked(process, turn, ordinal, call.args)
            case Trapping():
                self._parts.trap_calls.asked(process, turn, ordinal, call.args)
            case Nothing() if call.op == STEERED:
                self._parts.steering.asked(process, turn, ordinal)
            case Compaction():
                self._parts.compactions.asked(process, turn, ordinal, call.args)
            case Nothing() if call.op == PROMPT_FILES:
                self._parts.prompt_files.asked(process, turn, ordinal)
            case Nothing():
                self._parts.value_calls.asked(process, turn, ordinal, call.op)

    # -- the end of a turn ---------------------------------------------------------------------------------------

    def done(self, done: TurnDone) -> None:
        """The behaviour returned."""
        try:
            self._parts.turns.done(done.pid, done.turn, done.result)
        except Exception as error:  # the boundary: the turn must end, and the neighbours go on
            log.error("turn %s of pid %d cannot be ended: %s", done.turn, done.pid, fault_of(error))
            self._end_failed(done.pid, f"the node failed at the end of this turn ({type(error).__name__})")

    def _end_failed(self, pid: int, why: str) -> None:
        process = self._live.get(pid)
        if process is None:
            return
        try:
            if self._parts.turns.cut_short(process, "error", why):
                return
        except Exception as error:
            log.error("the end of a turn of pid %d cannot be recorded: %s", pid, fault_of(error))
        self._parts.processes.exit(pid, "crash", why)

    def over(self, over: TurnOver) -> None:
        """A turn has ended: what is asked of models for it is stopped, what was held back for it is not made."""
        self._parts.model_calls.stop(over.turn)
        self._nobody_waits(over.turn)

    def exited(self, end: ProcessExited) -> None:
        """A process has ended: what was held back for its turn is not made, what is under way goes on."""
        if end.process.turn:
            self._nobody_waits(end.process.turn)
        end.process.leave_turn()

    def _nobody_waits(self, turn: str) -> None:
        for ordinal in self._live.asked.keep(turn, self._parts.model_calls.under_way(turn)):
            self._recorder.not_any_more(("call", turn, ordinal))
