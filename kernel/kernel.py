"""The kernel of one node: the parts, wired to each other, and the ear for what the cells say.

Every decision is elsewhere: ``processes`` (the tree), ``turns`` (messages and their handling), ``tool_calls`` and
``model_calls`` (syscalls), ``mail`` (acceptance, dead letters). Here they are joined, and what a cell reports is sent
to the part it concerns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.bounds import Bounds
from kernel.cells.cell_events import CellCall, Placement
from kernel.cells.cells import Cells
from kernel.errors import Invalid, KernelError, fault_of
from kernel.helper.helpers import Helpers
from kernel.memory.memory import Ask, Memory, no_archive
from kernel.message.events import Events
from kernel.message.mail import Post
from kernel.message.watch import Watchers
from kernel.model.pids import Pids
from kernel.model.spec import Isolation
from kernel.model.states import KILLED, SHUTDOWN
from kernel.peer.remote import Remote, RemoteParts
from kernel.process.live import LiveProcess, LiveTable
from kernel.process.processes import Processes
from kernel.state.recorder import Recorder
from kernel.state.state import DeadLetter, Mail, Turn, turn_id
from kernel.syscall.memory_tools import MemoryTools
from kernel.syscall.model_calls import Gateway, ModelCalls
from kernel.syscall.node_tools import NodeTools
from kernel.syscall.tool_calls import ToolCalls, ToolParts
from kernel.toolbox.registry import Registry
from kernel.turn.divergence import Divergences, shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, canonical, ordinal_of
from kernel.worker.workers import Workers

log = logging.getLogger(__name__)
Log = Callable[..., None]


@dataclass(frozen=True, slots=True)
class BehaviourEntry:
    """A behaviour the node knows by name. ``package`` is its trust domain; ``config`` is what each of its processes is
    told, unless its spawn says otherwise.
    """

    name: str
    import_string: str
    python_path: tuple[str, ...] = ()
    isolation: Isolation = "shared"
    package: str = "builtin"
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """What the kernel is told of its node. ``archive`` asks the archive; it raises HelperLost, HelperRefused."""

    boot: int
    bounds: Bounds
    behaviours: Mapping[str, BehaviourEntry]
    log: Log
    archive: Ask = no_archive


class Kernel:
    """Wiring and the :class:`CellEvents` of the node."""

    def __init__(
        self,
        recorder: Recorder,
        pids: Pids,
        registry: Registry,
        workers: Workers,
        gateway: Gateway,
        env: Environment,
    ) -> None:
        self.recorder = recorder
        self.state = recorder.state
        self.env = env
        self.registry = registry
        self.workers = workers
        self.live = LiveTable()
        self.watchers = Watchers()
        self.events = Events()
        recorder.ledger.on_group(self.events.group)
        recorder.on_unrecorded = lambda kinds, why: env.log(
            "something could not be recorded", kinds=kinds, why=why
        )
        self.cells: Cells
        self.on_engine_lost: Callable[[str], None] = lambda why: None
        self.processes = Processes(recorder, self.live, pids, self, env.bounds)
        self.helpers = Helpers(recorder, self.processes, env.log)
        self.turns = Turns(recorder, self.live, self, env.bounds, self.watchers)
        self.post = Post(recorder, self.live, env.bounds, self.turns.pump, self._died_letter)
        self.remote = Remote(
            RemoteParts(
                recorder,
                self.post,
                self.processes,
                self.live,
                env.bounds,
                lambda: self.registry.effects,
                lambda question, status, reply: self.tool_calls.replied(question, status, reply),
                self.watchers.ended,
            )
        )
        self.post.abroad = self.remote.draft
        node_tools = NodeTools(
            self.state, self.post, self.processes, self.remote, env.bounds, recorder.ledger.now_us
        )
        self.memory = Memory(recorder, env.bounds, env.archive)
        memory_tools = MemoryTools(self.memory, env.bounds)
        parts = ToolParts(workers, node_tools, memory_tools, env.bounds, f"{env.boot:016x}")
        self.tool_calls = ToolCalls(recorder, self.live, self.turns, registry, parts)
        self.model_calls = ModelCalls(recorder, self.turns, registry, gateway, self.watchers, env.bounds)
        self.turns.bury = self.post.bury
        self.post.has_ended = lambda message: self.turns.has_ended(turn_id(message))
        self.post.settle = self._settle_message
        self.turns.replied = self._replied
        self.turns.settle = self._settle
        self.turns.left_to = self.remote.left_to
        self.turns.drained = self.processes.drained
        self.divergences = Divergences(
            recorder, self.live, self.post.bury, self._settle, self.turns.pump, self.tool_calls.under_way
        )
        self.processes.on_running = self.turns.pump
        self.processes.on_exit = self._exited
        self.processes.bury = self.post.bury_all
        self.processes.on_pids = self._forget_counters

    def use_tools(self, registry: Registry) -> None:
        """Replace the tools, before anything runs."""
        self.registry = registry
        self.tool_calls.registry = registry
        self.model_calls.registry = registry

    # -- the cells, as processes and turns need them -------------------------------------------------------------

    def place(self, process: LiveProcess) -> None:
        """Put a process into a cell; a behaviour that is not configured any more fails to start."""
        spec = process.spec
        entry = self.env.behaviours.get(spec.behaviour)
        if entry is None:
            why = f"behaviour {spec.behaviour!r} is not configured"
            asyncio.get_running_loop().call_soon(self.processes.start_failed, process.pid, "crash", why)
            return
        resumed = self.state.turn_of(process.address)
        told = dict(entry.config)
        if resumed is not None and resumed.config:
            told = json.loads(resumed.config)  # what the open turn began with, whatever is configured by now
        process.config = canonical(told)
        domain = f"{entry.package}|{','.join(sorted(spec.tools))}"
        self.cells.place(
            Placement(
                pid=process.pid,
                address=process.address,
                name=spec.name,
                behaviour=spec.behaviour,
                import_string=entry.import_string,
                domain=domain,
                isolation=spec.isolation,
                made_by=self.state.maker(process.address),
                python_path=entry.python_path,
                config={**told, **spec.config},
            )
        )

    def stop(self, pid: int, why: str) -> None:
        self.cells.stop(pid, why)

    def deliver(
        self, pid: int, turn: str, message: dict[str, Any], history: list[Any], tools: list[str]
    ) -> None:
        try:
            self.cells.deliver(pid, turn, message, history, tools)
        except Invalid as error:
            process = self.live.get(pid)
            if process is not None:
                self.turns.cut_short(process, "error", str(error))

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: dict[str, Any]) -> None:
        self.cells.result(pid, turn, round_, index, outcome)

    def end_turn(self, pid: int, turn: str, why: str) -> None:
        self.model_calls.stop(turn)
        self._nobody_waits(turn)
        self.cells.end_turn(pid, turn, why)

    # -- what a cell reports -------------------------------------------------------------------------------------

    def started(self, pid: int) -> None:
        self.processes.started(pid, self.cells.cell_of(pid) or "")

    def start_failed(self, pid: int, why: str) -> None:
        reason = "timeout" if why.startswith("timeout") else "crash"
        self.env.log("process did not start", pid=pid, why=why)
        self.processes.start_failed(pid, reason, why)

    def syscall(self, pid: int, call: CellCall) -> None:
        """One syscall. The turn must be the open one of this process; its ordinal must be new to this incarnation.

        While the ledger takes nothing the call is held back, and made when it does: what is not recorded is not told.
        """
        try:
            self._syscall(pid, call)
        except LedgerUnavailable as error:
            if not self.recorder.waiting:
                self.env.log("syscalls are held back", pid=pid, turn=call.turn, op=call.op, why=str(error))
            key = ("call", call.turn, f"{call.round}.{call.index}")
            self.recorder.when_writable(key, lambda: self.syscall(pid, call))

    def _syscall(self, pid: int, call: CellCall) -> None:
        process = self.live.get(pid)
        turn = self.state.turns.get(call.turn)
        if process is None or turn is None or process.turn != turn.id or self.turns.has_ended(turn.id):
            return
        try:
            ordinal = ordinal_of(call.round, call.index)
            why = "" if ordinal in turn.calls else self._too_much(turn)
            why = why or self._too_much_asked(turn.id, ordinal, call.cost_bytes)
            if why:
                self.turns.cut_short(process, "error", why)
                return
            process.asked.add(ordinal)
            self.live.asked.hold(turn.id, ordinal, call.cost_bytes)
            self._dispatch(process, turn, ordinal, call)
        except LedgerUnavailable:
            raise
        except KernelError as error:
            self.env.log("syscall refused", pid=pid, turn=call.turn, op=call.op)
            self.processes.exit(pid, "crash", f"syscall refused: {error}")
        except Exception as error:  # the boundary: whoever asked is answered, and its neighbours go on
            log.error("syscall %s of pid %d failed: %s", call.op, pid, fault_of(error))
            self._node_failed(process, turn, call, error)

    def _node_failed(self, process: LiveProcess, turn: Turn, call: CellCall, error: Exception) -> None:
        """The node failed at a syscall: answered as an error, or in doubt. Where even that fails its process ends."""
        ordinal = f"{call.round}.{call.index}"
        why = f"the node failed at a syscall ({type(error).__name__})"
        try:
            if call.op == "tool":
                self.tool_calls.failed(process, turn, ordinal, call.args, error)
                return
            if call.op == "model" and ordinal not in turn.calls:
                self.model_calls.failed(process, turn, ordinal, why)
                return
        except LedgerUnavailable:
            raise
        except Exception as second:
            log.error("a failed syscall of pid %d cannot be recorded: %s", process.pid, fault_of(second))
        self.processes.exit(process.pid, "crash", why)

    def _too_much(self, turn: Turn) -> str:
        """Why an open turn may make no further call; empty when it may. What its calls hold is kept until it ends."""
        bounds, state = self.env.bounds, self.state
        if len(turn.calls) >= bounds.syscalls_per_turn:
            return f"more than {bounds.syscalls_per_turn} syscalls in one turn"
        if state.kept[turn.id] >= bounds.turn_bytes:
            return f"the calls of this turn hold {state.kept[turn.id]} bytes, limit {bounds.turn_bytes}"
        if state.kept_bytes >= bounds.turns_bytes:
            return f"the calls of all open turns hold {state.kept_bytes} bytes, limit {bounds.turns_bytes}"
        return ""

    def _too_much_asked(self, turn: str, ordinal: str, more: int) -> str:
        """The same for calls without an answer, each of which the node holds whole, and whoever works on it as well."""
        bounds, asked = self.env.bounds, self.live.asked
        more -= asked.size(turn, ordinal)
        held = asked.of(turn) + more
        if held > bounds.asked_bytes:
            return f"the calls of this turn without an answer have {held} bytes, limit {bounds.asked_bytes}"
        held = asked.bytes + more
        if held > bounds.all_asked_bytes:
            return (
                f"the calls of all turns without an answer have {held} bytes, limit {bounds.all_asked_bytes}"
            )
        return ""

    def _dispatch(self, process: LiveProcess, turn: Turn, ordinal: str, call: CellCall) -> None:
        if call.op == "tool":
            if self.watchers.watched(turn.mail.id):
                self.watchers.emit(
                    turn.mail.id, {"event": "tool", "name": call.args.get("name"), "ordinal": ordinal}
                )
            self.tool_calls.asked(process, turn, ordinal, call.args)
        elif call.op == "model":
            self.model_calls.asked(process, turn, ordinal, call.args)
        else:
            self._value(process, turn, ordinal, call.op)

    def _value(self, process: LiveProcess, turn: Turn, ordinal: str, op: str) -> None:
        """Time and randomness: recorded, so that a resumed turn sees the same."""
        hashed = call_hash(op)
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self.turns.diverge(process, turn, recorded, shown(op, "", ""))
            return
        if recorded is None:
            value: float | int = time.time() if op == "now" else secrets.randbits(63)
            body = {"turn": turn.id, "ordinal": ordinal, "call_hash": hashed, "op": op, "value": value}
            draft = Draft("sys.value", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
            self.recorder.commit([draft])
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        self.turns.answer(turn, ordinal, outcome)

    def turn_done(self, pid: int, turn: str, result: dict[str, Any]) -> None:
        try:
            self.turns.done(pid, turn, result)
        except Exception as error:  # the boundary: the turn must end, and the neighbours go on
            log.error("turn %s of pid %d cannot be ended: %s", turn, pid, fault_of(error))
            self._end_failed(pid, f"the node failed at the end of this turn ({type(error).__name__})")

    def _end_failed(self, pid: int, why: str) -> None:
        process = self.live.get(pid)
        if process is None:
            return
        try:
            if self.turns.cut_short(process, "error", why):
                return
        except Exception as error:
            log.error("the end of a turn of pid %d cannot be recorded: %s", pid, fault_of(error))
        self.processes.exit(pid, "crash", why)

    def crashed(self, pid: int, turn: str | None, detail: str) -> None:
        # Of what, process.exited says, and can be erased; a log cannot.
        self.env.log("process crashed", pid=pid, turn=turn or "")
        self.processes.exit(pid, "crash", detail, told=True)

    def exited(self, pid: int, reason: str) -> None:
        self.processes.exit(pid, reason, told=True)

    def log(self, pid: int, text: str) -> None:
        process = self.live.get(pid)
        self.env.log("agent", pid=pid, address=process.address if process else "", text=text)

    def cell_lost(self, cell: str, running_pid: int, pids: list[int], why: str) -> None:
        self.env.log("cell lost", cell=cell, running=running_pid, processes=len(pids), why=why)
        self.processes.cell_lost(cell, running_pid, pids, why)

    def engine_lost(self, why: str) -> None:
        self.env.log("engine lost", why=why)
        self.on_engine_lost(why)

    # -- between the parts ---------------------------------------------------------------------------------------

    def _settle(self, turn: Turn) -> list[Draft]:
        self.model_calls.stop(turn.id)
        self._nobody_waits(turn.id)
        return self.tool_calls.settle(turn)

    def _nobody_waits(self, turn: str) -> None:
        """The turn has ended, or its process: what was held back for it is not made, what is under way goes on."""
        if not turn:
            return
        for ordinal in self.live.asked.keep(turn, self.model_calls.under_way(turn)):
            self.recorder.not_any_more(("call", turn, ordinal))

    def _replied(
        self, mail: Mail, status: str, reply: str, seq: int
    ) -> tuple[list[Draft], Callable[[], None]]:
        """The records that hand over the answer to ``mail``: to an ask of this node, or to another node."""
        if "@" in mail.reply_to:
            return self.remote.reply(mail, status, reply, seq)
        return self.tool_calls.replied(mail, status, reply)

    def _settle_message(self, message: str) -> list[Draft]:
        turn = self.state.turns.get(turn_id(message))
        return self._settle(turn) if turn is not None else []

    def _exited(self, process: LiveProcess, reason: str) -> None:
        self.remote.monitors.exited(process.pid, reason)
        turn = self.state.turns.get(process.turn)
        if turn is not None:
            self.watchers.emit(turn.mail.id, {"event": "exit", "pid": process.pid, "reason": reason})
            if turn.crashes >= self.env.bounds.turn_attempts:
                with contextlib.suppress(LedgerUnavailable):  # not now; after its next crash, then
                    self.turns.poison(turn, process.pid)
        if reason == KILLED or reason.startswith(SHUTDOWN):
            self._withdraw(process, f"process {process.pid} was ended ({reason})")
        self._nobody_waits(process.turn)
        process.leave_turn()

    def _withdraw(self, process: LiveProcess, why: str) -> None:
        """Ended on purpose: what was about to be done is not done. The turn is that of the address, whether this
        incarnation has taken it up yet or not.
        """
        turn = self.state.turns.get(process.turn) or self.state.turn_of(process.address)
        if turn is not None:
            self.tool_calls.withdraw(turn, why)

    def _died_letter(self, letter: DeadLetter) -> None:
        mail = letter.mail
        self.watchers.ended(mail.id, {"status": "dead", "reply": letter.why, "turn": ""})
        if "@" in mail.reply_to:
            self.remote.reply_dead(mail, letter.why)
        elif mail.reply_to:
            records, after = self.tool_calls.replied(mail, "error", f"dead letter: {letter.why}")
            self.recorder.commit_later(records, after)

    def _forget_counters(self) -> None:
        """PIDs that are long past write nothing any more."""
        in_use = {process.pid for process in self.live.all()} | self.helpers.pids()
        in_use.update(slot.pid for slot in self.state.slots.values())
        self.recorder.ledger.forget_counters(in_use)

    # -- life ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Settle what the last boot left in doubt, then start the tree."""
        self.tool_calls.recover()
        self.processes.boot()

    async def close(self) -> None:
        """Stop everything that runs; mail, turns and slots stay as they are for the next boot."""
        self.helpers.closing = True
        await self.remote.close()
        await self.processes.close()
        await self.model_calls.close()
        await self.tool_calls.close()
        await self.cells.close()
        await self.workers.close()
        await self.helpers.close()
