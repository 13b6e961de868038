"""What of the session a model may see: whole exchanges that a model server takes, the newest that fit."""

from __future__ import annotations

from dataclasses import replace

from cognition.context import fitting, system_records
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome


async def history_sanitize(turn: AgentTurn) -> Outcome:
    config = turn.config
    head = system_records(config.standing_prompt)
    history = fitting(await turn.sys.history(), config.history.max_tokens, head)
    return Continue(replace(turn, history=history))
