"""The tool engine: propose, validate, judge, intend, execute, record.

One call is four entries: ``tool.proposed`` (what was asked), ``tool.verdict`` (what was decided and why),
``tool.intent`` (signed and on the disk before anything with effects happens) and ``tool.outcome``. Refusals are data
for whoever asked, never exceptions. What becomes of an intent without an outcome is in ``lost_calls.py`` and
``doubts.py``; no outcome is a guess: that nothing was done is said only of what was not handed over.

Pure built-ins run in the node. Built-ins whose whole effect is journal records (``send_message``, ``ask``,
``spawn_agent``, ``memory_write``) are written in one unit with their outcome, so they are never in doubt. What reads
memory is answered by the archive. Everything else runs in a worker, which is handed the receipt of the intent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft, Ticket
from kernel.abi import OutcomeStatus, ToolCall, ToolDeclaration
from kernel.bounds import Bounds
from kernel.errors import KernelError, fault_of
from kernel.message.message_signals import AskAnswered, TurnCut
from kernel.policy.asker import Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import UseTool, Verdict, deny
from kernel.policy.rules.in_force import Rules
from kernel.process.live import LiveProcess, LiveTable
from kernel.slices.calls import OpenIntent, call_id
from kernel.slices.mailboxes import Mail
from kernel.slices.turns import Call, Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.syscall.attempts import Attempt, Attempts
from kernel.syscall.doubts import Resolved, harmless, node_policy
from kernel.syscall.execution.at_once import AtOnce
from kernel.syscall.lost_calls import LostCalls
from kernel.syscall.memory_tools import MemoryTools
from kernel.syscall.node_tools import Done, NodeTools, Pending
from kernel.syscall.probes import Probes, new_effect_id
from kernel.syscall.settlement import Settlement
from kernel.syscall.tool_records import CallSite, for_cell
from kernel.toolbox.arguments import ArgumentsError, canonical_json, parse_arguments
from kernel.toolbox.registry import Registry
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, clean, cut_bytes
from kernel.worker.workers import (
    Came,
    WorkerCall,
    WorkerLeft,
    WorkerLost,
    WorkerResult,
    Workers,
    WorkerUnavailable,
    WorkerWithdrawn,
)

log = logging.getLogger(__name__)
SHOWN_UNPARSED_BYTES = 4096
LEAST_S = 0.1  # what a call has that begins as the time of its turn ends


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
    policy: Policy
    bounds: Bounds
    boot: str
    chance: Random
    rules: Rules


class ToolCalls:
    """Takes ``tool`` syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        turns: Turns,
        registry: Registry,
        attempts: Attempts,
        settlement: Settlement,
        parts: ToolParts,
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._turns = turns
        self._registry = registry
        self._parts = parts
        self._bounds = parts.bounds
        self._attempts = attempts
        self._settlement = settlement
        self.doubts = settlement.doubts
        probes = Probes(parts.workers, registry, recorder.state, settlement, parts.bounds)
        self._lost = LostCalls(recorder, probes, settlement)
        self._after = AfterDurable(recorder.ledger)
        self._at_once = AtOnce(parts.bounds.worker_calls_per_turn)
        self._closing = False

    # -- the syscall ---------------------------------------------------------------------------------------------

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, asked: ToolCall) -> None:
        """A cell asks for a tool. Everything in ``asked`` is hostile."""
        if self._closing:  # the turn is taken up again at the next boot
            return
        name, text = clean(asked.name)[:64], clean(asked.arguments)
        hashed = call_hash("tool", name, text)
        call = turn.calls.get(ordinal)
        if call is None:
            self._propose(
                process,
                CallSite(turn, ordinal, name, process.pid, self._settlement.subject(name)),
                hashed,
                text,
            )
        elif call.call_hash != hashed:
            self._turns.diverge(process, turn, call, shown("tool", name, text))
        elif call.outcome is not None:
            self._answer(turn, call)
        elif call.doubt:
            self.doubts.suspend(turn)
        else:
            self._again(process, turn, call)

    def _propose(self, process: LiveProcess, site: CallSite, hashed: str, text: str) -> None:
        examined = self._examine(process, site.tool, text)
        if isinstance(examined, Examined):
            verdict, arguments = self._judge(process, site.turn, examined), examined.arguments
        else:
            verdict = Verdict("deny", (examined,))
            arguments, _ = cut_bytes(text, SHOWN_UNPARSED_BYTES)
        records = [site.proposed(hashed, arguments), site.verdict(verdict)]
        if isinstance(examined, Examined) and verdict.decision == "allow":
            self._execute(process, site, records, examined)
            return
        refused = self._settlement.outcome(_refusal(examined), "; ".join(verdict.reasons), 0)
        records.append(site.outcome(refused))
        self._recorder.commit(records)
        self._answer(site.turn, site.turn.calls[site.ordinal])

    def _again(self, process: LiveProcess, turn: Turn, call: Call) -> None:
        """Run a recorded proposal (again): judged anew, since rights and registry may have changed. Whoever comes
        second, the cell that asks or the person that resolves, finds it running, settled or in doubt anew.
        """
        if self._attempts.get(turn.id, call.ordinal) or call.outcome is not None or call.doubt:
            return
        if call.name == "ask" and call.intent_seq >= 0:  # the question was sent, with the intent
            self._await_asked((turn.id, call.ordinal), self._state.questions())
            return
        site = self._settlement.site_of(turn, call, process.pid)
        examined = self._examine(process, call.name, call.arguments)
        if isinstance(examined, Examined):
            verdict = self._judge(process, turn, examined, paid=True)
            if verdict.decision == "allow":
                self._execute(process, site, [], examined)
                return
        else:
            verdict = Verdict("deny", (examined,))
        why = "; ".join(verdict.reasons)
        draft = self._settlement.undone(site, call, _refusal(examined), why, again=True)
        self._recorder.commit([draft])
        self._conclude(turn, call)

    def _examine(self, process: LiveProcess, name: str, text: str) -> Examined | str:
        """Parse once and validate against the tool's schema; a string says why not."""
        if name not in self._registry:
            held = ", ".join(sorted(process.rights)) or "none"
            return f"there is no tool {name!r}; the tools of this turn are: {held}"
        entry = self._registry[name]
        try:
            parsed = parse_arguments(text, self._bounds.tool_arguments_bytes)
            entry.validator.check(parsed)
            return Examined(entry.declaration, parsed, canonical_json(parsed))
        except ArgumentsError as error:
            return f"arguments of {name} were refused: {error}"

    def _judge(self, process: LiveProcess, turn: Turn, examined: Examined, *, paid: bool = False) -> Verdict:
        if process.time.over:
            return deny(process.time.over)
        use = UseTool(examined.declaration, examined.parsed, paid)
        return self._parts.policy.judge(process.asker(turn), use)

    def _answer(self, turn: Turn, call: Call) -> None:
        """Hand a recorded outcome over."""
        if call.outcome is not None:
            outcome = for_cell(call.outcome, turn.result_bytes or self._bounds.tool_result_bytes)
            self._turns.answer(turn, call.ordinal, outcome)

    def _conclude(self, turn: Turn, call: Call) -> None:
        """What was recorded of a call, told to whoever runs its turn: its outcome, or to wait for a person."""
        if call.doubt:
            self.doubts.suspend(turn)
        elif call.outcome is None and call.intent_seq < 0:  # a person was quicker, and wants another attempt
            self._attempts.release(turn.id, call.ordinal)
            self._retry(turn, call)
        self._answer(turn, call)

    # -- execution -----------------------------------------------------------------------------------------------

    def _execute(self, process: LiveProcess, site: CallSite, before: list[Draft], examined: Examined) -> None:
        """Write ``before`` (proposal and verdict; nothing for a further attempt) with an intent, and run the call."""
        declaration, workspace = examined.declaration, process.spec.workspace
        call = site.call
        replaces = "" if call is None else call.replaces
        if declaration.sandbox == "builtin" and declaration.effects != "none" and not replaces:
            self._recorder.commit(before)
            self._attempt(site, lambda attempt: self._look_first(site, examined, workspace, attempt))
            return
        cause = PREVIOUS if call is None else call.seq
        intent = self._intent(site, examined, cause, replaces)
        records = [*before, intent]
        if declaration.sandbox == "node":
            self._run_in_node(process, site, records, examined)
            return
        if declaration.sandbox == "archive":
            asker = process.asker(site.turn)
            self._recorder.commit(records)
            self._attempt(site, lambda _: self._run_in_archive(site, examined, asker), begun=True)
            return
        ticket = self._recorder.commit(records, durable=True)
        attempt = self._attempts.begin(*site.key, site.pid)
        self._run_in_worker(site, examined, ticket, workspace, attempt)

    def _intent(self, site: CallSite, examined: Examined, cause: int, replaces: str) -> Draft:
        call, parts = site.call, self._parts
        effect_id = call.effect_id if call is not None else ""
        effect_id = effect_id or new_effect_id(parts.chance)
        return site.intent(examined.arguments, examined.declaration, parts.boot, effect_id, cause, replaces)

    def _attempt(
        self, site: CallSite, work: Callable[[Attempt], Coroutine[Any, Any, None]], *, begun: bool = False
    ) -> None:
        """Carry out an attempt. Whatever goes wrong in the node, whoever asked is answered."""
        self._attempts.run(*site.key, site.pid, self._guarded(site, work), begun=begun)

    def _guarded(
        self, site: CallSite, work: Callable[[Attempt], Coroutine[Any, Any, None]]
    ) -> Callable[[Attempt], Coroutine[Any, Any, None]]:
        async def guarded(attempt: Attempt) -> None:
            try:
                await work(attempt)
            except Exception as error:  # the boundary
                log.error("call %s of %s failed: %s", site.ordinal, site.turn.id, fault_of(error))
                attempt.over = True
                await self._node_failed(site, attempt.begun, error)

        return guarded

    async def _node_failed(self, site: CallSite, begun: bool, error: Exception) -> None:
        """The node itself failed at a call: in doubt when it was handed over and has effects, else an error."""
        call, text = site.call, f"the node failed at this call ({type(error).__name__})"
        if call is None or call.outcome is not None or call.doubt:
            return
        entry = self._registry.get(call.name)
        declaration = entry.declaration if entry is not None else None
        intent = self._state.intents.get(call_id(*site.key))
        if begun and intent is not None and not harmless(declaration, call):
            draft = self.doubts.draft(intent, node_policy(declaration, call), text)
        else:
            draft = self._settlement.undone(site, call, "error", text)
        await self._recorded(call, draft, durable=True)
        self._conclude(site.turn, call)

    def failed(
        self, process: LiveProcess, turn: Turn, ordinal: str, asked: ToolCall, error: Exception
    ) -> None:
        """The node failed at a call before it was under way. Raises what the ledger raises."""
        name, text = clean(asked.name)[:64], clean(asked.arguments)
        site = CallSite(turn, ordinal, name, process.pid, self._settlement.subject(name))
        if site.call is None:
            why = f"the node failed at this call ({type(error).__name__})"
            shown_text, _ = cut_bytes(text, SHOWN_UNPARSED_BYTES)
            hashed = call_hash("tool", name, text)
            self._recorder.commit(
                [
                    site.proposed(hashed, shown_text),
                    site.verdict(Verdict("deny", (why,))),
                    site.outcome(self._settlement.outcome("error", why, 0)),
                ]
            )
            self._answer(turn, turn.calls[ordinal])
        elif site.call.outcome is not None:
            raise error
        elif self._attempts.get(*site.key) is None:
            self._attempt(site, lambda _: self._node_failed(site, True, error), begun=True)

    async def _look_first(self, site: CallSite, examined: Examined, workspace: str, attempt: Attempt) -> None:
        """A write is recorded with the version that it replaces, so that it can be made again without harm."""
        call, declaration = site.turn.calls[site.ordinal], examined.declaration
        rules = self._parts.rules.of_turn(site.turn)
        limit_s = rules.timeout_s(declaration.name, declaration.timeout_s)
        look = WorkerCall(
            declaration.name, examined.arguments, b"", b"", b"", workspace, limit_s, files=rules.files
        )
        try:
            _check_wanted(attempt)
            replaces = await self._parts.workers.look(look, lambda: not attempt.withdrawn)
            intent = self._intent(site, examined, call.seq, replaces)
            ticket = await self._recorder.committed([intent])
            assert ticket is not None
        except (WorkerUnavailable, WorkerLost) as error:
            text = f"the tool could not be started, and nothing was done: {error}"
            draft = self._settlement.undone(site, call, "error", text)
        except (WorkerWithdrawn, asyncio.CancelledError):
            if self._closing or not attempt.withdrawn:
                return
            draft = self._settlement.withdrawn(site, call, attempt)
        else:
            self._run_in_worker(site, examined, ticket, workspace, attempt)
            return
        attempt.over = True
        await self._recorded(call, draft, durable=False)
        self._conclude(site.turn, call)

    def _run_in_worker(
        self, site: CallSite, examined: Examined, ticket: Ticket, workspace: str, attempt: Attempt
    ) -> None:
        """Hand the call over once its intent is on the disk, in the very turn of the loop that hears of it, and there
        is room for it beside the others of its turn; what comes of it is heard by :meth:`_ended`.
        """
        declaration = examined.declaration

        def hand_over() -> None:
            if attempt.withdrawn or self._closing:
                self._at_once.leave(site.turn.id, attempt)
                return
            try:
                self._put(site, declaration, self._work(site, examined, ticket, workspace), attempt)
            except Exception as error:  # surely not run, or a fault: the task does what is to be done then
                self._at_once.leave(site.turn.id, attempt)
                self._later(site, declaration, attempt, error)

        attempt.take_back = lambda: self._taken_back(site, declaration, attempt)
        self._after.do(lambda: self._at_once.enter(site.turn.id, attempt, hand_over), ticket)

    def _work(self, site: CallSite, examined: Examined, ticket: Ticket, workspace: str) -> WorkerCall:
        """What a worker is handed of a call whose intent, the last entry of ``ticket``, is on the disk."""
        declaration, intent = examined.declaration, ticket.entries[-1]
        rules = self._parts.rules.of_turn(site.turn)
        assert ticket.group is not None
        return WorkerCall(
            tool=declaration.name,
            arguments=examined.arguments,
            receipt=ticket.group.receipt(intent).encode(),
            salt=intent.salt,
            body=intent.body,
            workspace=workspace,
            timeout_s=self._limit_s(site.turn, rules.timeout_s(declaration.name, declaration.timeout_s)),
            effects=declaration.effects != "none",
            files=rules.files,
        )

    def _limit_s(self, turn: Turn, limit_s: float) -> float:
        """What a call may take that begins now: no more than its turn has left."""
        process = self._live.at(turn.address)
        if process is None or process.turn != turn.id:
            return limit_s
        return min(limit_s, max(LEAST_S, process.time.left_s()))

    def cut(self, cut: TurnCut) -> None:
        """A turn was cancelled: who carries out what it has asked is ended."""
        for ordinal in cut.ordinals:
            attempt = self._attempts.get(cut.turn, ordinal)
            if attempt is not None:
                attempt.stop(cut.why)

    def _taken_back(self, site: CallSite, declaration: ToolDeclaration, attempt: Attempt) -> None:
        self._at_once.leave(site.turn.id, attempt)
        self._later(site, declaration, attempt, WorkerWithdrawn(attempt.withdrawn))

    def _put(self, site: CallSite, declaration: ToolDeclaration, work: WorkerCall, attempt: Attempt) -> None:
        """Leave the attempt to the workers. Raises WorkerUnavailable."""
        heard: list[Came] = []

        def ended(came: Came) -> None:
            heard.append(came)
            self._ended(site, declaration, attempt, came)
            self._at_once.leave(site.turn.id, attempt)

        placed = self._parts.workers.put(work, lambda: self._begin(site, attempt), ended)

        def take_back() -> None:
            placed.take_back()
            self._taken_back(site, declaration, attempt)

        if not heard:
            attempt.take_back, attempt.end_it = take_back, placed.stop

    def _ended(self, site: CallSite, declaration: ToolDeclaration, attempt: Attempt, came: Came) -> None:
        """What came of a call. A result is recorded in this very iteration of the loop, if the ledger takes it; all
        else is a task's.
        """
        if self._closing:  # found open at the next boot
            return
        call = site.turn.calls[site.ordinal]
        if isinstance(came, WorkerResult) and call.outcome is None:
            attempt.over = True
            try:
                draft = self._result(site, call, came)
                durable = declaration.effects != "none"
                ticket = self._recorder.commit([draft], durable=durable)
            except (
                Exception
            ):  # refused, or a fault: the task meets it again, and does what is to be done then
                attempt.over = False
            else:
                self._attempts.end(*site.key, attempt)
                self._tell(site, call, ticket if durable else None)
                return
        self._later(site, declaration, attempt, came)

    def _later(self, site: CallSite, declaration: ToolDeclaration, attempt: Attempt, came: Came) -> None:
        settle = self._guarded(site, lambda attempt: self._settle(site, declaration, attempt, came))
        self._attempts.go_on(*site.key, attempt, settle)

    async def _settle(
        self, site: CallSite, declaration: ToolDeclaration, attempt: Attempt, came: Came
    ) -> None:
        """Record what came of a call, however long the disk refuses."""
        call = site.turn.calls[site.ordinal]
        if isinstance(came, WorkerResult):
            draft = self._result(site, call, came)
        elif isinstance(came, WorkerUnavailable):
            draft = self._settlement.undone(site, call, "error", f"the tool could not be started: {came}")
        elif isinstance(came, WorkerLost):
            intent = self._state.intents.get(call_id(*site.key))
            if intent is None:
                self._conclude(site.turn, call)
            else:
                await self._in_doubt(intent, str(came), left=isinstance(came, WorkerLeft))
            return
        elif not isinstance(came, WorkerWithdrawn):
            raise came
        elif self._closing or not attempt.withdrawn:
            return
        else:
            draft = self._settlement.withdrawn(site, call, attempt)
        attempt.over = True
        self._tell(site, call, await self._written(call, draft, durable=declaration.effects != "none"))

    def _tell(self, site: CallSite, call: Call, recorded: Ticket | None) -> None:
        """Tell what is recorded of a call, once that is on the disk."""
        if recorded is None:
            self._conclude(site.turn, call)
        else:
            self._after.do(lambda: self._conclude(site.turn, call), recorded)

    def _begin(self, site: CallSite, attempt: Attempt) -> bool:
        """The last look before a call is handed over; from then on it may have been done."""
        if site.turn.id not in self._state.turns:
            attempt.withdraw("its turn has ended")
        if not (attempt.withdrawn or self._closing):
            attempt.begin()
        return attempt.begun

    def _result(self, site: CallSite, call: Call, result: WorkerResult) -> Draft:
        if result.status == "refused":
            return self._settlement.undone(site, call, "denied", result.text)
        intent = self._state.intents.get(call_id(*site.key))
        if result.status == "changed":
            assert intent is not None  # it is open until this is recorded
            return self.doubts.outcome(intent, "in_doubt", result.text)
        outcome = self._settlement.outcome(
            result.status, result.text, call.attempt, result.full_hash, result.truncated
        )
        return site.outcome(outcome, call.intent_seq)

    async def _run_in_archive(self, site: CallSite, examined: Examined, asker: Asker) -> None:
        """A built-in that only reads memory. It has no effects, so its intent waits for no disk."""
        call = site.turn.calls[site.ordinal]
        done = await self._parts.memory_tools.run(examined.declaration, examined.parsed, asker)
        outcome = self._settlement.outcome(done.status, done.text, call.attempt)
        await self._recorded(call, site.outcome(outcome, call.intent_seq), durable=False)
        self._answer(site.turn, call)

    async def _recorded(self, call: Call, draft: Draft, *, durable: bool) -> None:
        """Write what has happened, however long the disk refuses: it must not be told before it is recorded."""
        ticket = await self._written(call, draft, durable=durable)
        if ticket is not None:
            await self._recorder.on_disk(ticket)

    async def _written(self, call: Call, draft: Draft, *, durable: bool) -> Ticket | None:
        """The same, and what is to be waited for before it is told; None when that is nothing.

        Committed as soon as the ledger takes it; when it does at once, nothing else runs in between. What has an
        outcome meanwhile (it was withdrawn, and its turn has ended) keeps that.
        """
        ticket = await self._recorder.committed([draft], durable=durable, wanted=lambda: call.outcome is None)
        return ticket if durable else None

    # -- in the node ---------------------------------------------------------------------------------------------

    def _run_in_node(
        self, process: LiveProcess, site: CallSite, records: list[Draft], examined: Examined
    ) -> None:
        """A pure built-in, or one that is only records: all of it in one unit."""
        unit = self._recorder.unit()
        unit.add(*records)
        intent_seq, before = unit.next_seq - 1, len(unit.records)
        try:
            done = self._parts.node_tools.run(process, site, examined.parsed, unit)
        except KernelError as error:
            done = Done("error", str(error))
        if isinstance(done, Pending):
            self._recorder.commit(unit)
            self._await_reply(site, done.deadline_s)
            return
        recorded = len(unit.records) > before
        outcome = self._settlement.outcome(done.status, done.text, records[-1].body["attempt"])
        unit.add(site.outcome(outcome, intent_seq))
        ticket = self._recorder.commit(unit, durable=recorded)
        call = site.turn.calls[site.ordinal]
        if recorded:
            self._after.do(lambda: self._answer(site.turn, call), ticket)
        else:
            self._answer(site.turn, call)

    def _await_reply(self, site: CallSite, deadline_s: float) -> None:
        """What was asked says how long; a rule for that tool, and the end of the turn's time, come before."""
        said_s = self._parts.rules.of_turn(site.turn).of(site.tool).timeout_s
        limit_s = self._limit_s(site.turn, deadline_s if said_s is None else min(said_s, deadline_s))
        key, why = site.key, f"no reply within {limit_s:.4g} s"
        self._attempts.wait(*key, limit_s, lambda: self._reply_late(key, why))

    def _await_asked(self, key: tuple[str, str], questions: Mapping[str, Mail]) -> None:
        """Wait for the reply to an ask that was made before, for what is left of its time."""
        asked = questions.get(call_id(*key))
        due_us = 0 if asked is None else asked.answer_by_us or asked.deadline_us
        left_s = max(0.0, (due_us - self._recorder.ledger.now_us()) / 1e6)
        self._attempts.wait(
            *key, left_s, lambda: self._reply_late(key, "no reply in the time that was given")
        )

    def _reply_late(self, key: tuple[str, str], why: str) -> None:
        def late() -> None:
            turn = self._state.turns.get(key[0])
            call = turn.calls.get(key[1]) if turn is not None else None
            if turn is not None and call is not None and call.outcome is None:
                unit = self._recorder.unit()
                self._settlement.ask_ended(unit, turn, call, "timeout", why)
                self._recorder.commit(unit)

        self._recorder.until_writable(("late", *key), late)

    def answered(self, answered: AskAnswered) -> None:
        """The answer to an ask was recorded."""
        turn = self._state.turns.get(answered.turn)
        call = turn.calls.get(answered.ordinal) if turn is not None else None
        if turn is not None and call is not None and call.outcome is not None:  # else another took its place
            self._attempts.stop_waiting(turn.id, call.ordinal)
            self._answer(turn, call)

    # -- doubt ---------------------------------------------------------------------------------------------------

    async def _in_doubt(self, intent: OpenIntent, why: str, *, left: bool = False) -> None:
        """Whoever made a call is gone with it, or was ``left`` to itself. It counts as under way until it is written
        what is to become of it: nobody makes it meanwhile.
        """
        again = await self._lost.decide(intent, why, left=left)
        turn = self._state.turns.get(intent.turn)
        if turn is None:
            return
        self.doubts.wake(turn)
        if again:
            self._attempts.release(turn.id, intent.call.ordinal)
            self._retry(turn, intent.call)
        else:
            self._conclude(turn, intent.call)

    def recover(self) -> None:
        """After a replay, before anything listens: settle every intent without an outcome."""
        questions = self._state.questions()
        for intent in self._state.intents:
            call, turn_open = intent.call, intent.turn in self._state.turns
            why = f"the node ended while {call.name} was under way"
            if self._lost.has_probe(call):
                work = partial(self._probed, intent, why)
                self._attempts.run(intent.turn, call.ordinal, call.pid, work, begun=True)
            elif call.doubt:
                continue
            elif call.name == "ask" and turn_open:
                self._await_asked((intent.turn, call.ordinal), questions)
            elif drafts := self._settlement.doubted(intent, why, turn_open=turn_open):
                self._recorder.commit(drafts, durable=True)

    async def _probed(self, intent: OpenIntent, why: str, attempt: Attempt) -> None:
        await self._in_doubt(intent, why)

    async def resolve(self, ident: str, resolution: str, by: str) -> str:
        """A person's word on a doubt (``turn:ordinal``). Returns the tool's name. Raises NotFound or Refused."""
        resolved = await self.doubts.resolve(ident, resolution, by, self._resolved)
        return resolved.call.name

    def _resolved(self, resolved: Resolved) -> None:
        if resolved.turn is None:
            return
        if resolved.again:
            self._retry(resolved.turn, resolved.call)
        else:
            self._answer(resolved.turn, resolved.call)

    def _retry(self, turn: Turn, call: Call) -> None:
        """Another attempt, when somebody asks for it now; otherwise it is made when the turn is resumed and asks."""
        process = self._live.at(turn.address)
        if process is None or not self._turns.asks(process, turn, call.ordinal):
            return
        key = ("call", turn.id, call.ordinal)

        def again() -> None:
            if self._turns.asks(process, turn, call.ordinal):
                self._again(process, turn, call)

        self._recorder.until_writable(key, again)

    async def close(self) -> None:
        """Stop waiting for replies. Calls under way end with their workers, and are found open at the next boot; those
        that were not handed over are made then, unless they were withdrawn.
        """
        self._closing = True
        for turn, ordinal, attempt in self._attempts.not_begun():
            draft = self._settlement.stopped(turn, ordinal, attempt)
            if draft is not None:
                with contextlib.suppress(LedgerUnavailable):  # then it is in doubt at the next boot
                    self._recorder.commit([draft])
        await self._attempts.close()


def _refusal(examined: Examined | str) -> OutcomeStatus:
    """How a call ends that is not made: denied, or an error when it could not be read."""
    return "denied" if isinstance(examined, Examined) else "error"


def _check_wanted(attempt: Attempt) -> None:
    """An attempt that was withdrawn before its first step goes no further. Raises WorkerWithdrawn."""
    if attempt.withdrawn:
        raise WorkerWithdrawn(attempt.withdrawn)
