"""How the turn went, in numbers; they stand in its trace."""

from __future__ import annotations

from cognition.scoring.scores import Went, scores_of
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome, Skip


async def score(turn: AgentTurn) -> Outcome:
    reply = turn.reply
    if reply is None:
        return Skip("nothing was said")
    went = Went(
        turn.message.text, reply.text, reply.status == "ok", reply.cut, turn.exchange, len(turn.attempts)
    )
    return Continue(turn, str(scores_of(went)))
