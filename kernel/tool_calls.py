"""The tool engine: propose, validate, judge, intend, execute, record.

One call is four entries: ``tool.proposed`` (what was asked), ``tool.verdict`` (what was decided and why),
``tool.intent`` (signed and on the disk before anything with effects happens) and ``tool.outcome``. Refusals are data
for whoever asked, never exceptions. What becomes of an intent without an outcome is in ``doubts.py``.

Pure built-ins run in the node. Built-ins whose whole effect is journal records (``send_message``, ``ask``,
``spawn_agent``, ``memory_write``) are written in one unit with their outcome, so they are never in doubt. What reads
memory is answered by the archive. Everything else runs in a worker, which is handed the receipt of the intent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from chain.errors import LedgerUnavailable
from chain.group import Group
from chain.ledger import PREVIOUS, Draft, StateChange, Ticket
from kernel.abi import ToolDeclaration
from kernel.bounds import Bounds
from kernel.divergence import shown
from kernel.doubts import Doubts, policy_of
from kernel.errors import KernelError
from kernel.gates import Proposal, Verdict, judge
from kernel.live import LiveProcess, LiveTable
from kernel.memory_tools import MemoryTools
from kernel.node_tools import Done, NodeTools, Pending
from kernel.recorder import Recorder
from kernel.state import Call, Turn
from kernel.tool_records import CallSite, Outcome, for_cell
from kernel.tools.arguments import ArgumentsError, canonical_json, parse_arguments
from kernel.tools.registry import Registry
from kernel.tools.workers import WorkerCall, WorkerLost, Workers, WorkerUnavailable
from kernel.turns import Turns
from kernel.values import call_hash, clean, cut_bytes

RETRY_S = 0.5
SHOWN_RUBBISH_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Examined:
    """A proposal that could be read: the tool, the parsed arguments, and their canonical text."""

    declaration: ToolDeclaration
    parsed: dict[str, Any]
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolParts:
    """What the engine works with."""

    workers: Workers
    node_tools: NodeTools
    memory_tools: MemoryTools
    bounds: Bounds
    boot: str


class ToolCalls:
    """Takes ``tool`` syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self, recorder: Recorder, live: LiveTable, turns: Turns, registry: Registry, parts: ToolParts
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._turns = turns
        self.registry = registry
        self._parts = parts
        self._bounds = parts.bounds
        self.doubts = Doubts(recorder, live, self._site_of, parts.bounds.tool_record_bytes)
        self._running: dict[tuple[str, str], object] = {}  # call -> the mark of the attempt that runs
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    # -- the syscall ---------------------------------------------------------------------------------------------

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: dict[str, Any]) -> None:
        """A cell asks for a tool. Everything in ``args`` is hostile."""
        name, text = clean(args["name"])[:64], clean(args["arguments"])
        hashed = call_hash("tool", name, text)
        call = turn.calls.get(ordinal)
        if call is None:
            self._propose(
                process, CallSite(turn, ordinal, name, process.pid, self._subject(name)), hashed, text
            )
        elif call.call_hash != hashed:
            self._turns.diverge(process, turn, call, shown("tool", name, text))
        elif call.outcome is not None:
            self._answer(turn, call)
        elif call.doubt:
            self.doubts.suspend(turn)
        else:
            self._again(process, turn, call)

    def _subject(self, name: str) -> str:
        """A tool's name may stand in a leaf only when it is one of ours and not what a model made up."""
        return name if name in self.registry else "unknown"

    def _site_of(self, turn: Turn, call: Call) -> CallSite:
        slot = self._state.slots.get(turn.address)
        pid = slot.pid if slot is not None else 0
        return CallSite(turn, call.ordinal, call.name, pid, self._subject(call.name))

    def _propose(self, process: LiveProcess, site: CallSite, hashed: str, text: str) -> None:
        examined = self._examine(process, site.tool, text)
        if isinstance(examined, Examined):
            verdict, status = self._judge(process, examined), "denied"
            arguments = examined.arguments
        else:
            verdict, status = Verdict("deny", (examined,)), "error"
            arguments, _ = cut_bytes(text, SHOWN_RUBBISH_BYTES)
        records = [site.proposed(hashed, arguments), site.verdict(verdict)]
        if isinstance(examined, Examined) and verdict.decision == "allow":
            self._execute(process, site, records, examined)
            return
        records.append(site.outcome(self._outcome(status, "; ".join(verdict.reasons), 0)))
        self._recorder.commit(records)
        self._answer(site.turn, site.turn.calls[site.ordinal])

    def _again(self, process: LiveProcess, turn: Turn, call: Call) -> None:
        """Run a recorded proposal (again): judged anew, since rights and registry may have changed. Whoever comes
        second, the cell that asks or the person that resolves, finds it running, settled or in doubt anew.
        """
        if (turn.id, call.ordinal) in self._running or call.outcome is not None or call.doubt:
            return
        site = self._site_of(turn, call)
        examined = self._examine(process, call.name, call.arguments)
        if isinstance(examined, Examined):
            verdict, status = self._judge(process, examined), "denied"
            if verdict.decision == "allow":
                self._execute(process, site, [], examined)
                return
        else:
            verdict, status = Verdict("deny", (examined,)), "error"
        outcome = self._outcome(status, "; ".join(verdict.reasons), call.attempt)
        self._recorder.commit([site.outcome(outcome, call.seq)])
        self._answer(turn, call)

    def _examine(self, process: LiveProcess, name: str, text: str) -> Examined | str:
        """Parse once and validate against the tool's schema; a string says why not."""
        if name not in self.registry:
            held = ", ".join(sorted(process.rights)) or "none"
            return f"there is no tool {name!r}; the tools of this turn are: {held}"
        entry = self.registry[name]
        try:
            parsed = parse_arguments(text, self._bounds.tool_arguments_bytes)
            entry.validator.check(parsed)
            return Examined(entry.declaration, parsed, canonical_json(parsed))
        except ArgumentsError as error:
            return f"arguments of {name} were refused: {error}"

    def _judge(self, process: LiveProcess, examined: Examined) -> Verdict:
        writable = self._recorder.ledger.read_only is None
        return judge(Proposal(examined.declaration, examined.parsed, process.rights, writable))

    def _outcome(
        self, status: str, text: str, attempt: int, full_hash: str = "", truncated: bool = False
    ) -> Outcome:
        return Outcome(status, text, attempt, self._bounds.tool_record_bytes, full_hash, truncated)

    def _answer(self, turn: Turn, call: Call) -> None:
        """Hand a recorded outcome over."""
        if call.outcome is not None:
            outcome = for_cell(call.outcome, turn.result_bytes or self._bounds.tool_result_bytes)
            self._turns.answer(turn, call.ordinal, outcome)

    # -- execution -----------------------------------------------------------------------------------------------

    def _execute(self, process: LiveProcess, site: CallSite, before: list[Draft], examined: Examined) -> None:
        """Write ``before`` (proposal and verdict; nothing for a further attempt) with an intent, and run the call."""
        declaration = examined.declaration
        call = site.call
        cause = site.turn.started_seq if call is None else call.seq
        intent = site.intent(examined.arguments, declaration.effects, self._parts.boot, cause)
        if before:
            intent.cause = PREVIOUS
        records = [*before, intent]
        if declaration.sandbox == "node":
            self._run_in_node(process, site, records, examined)
            return
        if declaration.sandbox == "archive":
            self._recorder.commit(records)
            self._spawn(site, self._run_in_archive(site, examined, process.address))
            return
        ticket = self._recorder.commit(records, durable=True)
        self._spawn(site, self._run_in_worker(site, examined, ticket, process.spec.workspace))

    def _spawn(self, site: CallSite, work: Coroutine[Any, Any, None]) -> None:
        mark = self._running[site.key] = object()

        async def guarded() -> None:
            try:
                await work
            finally:
                if self._running.get(site.key) is mark:  # else the next attempt runs already
                    del self._running[site.key]

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_in_worker(
        self, site: CallSite, examined: Examined, ticket: Ticket, workspace: str
    ) -> None:
        turn, call, declaration = site.turn, site.turn.calls[site.ordinal], examined.declaration
        intent = ticket.entries[-1]
        group = await self._durable(ticket)
        work = WorkerCall(
            tool=declaration.name,
            arguments=examined.arguments,
            receipt=group.receipt(intent).encode(),
            salt=intent.salt,
            body=intent.body,
            workspace=workspace,
            timeout_s=declaration.timeout_s,
        )
        try:
            result = await self._parts.workers.run(work)
        except WorkerUnavailable as error:
            outcome = self._outcome("error", f"the tool could not be started: {error}", call.attempt)
        except WorkerLost:
            await self._in_doubt(turn, call, declaration)
            return
        else:
            status = "denied" if result.status == "refused" else result.status
            outcome = self._outcome(status, result.text, call.attempt, result.full_hash, result.truncated)
        await self._recorded([site.outcome(outcome, intent.entry.seq)], durable=declaration.effects != "none")
        self._answer(turn, call)

    async def _run_in_archive(self, site: CallSite, examined: Examined, reader: str) -> None:
        """A built-in that only reads memory. It has no effects, so its intent waits for no disk."""
        call = site.turn.calls[site.ordinal]
        done = await self._parts.memory_tools.run(examined.declaration, examined.parsed, reader)
        outcome = self._outcome(done.status, done.text, call.attempt)
        await self._recorded([site.outcome(outcome, call.intent_seq)], durable=False)
        self._answer(site.turn, call)

    async def _recorded(self, drafts: Sequence[Draft], *, durable: bool) -> None:
        """Write what has happened, however long the disk refuses: it must not be told before it is recorded."""
        ticket = await self._committed(drafts, durable=durable)
        if durable:
            await self._durable(ticket)

    async def _committed(self, drafts: Sequence[Draft], *, durable: bool) -> Ticket:
        """Commit as soon as the ledger takes it; when it does at once, nothing else runs in between."""
        while True:
            with contextlib.suppress(LedgerUnavailable):
                return self._recorder.commit(drafts, durable=durable)
            await asyncio.sleep(RETRY_S)

    async def _durable(self, ticket: Ticket) -> Group:
        """Wait until it is on the disk, however long that refuses."""
        while True:
            with contextlib.suppress(LedgerUnavailable):
                return await ticket.durable()
            await asyncio.sleep(RETRY_S)

    # -- in the node ---------------------------------------------------------------------------------------------

    def _run_in_node(
        self, process: LiveProcess, site: CallSite, records: list[Draft], examined: Examined
    ) -> None:
        """A pure built-in, or one that is only records: all of it in one unit."""
        seq = self._recorder.ledger.next_seq + len(records)
        try:
            done = self._parts.node_tools.run(process, site, examined.parsed, seq)
        except KernelError as error:
            done = Done("error", str(error))
        if isinstance(done, Pending):
            self._recorder.commit([*records, *done.records], durable=True)
            done.after()
            self._await_reply(site.key, done.deadline_s)
            return
        outcome = self._outcome(done.status, done.text, 1)
        unit: list[Draft | StateChange] = [*records, *done.records, site.outcome(outcome, seq - 1)]
        ticket = self._recorder.commit(unit, durable=bool(done.records))
        done.after()
        call = site.turn.calls[site.ordinal]
        if not done.records:
            self._answer(site.turn, call)
            return

        async def when_durable() -> None:
            await self._durable(ticket)
            self._answer(site.turn, call)

        self._spawn(site, when_durable())

    def _await_reply(self, key: tuple[str, str], deadline_s: float) -> None:
        self._running[key] = self
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(deadline_s, self._reply_late, key, deadline_s)

    def _reply_late(self, key: tuple[str, str], deadline_s: float) -> None:
        try:
            records, after = self.replied(":".join(key), "timeout", f"no reply within {deadline_s:g} s")
            self._recorder.commit(records)
        except LedgerUnavailable:
            self._await_reply(key, RETRY_S)
            return
        after()

    def replied(self, reply_to: str, status: str, reply: str) -> tuple[list[Draft], Callable[[], None]]:
        """The end of an ``ask``: the records that say so, and what to do once they are written."""
        ident, _, ordinal = reply_to.partition(":")
        turn = self._state.turns.get(ident)
        call = turn.calls.get(ordinal) if turn is not None else None
        if turn is None or call is None or call.outcome is not None:
            return [], lambda: None
        status = status if status in ("ok", "timeout") else "error"
        outcome = self._outcome(status, reply, call.attempt)

        def after() -> None:
            self._stop_waiting((turn.id, ordinal))
            self._answer(turn, call)

        return [self._site_of(turn, call).outcome(outcome, call.intent_seq)], after

    def _stop_waiting(self, key: tuple[str, str]) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._running.pop(key, None)

    # -- doubt ---------------------------------------------------------------------------------------------------

    async def _in_doubt(self, turn: Turn, call: Call, declaration: ToolDeclaration) -> None:
        """The worker died with a call. It counts as running until the doubt is written, so nobody runs it meanwhile."""
        open_ = turn.id in self._state.turns
        policy = policy_of(declaration, call.attempt) if open_ else "lost"
        process = self._live.at(turn.address)
        if policy == "retry":
            self._running.pop((turn.id, call.ordinal), None)
            if process is not None and process.turn == turn.id and call.ordinal in process.asked:
                self._again(process, turn, call)
            return
        ticket = await self._committed([self.doubts.draft(turn, call, policy)], durable=True)
        self._running.pop((turn.id, call.ordinal), None)
        await self._durable(ticket)
        if call.doubt:
            self.doubts.suspend(turn)
        self._answer(turn, call)

    def recover(self) -> None:
        """After a replay, before anything listens: settle every intent without an outcome."""
        for turn in list(self._state.turns.values()):
            for call in list(turn.calls.values()):
                if call.op != "tool" or call.outcome is not None or call.doubt or call.intent_seq < 0:
                    continue
                if call.name == "ask":
                    self._await_reply((turn.id, call.ordinal), self._bounds.ask_timeout_s)
                    continue
                entry = self.registry.get(call.name)
                policy = policy_of(entry.declaration if entry else None, call.attempt)
                if policy != "retry":
                    self._recorder.commit([self.doubts.draft(turn, call, policy)], durable=True)

    async def resolve(self, ident: str, resolution: str, by: str) -> str:
        """A person's word on a doubt (``turn:ordinal``). Returns the tool's name. Raises NotFound or Refused."""
        resolved = await self.doubts.resolve(ident, resolution, by)
        turn, call = resolved.turn, resolved.call
        process = self._live.at(turn.address)
        if not resolved.again:
            self._answer(turn, call)
        elif process is not None and process.turn == turn.id and call.ordinal in process.asked:
            self._again(process, turn, call)
        return call.name

    def settle(self, turn: Turn) -> list[Draft]:
        """Outcomes for the open intents of a turn that ends: nobody will ask for them again.

        A call that a worker still runs is left out: its outcome is recorded when it is known.
        """
        for call in turn.calls.values():
            self._stop_waiting((turn.id, call.ordinal))
        return [
            self._site_of(turn, call).outcome(
                self._outcome("lost", "the turn ended before this was known", call.attempt), call.intent_seq
            )
            for call in turn.calls.values()
            if call.op == "tool"
            and call.outcome is None
            and call.intent_seq >= 0
            and (turn.id, call.ordinal) not in self._running
        ]

    async def close(self) -> None:
        """Stop waiting for replies; running calls end with their workers."""
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
