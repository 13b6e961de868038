"""Which tools are offered: those that the process may use, of which the configuration wants, within what the window of
the model leaves for them; or one small tool, by which the model has those offered that it needs.
"""

from __future__ import annotations

from dataclasses import replace

from cognition.config.tools_config import wanted
from cognition.execution.loading import LOAD_TOOLS, budget_of, offer
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome

FEW = 2
"""So many are offered at once, whatever is configured: to load them would take more."""


async def tool_split(turn: AgentTurn) -> Outcome:
    config = turn.config
    allowed = await turn.sys.tools()
    made = offer(
        [name for name in allowed if turn.wants(name)],
        wanted(config.tools),
        await turn.sys.tool_tokens(),
        budget_of(turn.context_window or config.context_window, config.max_tokens),
    )
    for name, why in made.absent.items():
        turn.sys.log(f"tools: {name} is not offered: {why}")
    why = f"{len(made.tools)} of {len(allowed)} tools" if made.tools else "text only: no tool may be offered"
    if config.execution.load_tools and len(made.tools) > FEW:
        return Continue(replace(turn, tools=(LOAD_TOOLS,), loadable=made), f"{why}, on demand")
    return Continue(replace(turn, tools=made.tools, loadable=made), why)
