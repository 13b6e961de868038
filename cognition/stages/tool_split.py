"""Which tools are offered: those that the process may use, of which the configuration wants."""

from __future__ import annotations

from dataclasses import replace

from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome


async def tool_split(turn: AgentTurn) -> Outcome:
    allowed = await turn.sys.tools()
    offered = tuple(filter(turn.wants, allowed))
    return Continue(replace(turn, tools=offered), f"{len(offered)} of {len(allowed)} tools")
