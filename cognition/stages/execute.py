"""The model is asked, the tools that it asks for are run, and it is asked again until it answers.

Nothing that a model says is an exception here: an error, an unknown tool, no words at all, the same call for ever or
an answer of the wrong shape each end in a reply that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cognition.context import (
    Record,
    call_record,
    node_note,
    record_bytes,
    result_records,
    shortened,
)
from cognition.execution.claims import note_of as note_of_claims
from cognition.execution.claims import unsupported
from cognition.execution.loading import LOAD_TOOLS, load
from cognition.execution.loading import note_of as note_of_groups
from cognition.execution.recovered import recovered_calls
from cognition.execution.repair import repaired
from cognition.execution.repetition import (
    END,
    UNKNOWN_END,
    WARN,
    Repetition,
    Verdict,
    key_of,
    refusal,
    warning,
)
from cognition.execution.shape import Shape, shape_of
from cognition.execution.spoken import spoken
from cognition.forerunner import note_of
from cognition.guard.admission import fault_of
from cognition.guard.guard import MESSAGE_NOTE, REFUSED, guarded_message, guarded_result
from cognition.guard.window import SURE, ContextOverflow, fitted
from cognition.prompt.shown import sections_of
from cognition.stages.context_guard import bare_context
from cognition.turn.agent_turn import AgentTurn, Reply
from cognition.turn.outcome import Continue, Outcome
from kernel.abi import ModelAnswer, ModelRequest, ToolCall, ToolResult

CUT = "\n\n[weftos: the answer was cut at the limit of tokens of one answer.]"
EMPTY = "the answer was empty. Answer with text, or call a tool."
CLOSING = (
    "that was the last round of tool calls. "
    "Answer now, without tools, from what is known, and say what is left undone."
)


async def execute(turn: AgentTurn) -> Outcome:
    loop = _Loop(turn)
    reply = await loop.run()
    claims = note_of_claims(unsupported(reply.text, loop.exchange)) if reply.status == "ok" else ""
    if claims and turn.config.output_schema is None:
        reply = replace(reply, text=reply.text + claims)
    return Continue(replace(turn, exchange=tuple(loop.exchange)).told(reply))


class _Loop:
    """One turn's questions and calls. ``exchange``: what the session is to keep of them."""

    def __init__(self, turn: AgentTurn) -> None:
        self._turn = turn
        self._shown = list(turn.context or bare_context(turn))
        self._ends = {end.questions: end for end in turn.message.ends}
        self._repetition = Repetition()
        self._shape: Shape = shape_of(turn.config.output_schema)
        self._was_empty = False
        self._is_steered = turn.config.steers(turn.message.inbound.channel if turn.message.inbound else "")
        self._has_asked = False
        self._tools = turn.tools
        if LOAD_TOOLS in self._tools:
            self._note(note_of_groups(turn.loadable.tools))
        self.exchange: list[Record] = list(turn.exchange)
        self._exchange_bytes = sum(map(record_bytes, self.exchange))

    async def run(self) -> Reply:
        """Ask and run until there is something to say."""
        rounds = self._turn.config.execution.max_tool_rounds
        while rounds:
            answer = await self._ask(self._tools)
            if answer.status != "ok":
                return self._failed(f"The model could not be asked: {answer.text}")
            if not answer.tool_calls:
                reply = self._answered(answer)
                if reply is not None:
                    return reply
                continue
            rounds -= 1
            if (end := await self._round(answer)) is not None:
                return end
        return await self._close()

    async def _ask(self, tools: tuple[str, ...]) -> ModelAnswer:
        """One question, before which stands how forerunners ended that had put as many. Calls in its text count."""
        turn = self._turn
        await self._steer()
        for questions in sorted(self._ends):
            if questions <= turn.questions.count:
                self._shown += note_of(self._ends.pop(questions))
        if (overflow := self._fit(tools)) is not None:
            return ModelAnswer("error", str(overflow), error_kind="context_overflow")
        answer = await turn.ask(self._request(tools))
        if answer.status != "ok" or answer.tool_calls:
            return answer
        prose, calls = recovered_calls(answer.text, tools)
        return replace(answer, text=prose, tool_calls=calls) if calls else answer

    async def _steer(self) -> None:
        """Before each question but the first: what has been said meanwhile that joins this turn."""
        if not self._is_steered:
            return
        if not self._has_asked:
            self._has_asked = True
            return
        for text in await self._turn.sys.steered():
            if fault := fault_of(text, (), self._turn.guard):
                self._turn.sys.log(f"guard: a message that joined the turn was left out: {fault}")
                self._note(fault)
                continue
            guarded = guarded_message(text, self._turn.guard)
            if guarded.signals:
                self._turn.sys.log(f"injection: a message that joined the turn ({guarded.why})")
            if guarded.signals and self._turn.guard.injection == "refuse":
                self._note(REFUSED.format(signals=guarded.why))
                continue
            if guarded.signals and self._turn.guard.injection == "flag":
                self._note(MESSAGE_NOTE.format(signals=guarded.why))
            said: Record = {"role": "user", "content": guarded.text}
            self.exchange.append(said)
            self._exchange_bytes += record_bytes(said)
            self._shown.append(said)

    def _request(self, tools: tuple[str, ...]) -> ModelRequest:
        turn, config = self._turn, self._turn.config
        return ModelRequest(
            tuple(self._shown),
            tools,
            turn.provider,
            turn.model,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            max_tokens=config.max_tokens,
            output_schema=config.output_schema,
            stream=config.execution.stream,
            sections=sections_of(self._shown, turn.question, turn.prompt, turn.loadable.total(tools)),
        )

    def _answered(self, answer: ModelAnswer) -> Reply | None:
        """What is to be said of an answer without calls; None: it is to be asked again."""
        if answer.stop_reason == "content_filter":
            return self._failed("The provider's content filter has ended the answer.")
        if not answer.text.strip():
            if answer.stop_reason == "length":
                return self._failed("The model came to its limit of tokens before it had said anything.")
            if self._was_empty:
                return self._failed("The model answered with nothing, twice: neither text nor a tool call.")
            self._was_empty = True
            self._note(EMPTY)
            return None
        if why := self._shape.fault_of(answer.text):
            self._shape = self._shape.missed()
            if self._shape.over:
                return self._failed(f"The model gave no answer of the shape that was asked for: {why}")
            self._shown.append({"role": "assistant", "content": answer.text})
            self._note(self._shape.note(why))
            return None
        return self._said(answer)

    def _said(self, answer: ModelAnswer) -> Reply:
        """What a model said, with a word where its limit of tokens has cut it."""
        cut = answer.stop_reason == "length"
        text = self._shape.text_of(answer.text)
        if self._turn.config.voice_mode and self._turn.config.output_schema is None:
            text = spoken(text)
        text += CUT if cut else ""
        return Reply(shortened(text, self._turn.bounds.reply_bytes), cut=cut)

    async def _close(self) -> Reply:
        """One last question without tools."""
        rounds = self._turn.config.execution.max_tool_rounds
        self._note(CLOSING)
        answer = await self._ask(())
        if answer.status == "ok" and answer.text.strip() and not self._shape.fault_of(answer.text):
            return replace(self._said(answer), cut=True)
        return self._failed(
            f"I stopped after {rounds} rounds, the most there may be: the model still asked for tools."
        )

    async def _round(self, answer: ModelAnswer) -> Reply | None:
        """The calls of one answer; what ends the turn, if they do."""
        bounds = self._turn.bounds
        calls = tuple(map(repaired, answer.tool_calls))
        verdicts = self._judged(calls)
        made = [call for call, verdict in zip(calls, verdicts, strict=True) if verdict in ("run", "warn")]
        outcomes = iter(await self._made(made[: bounds.calls_per_round]))
        results = [
            self._result(call, verdict, outcomes) for call, verdict in zip(calls, verdicts, strict=True)
        ]
        added = [call_record(answer.text, calls), *result_records(calls, results, bounds.round_bytes)]
        self.exchange += added
        self._shown += added
        if "end" in verdicts:
            name = calls[verdicts.index("end")].name
            return self._failed(
                f"I stopped: {name} was called {END} times with the same arguments and result."
            )
        if self._repetition.lost:
            return self._failed(f"I stopped: {UNKNOWN_END} calls named tools that were not offered.")
        self._exchange_bytes += sum(map(record_bytes, added))
        if self._exchange_bytes > bounds.turn_bytes:
            return self._failed(f"The turn grew over {bounds.turn_bytes} bytes and was ended.")
        return None

    def _judged(self, calls: Sequence[ToolCall]) -> list[Verdict]:
        """What is to become of each; those of one answer count for each other."""
        before: Counter[str] = Counter()
        verdicts: list[Verdict] = []
        for call in calls:
            verdicts.append(self._repetition.judge(call, before[key_of(call)]))
            before[key_of(call)] += 1
            if call.name not in self._tools:
                self._repetition = self._repetition.unknown_tool()
        return verdicts

    async def _made(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """What came of each; that tools are to be loaded is nobody's call but the loop's."""
        loads = [call.name == LOAD_TOOLS in self._tools for call in calls]
        loaded = iter([self._loaded(call) for call, load in zip(calls, loads, strict=True) if load])
        run = iter(await self._run([call for call, load in zip(calls, loads, strict=True) if not load]))
        return [next(loaded if load else run) for load in loads]

    def _loaded(self, call: ToolCall) -> ToolResult:
        self._tools, result = load(call, self._turn.loadable, self._tools)
        return result

    async def _run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        if not calls:
            return []
        if self._turn.config.execution.parallel_tools:
            return await self._turn.sys.call_tools(calls)
        return [result for call in calls for result in await self._turn.sys.call_tools([call])]

    def _result(self, call: ToolCall, verdict: Verdict, outcomes: Iterator[ToolResult]) -> ToolResult:
        """What came of a call, or why it was not made, as the model is told it."""
        times = self._repetition.times(call) + 1
        if verdict in ("refuse", "end"):
            self._repetition = self._repetition.refused(call)
            return ToolResult(call.id, call.name, "denied", refusal(times))
        result = next(outcomes, None)
        if result is None:
            limit = self._turn.bounds.calls_per_round
            return ToolResult(call.id, call.name, "denied", f"not run: at most {limit} calls in one round")
        self._repetition = self._repetition.made(call, result)
        times = self._repetition.times(call)
        result = self._guarded(call, result)
        return replace(result, text=result.text + warning(times)) if times >= WARN else result

    def _guarded(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """A result as the model may see it, if it reads like orders."""
        guarded = guarded_result(call.name, result.text, self._turn.guard)
        if not guarded.signals:
            return result
        self._turn.sys.log(f"injection: {call.name} ({guarded.why})")
        return replace(result, text=guarded.text)

    def _fit(self, tools: tuple[str, ...]) -> ContextOverflow | None:
        """What is shown is made to fit the model's window, where one is known; what is dropped stays dropped."""
        config = self._turn.config
        window = self._turn.context_window or config.context_window
        if not window:
            return None
        room = int(SURE * (window - config.max_tokens)) - self._turn.loadable.total(tools)
        fit = fitted(self._shown, self._turn.question, room)
        if isinstance(fit, ContextOverflow):
            return fit
        self._shown = fit
        return None

    def _note(self, text: str) -> None:
        """Said to the model in this turn alone."""
        self._shown.append(node_note(text))

    def _failed(self, reply: str) -> Reply:
        """An error reply. The session keeps what was done; a question nothing was done about leaves no trace."""
        return Reply(reply, "error", keep=len(self.exchange) > 1)
