"""The model is asked, the tools that it asks for are run, and it is asked again until it answers.

Nothing that a model says is an exception here: an error, an unknown tool, no words at all or tool calls for ever each
end in a reply that says so.
"""

from __future__ import annotations

from dataclasses import replace

from cognition.context import (
    Record,
    call_record,
    record_bytes,
    result_records,
    shortened,
)
from cognition.forerunner import note_of
from cognition.stages.context_guard import bare_context
from cognition.turn.agent_turn import AgentTurn, Reply
from cognition.turn.outcome import Continue, Outcome
from kernel.abi import ModelRequest, ToolCall, ToolResult


async def execute(turn: AgentTurn) -> Outcome:
    exchange: list[Record] = list(turn.exchange)
    reply = await _reply(turn, exchange)
    return Continue(replace(turn, exchange=tuple(exchange)).told(reply))


async def _reply(turn: AgentTurn, exchange: list[Record]) -> Reply:
    """Ask and run until there is something to say. What is asked and done is added to ``exchange``."""
    bounds, rounds = turn.bounds, turn.config.execution.max_tool_rounds
    shown = list(turn.context or bare_context(turn))
    ends = {end.questions: end for end in turn.message.ends}
    for number in range(rounds):
        shown += note_of(ends.get(number))
        answer = await turn.ask(ModelRequest(tuple(shown), turn.tools, turn.provider, turn.model))
        if answer.status != "ok":
            return _failed(exchange, f"The model could not be asked: {answer.text}")
        if not answer.tool_calls:
            if not answer.text.strip():
                return _failed(exchange, "The model answered with nothing: neither text nor a tool call.")
            return Reply(shortened(answer.text, bounds.reply_bytes))
        results = await _run(turn, answer.tool_calls)
        made = call_record(answer.text, answer.tool_calls)
        added = [made, *result_records(answer.tool_calls, results, bounds.round_bytes)]
        exchange += added
        shown += added
        if sum(map(record_bytes, exchange)) > bounds.turn_bytes:
            return _failed(exchange, f"The turn grew over {bounds.turn_bytes} bytes and was ended.")
    return _failed(exchange, f"I stopped after {rounds} rounds: the model still asked for tools.")


async def _run(turn: AgentTurn, calls: tuple[ToolCall, ...]) -> list[ToolResult]:
    """The calls of one round, in parallel. Those beyond the limit are not made, and the model is told."""
    limit = turn.bounds.calls_per_round
    results = await turn.sys.call_tools(calls[:limit])
    refusal = f"not run: at most {limit} calls in one round"
    return [*results, *(ToolResult(call.id, call.name, "denied", refusal) for call in calls[limit:])]


def _failed(exchange: list[Record], reply: str) -> Reply:
    """An error reply. The session keeps what was done; a question nothing was done about leaves no trace."""
    return Reply(reply, "error", keep=len(exchange) > 1)
