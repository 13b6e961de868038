"""What stands before the exchange at each question: system prompt, history, the question, what memory has on it."""

from __future__ import annotations

from dataclasses import replace

from cognition.context import Record, system_records
from cognition.recall.context import TOOL as RECALL_TOOL
from cognition.recall.context import recall_call, recall_records
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome


async def context_guard(turn: AgentTurn) -> Outcome:
    context = (*bare_context(turn), *await _recalled(turn))
    return Continue(replace(turn, context=context))


def bare_context(turn: AgentTurn) -> tuple[Record, ...]:
    """System prompt, history and question: what a model is shown where no stage has put a context together."""
    return (*system_records(turn.config.standing_prompt), *turn.history, turn.question)


async def _recalled(turn: AgentTurn) -> tuple[Record, ...]:
    """What memory has on the message, for this turn alone. Without memory the turn goes on without it."""
    call, budget = recall_call(turn.message.text), turn.config.recall_tokens
    if (
        not budget
        or call is None
        or RECALL_TOOL not in await turn.sys.tools()
        or not turn.config.wants(RECALL_TOOL)
    ):
        return ()
    [result] = await turn.sys.call_tools([call])
    if result.status != "ok":
        turn.sys.log(f"recall: {result.status}")
    return recall_records(call, result, budget)
