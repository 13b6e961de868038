"""That this turn is one to learn from: the node, which has it all on record, keeps a trajectory of it.

Nothing is copied and nothing asked. What the node keeps, and for how long, is :mod:`kernel.slices.feed.trajectories`.
"""

from __future__ import annotations

from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome, Skip


async def learn(turn: AgentTurn) -> Outcome:
    return Continue(turn, "kept") if turn.config.learn.enabled else Skip("not enabled")
