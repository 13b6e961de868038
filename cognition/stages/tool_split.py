"""Which tools are offered: those that the process may use, of which the configuration wants."""

from __future__ import annotations

from dataclasses import replace

from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome


async def tool_split(turn: AgentTurn) -> Outcome:
    wanted, allowed = turn.config.tools, await turn.sys.tools()
    offered = allowed if wanted is None else [name for name in allowed if name in wanted]
    return Continue(replace(turn, tools=tuple(offered)))
