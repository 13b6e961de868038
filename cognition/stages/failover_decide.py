"""Around the questions of ``execute``: what follows when a provider fails. Behind it: what came of that.

Where a router has chosen the model it says who is asked next too, and nobody beyond what the sender may have.
"""

from __future__ import annotations

from dataclasses import replace

from cognition.failover.asking import Failover, Place, chain_of
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome, Skip
from cognition.turn.stage import Stage


def around(execute: Stage) -> Stage:
    """``execute`` with the providers of the configuration behind each of its questions."""

    async def failing_over(turn: AgentTurn) -> Outcome:
        config = turn.config.failover
        if not config.enabled:
            return await execute(turn)
        others = turn.fallbacks if turn.tier else config.fallback_order
        chain = chain_of(Place(turn.provider, turn.model), others)
        failover = Failover(turn.ask, turn.sys.random, chain, config, turn.sys.log)
        outcome = await execute(replace(turn, ask=failover.ask))
        if not isinstance(outcome, Continue):
            return outcome
        return Continue(replace(outcome.turn, ask=turn.ask, attempts=tuple(failover.attempts)))

    return failing_over


async def failover_decide(turn: AgentTurn) -> Outcome:
    if not turn.config.failover.enabled:
        return Skip("not enabled: the gateway makes its own attempts at the one provider")
    if not turn.attempts:
        return Skip("each question was answered at the first attempt")
    return Continue(turn)
