"""The tool engine: propose, validate, judge, intend, execute, record.

One call is four entries: ``tool.proposed`` (what was asked), ``tool.verdict`` (what was decided and why),
``tool.intent`` (signed and on the disk before anything with effects happens) and ``tool.outcome``. Refusals are data
for whoever asked, never exceptions. An intent without an outcome, after a crash of worker or node, is *in doubt*; the
tool's policy says whether it is done again, given up, or put before a person.

Pure built-ins run in the node. Built-ins whose whole effect is journal records (``send_message``, ``ask``,
``spawn_agent``) are written in one unit with their outcome, so they are never in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from chain.errors import LedgerUnavailable
from chain.ledger import PREVIOUS, Draft, Written
from kernel.abi import ToolDeclaration
from kernel.bounds import Bounds
from kernel.errors import KernelError, NotFound, Refused
from kernel.gates import Proposal, Verdict, judge
from kernel.live import LiveProcess, LiveTable
from kernel.node_tools import Done, NodeTools, Pending
from kernel.recorder import Recorder
from kernel.state import Call, Turn
from kernel.states import ProcessEvent, ProcessState
from kernel.tools.arguments import ArgumentsError, canonical_json, parse_arguments
from kernel.tools.registry import Registry
from kernel.tools.workers import WorkerCall, WorkerLost, WorkerResult, Workers, WorkerUnavailable
from kernel.turns import Turns
from kernel.values import call_hash, clean, cut_bytes, sha256_hex

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal goes no further: an outcome status and words for the model."""

    status: str
    text: str


class ToolCalls:
    """Takes ``tool`` syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        turns: Turns,
        registry: Registry,
        workers: Workers,
        node_tools: NodeTools,
        bounds: Bounds,
        boot: str,
    ):
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._turns = turns
        self.registry = registry
        self._workers = workers
        self._node_tools = node_tools
        self._bounds = bounds
        self._boot = boot
        self._running: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    # -- the syscall ---------------------------------------------------------------------------------------------

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: dict[str, Any]) -> None:
        """A cell asks for a tool. Everything in ``args`` is hostile."""
        name, text = args.get("name"), args.get("arguments")
        name = clean(name)[:64] if isinstance(name, str) else ""
        text = clean(text) if isinstance(text, str) else ""
        hashed = call_hash("tool", name, text)
        call = turn.calls.get(ordinal)
        if call is None:
            self._propose(process, turn, ordinal, hashed, name, text)
        elif call.call_hash != hashed:
            self._turns.diverge(process, turn, ordinal)
        elif call.outcome is not None:
            self._answer(turn, call)
        elif call.doubt:
            self._suspend(process)
        elif (turn.id, ordinal) not in self._running:
            self._resume(process, turn, call)

    def _propose(
        self, process: LiveProcess, turn: Turn, ordinal: str, hashed: str, name: str, text: str
    ) -> None:
        outcome = self._examine(process, name, text)
        arguments = outcome[1] if isinstance(outcome, tuple) else cut_bytes(text, 4096)[0]
        head = {"turn": turn.id, "ordinal": ordinal, "tool": name}
        subject = name if name in self.registry else "unknown"
        cause = turn.last_answer_seq if turn.last_answer_seq >= 0 else turn.started_seq

        def draft(kind: str, body: dict[str, Any], cause: int = PREVIOUS) -> Draft:
            return Draft(kind, {**head, **body}, process.pid, subject, turn.mail.trace, cause)

        proposed = draft(
            "tool.proposed",
            {"call_hash": hashed, "arguments": arguments, "arguments_hash": sha256_hex(arguments)},
            cause,
        )
        if isinstance(outcome, Refusal):
            verdict = Verdict("deny", (outcome.text,))
        else:
            declaration, arguments, parsed = outcome
            verdict = judge(
                Proposal(declaration, parsed, process.rights, self._recorder.ledger.read_only is None)
            )
        records = [
            proposed,
            draft("tool.verdict", {"decision": verdict.decision, "reasons": list(verdict.reasons)}),
        ]
        if verdict.decision != "allow" or isinstance(outcome, Refusal):
            status = outcome.status if isinstance(outcome, Refusal) else "denied"
            reason = "; ".join(verdict.reasons)
            records.append(draft("tool.outcome", self._outcome_body(status, reason, attempt=0)))
            self._recorder.commit(records)
            self._answer(turn, turn.calls[ordinal])
            return
        self._execute(process, turn, ordinal, records, declaration, parsed)

    def _examine(
        self, process: LiveProcess, name: str, text: str
    ) -> Refusal | tuple[ToolDeclaration, str, dict[str, Any]]:
        """Parse once, validate against the tool's schema. Returns declaration, canonical text, parsed arguments."""
        if name not in self.registry:
            held = ", ".join(sorted(process.rights)) or "none"
            return Refusal("error", f"there is no tool {name!r}; the tools of this turn are: {held}")
        entry = self.registry[name]
        try:
            parsed = parse_arguments(text, self._bounds.tool_arguments_bytes)
            entry.validator.check(parsed)
            return entry.declaration, canonical_json(parsed), parsed
        except ArgumentsError as error:
            return Refusal("error", f"arguments of {name} were refused: {error}")

    # -- execution -----------------------------------------------------------------------------------------------

    def _intent(self, turn: Turn, pid: int, call: Call | None, body: dict[str, Any], cause: int) -> Draft:
        attempt = 1 if call is None else call.attempt + 1
        full = {"boot": self._boot, "pid": pid, "attempt": attempt, **body}
        return Draft("tool.intent", full, pid, body["tool"], turn.mail.trace, cause)

    def _execute(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        records: list[Draft],
        declaration: ToolDeclaration,
        parsed: dict[str, Any],
    ) -> None:
        """Write ``records`` (proposal and verdict, or nothing when resumed) with an intent, and run the call."""
        arguments = canonical_json(parsed)
        body = {
            "turn": turn.id,
            "ordinal": ordinal,
            "tool": declaration.name,
            "arguments_hash": sha256_hex(arguments),
            "effects": declaration.effects,
        }
        call = turn.calls.get(ordinal)
        cause = PREVIOUS if records else turn.started_seq if call is None else call.seq
        records = [*records, self._intent(turn, process.pid, call, body, cause)]
        if declaration.sandbox == "node":
            self._run_in_node(process, turn, ordinal, records, declaration, parsed)
            return
        ticket = self._recorder.commit(records, durable=True)
        intent = ticket.entries[-1]
        workspace = process.spec.workspace

        async def run() -> None:
            group = await ticket.durable()
            work = WorkerCall(
                tool=declaration.name,
                arguments=arguments,
                receipt=group.receipt(intent).encode(),
                salt=intent.salt,
                body=intent.body,
                workspace=workspace,
                timeout_s=declaration.timeout_s,
            )
            await self._finish(turn, ordinal, declaration, intent, self._workers.run(work))

        self._spawn(turn, ordinal, run())

    def _spawn(self, turn: Turn, ordinal: str, work: Coroutine[Any, Any, None]) -> None:
        key = (turn.id, ordinal)
        self._running.add(key)

        async def guarded() -> None:
            try:
                await work
            except LedgerUnavailable as error:
                self._give_up(turn, ordinal, f"not recorded, so not done: {error}")
            finally:
                self._running.discard(key)

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give_up(self, turn: Turn, ordinal: str, text: str) -> None:
        """Answer without a record: the ledger cannot take one. The turn's end is recorded when it can again."""
        self._turns.answer(turn, ordinal, {"status": "denied", "text": text, "truncated": False})

    async def _finish(
        self,
        turn: Turn,
        ordinal: str,
        declaration: ToolDeclaration,
        intent: Written,
        running: Coroutine[Any, Any, WorkerResult],
    ) -> None:
        try:
            result = await running
        except WorkerUnavailable as error:
            body = self._outcome_body("error", f"the tool could not be started: {error}")
        except WorkerLost:
            self._running.discard((turn.id, ordinal))
            self._settle_doubt(turn, ordinal, declaration, intent.entry.seq)
            return
        else:
            status = "denied" if result.status == "refused" else result.status
            body = self._outcome_body(status, result.text, result.full_hash, result.truncated)
        await self._conclude(turn, ordinal, declaration, intent.entry.seq, body)

    async def _conclude(
        self, turn: Turn, ordinal: str, declaration: ToolDeclaration, cause: int, body: dict[str, Any]
    ) -> None:
        """Record an outcome and hand it on; with effects, only once it is on the disk."""
        call = turn.calls[ordinal]
        body["attempt"] = call.attempt
        ticket = self._recorder.commit(
            [self._outcome_draft(turn, call, declaration.name, body, cause)], durable=declaration.effects != "none"
        )
        if declaration.effects != "none":
            await ticket.durable()
        self._running.discard((turn.id, ordinal))
        self._answer(turn, call)

    def _outcome_body(
        self, status: str, text: str, full_hash: str = "", truncated: bool = False, attempt: int = 1
    ) -> dict[str, Any]:
        kept, cut = cut_bytes(text, self._bounds.tool_record_bytes)
        return {
            "status": status,
            "result": kept,
            "result_hash": full_hash or sha256_hex(text),
            "truncated": truncated or cut,
            "attempt": attempt,
        }

    def _outcome_draft(self, turn: Turn, call: Call, tool: str, body: dict[str, Any], cause: int) -> Draft:
        head = {"turn": turn.id, "ordinal": call.ordinal, "tool": tool}
        pid = self._pid(turn)
        return Draft("tool.outcome", {**head, **body}, pid, tool, turn.mail.trace, cause)

    def _pid(self, turn: Turn) -> int:
        slot = self._state.slots.get(turn.address)
        return slot.pid if slot is not None else 0

    def _answer(self, turn: Turn, call: Call) -> None:
        """Hand a recorded outcome over: at most ``tool_result_bytes`` of it."""
        if call.outcome is None:
            return
        text, cut = cut_bytes(call.outcome["result"], self._bounds.tool_result_bytes)
        truncated = cut or call.outcome["truncated"]
        self._turns.answer(turn, call.ordinal, {"status": call.outcome["status"], "text": text, "truncated": truncated})

    # -- in the node ---------------------------------------------------------------------------------------------

    def _run_in_node(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        records: list[Draft],
        declaration: ToolDeclaration,
        parsed: dict[str, Any],
    ) -> None:
        """A pure built-in, or one that is only records: all of it in one unit."""
        seq = self._recorder.ledger.next_seq + len(records)
        try:
            done = self._node_tools.run(process, turn, ordinal, declaration.name, parsed, seq)
        except KernelError as error:
            done = Done("error", str(error))
        if isinstance(done, Pending):
            ticket = self._recorder.commit([*records, *done.records], durable=True)
            done.after()
            self._await_reply(turn, ordinal, done.deadline_s)
            return
        body = self._outcome_body(done.status, done.text)
        draft = Draft(
            "tool.outcome",
            {"turn": turn.id, "ordinal": ordinal, "tool": declaration.name, **body},
            process.pid,
            declaration.name,
            turn.mail.trace,
            seq - 1,
        )
        ticket = self._recorder.commit([*records, *done.records, draft], durable=bool(done.records))
        done.after()
        call = turn.calls[ordinal]
        if not done.records:
            self._answer(turn, call)
            return

        async def when_durable() -> None:
            await ticket.durable()
            self._answer(turn, call)

        self._spawn(turn, ordinal, when_durable())

    def _await_reply(self, turn: Turn, ordinal: str, deadline_s: float) -> None:
        key = (turn.id, ordinal)
        self._running.add(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(deadline_s, self._reply_late, turn, ordinal, deadline_s)

    def _reply_late(self, turn: Turn, ordinal: str, deadline_s: float) -> None:
        try:
            records, after = self.replied(f"{turn.id}:{ordinal}", "timeout", f"no reply within {deadline_s:g} s")
            self._recorder.commit(records)
        except LedgerUnavailable:
            self._await_reply(turn, ordinal, 1.0)
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
        body = self._outcome_body(status, reply, attempt=call.attempt)
        records = [self._outcome_draft(turn, call, "ask", body, call.intent_seq)]

        def after() -> None:
            timer = self._timers.pop((turn.id, ordinal), None)
            if timer is not None:
                timer.cancel()
            self._running.discard((turn.id, ordinal))
            self._answer(turn, call)

        return records, after

    # -- doubt ---------------------------------------------------------------------------------------------------

    def _settle_doubt(self, turn: Turn, ordinal: str, declaration: ToolDeclaration | None, cause: int) -> None:
        """An intent whose effect is unknown: again, given up, or before a person."""
        call = turn.calls[ordinal]
        policy = "ask" if declaration is None else declaration.on_doubt
        harmless = declaration is not None and declaration.effects == "none"
        process = self._live.at(turn.address)
        if (harmless or policy == "retry") and call.attempt < MAX_ATTEMPTS:
            if process is not None and process.turn == turn.id and ordinal in process.asked:
                self._resume(process, turn, call)
            return
        if policy == "lost" or harmless:
            body = self._outcome_body("lost", f"{call.name} was lost in a crash, {call.attempt} times")
        else:
            body = self._outcome_body("in_doubt", "it is not known whether this was done; a person must say")
        body["attempt"] = call.attempt
        self._recorder.commit([self._outcome_draft(turn, call, call.name, body, cause)], durable=True)
        if call.outcome is not None:
            self._answer(turn, call)
        elif process is not None and process.turn == turn.id:
            self._suspend(process)

    def recover(self) -> int:
        """After a replay, before anything listens: settle every intent without an outcome. Returns how many doubts."""
        for turn in list(self._state.turns.values()):
            for ordinal, call in list(turn.calls.items()):
                if call.op != "tool" or call.outcome is not None or call.doubt or call.intent_seq < 0:
                    continue
                if call.name == "ask":
                    self._await_reply(turn, ordinal, self._bounds.ask_timeout_s)
                    continue
                declaration = self.registry[call.name].declaration if call.name in self.registry else None
                self._settle_doubt(turn, ordinal, declaration, call.intent_seq)
        return len(self._state.doubts())

    def _resume(self, process: LiveProcess, turn: Turn, call: Call) -> None:
        """Run a recorded proposal (again): judged anew, since rights and registry may have changed."""
        outcome = self._examine(process, call.name, call.arguments)
        if isinstance(outcome, Refusal):
            refusal = outcome
        else:
            declaration, _, parsed = outcome
            writable = self._recorder.ledger.read_only is None
            verdict = judge(Proposal(declaration, parsed, process.rights, writable))
            if verdict.decision == "allow":
                self._execute(process, turn, call.ordinal, [], declaration, parsed)
                return
            refusal = Refusal("denied", "; ".join(verdict.reasons))
        body = self._outcome_body(refusal.status, refusal.text, attempt=call.attempt)
        self._recorder.commit([self._outcome_draft(turn, call, call.name, body, call.seq)])
        self._answer(turn, call)

    def _suspend(self, process: LiveProcess) -> None:
        if process.state is ProcessState.RUNNING:
            process.on(ProcessEvent.SUSPEND)

    async def resolve(self, ident: str, resolution: str, by: str) -> str:
        """A person's word on a doubt (``turn:ordinal``). Returns the tool's name. Raises NotFound or Refused."""
        ident, _, ordinal = ident.partition(":")
        turn = self._state.turns.get(ident)
        call = turn.calls.get(ordinal) if turn is not None else None
        if turn is None or call is None or not call.doubt:
            raise NotFound(f"no doubt {ident}:{ordinal}; weftos doubts list shows them")
        body = {"turn": turn.id, "ordinal": ordinal, "tool": call.name, "resolution": resolution, "by": by}
        resolved = Draft("tool.resolved", body, self._pid(turn), call.name, turn.mail.trace, call.intent_seq)
        process = self._live.at(turn.address)
        if resolution == "retry":
            ticket = self._recorder.commit([resolved], durable=True)
        elif resolution in ("done", "lost"):
            status, text = ("ok", "done (a person confirmed it)") if resolution == "done" else ("lost", "not done")
            outcome = self._outcome_body(status, text, attempt=call.attempt)
            draft = self._outcome_draft(turn, call, call.name, outcome, PREVIOUS)
            ticket = self._recorder.commit([resolved, draft], durable=True)
        else:
            raise Refused(f"resolution {resolution!r} is none of retry, done, lost")
        await ticket.durable()
        if process is not None and process.turn == turn.id:
            if process.state is ProcessState.SUSPENDED and not any(other.doubt for other in turn.calls.values()):
                process.on(ProcessEvent.RESUME)
            if call.outcome is not None:
                self._answer(turn, call)
            elif ordinal in process.asked:
                self._resume(process, turn, call)
        return call.name

    def settle(self, turn: Turn) -> list[Draft]:
        """Outcomes for the open intents of a turn that ends: nobody will ask for them again.

        A call that a worker still runs is left out: its outcome is recorded when it is known.
        """
        for call in turn.calls.values():
            timer = self._timers.pop((turn.id, call.ordinal), None)
            if timer is not None:
                timer.cancel()
                self._running.discard((turn.id, call.ordinal))
        return [
            self._outcome_draft(
                turn,
                call,
                call.name,
                self._outcome_body("lost", "the turn ended before this was known", attempt=call.attempt),
                call.intent_seq,
            )
            for call in turn.calls.values()
            if call.op == "tool" and call.outcome is None and call.intent_seq >= 0
            and (turn.id, call.ordinal) not in self._running
        ]

    async def close(self) -> None:
        """Stop waiting for replies; running calls end with their workers."""
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
