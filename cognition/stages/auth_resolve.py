"""Who has sent the message, as the node has decided it.

The node resolves a user of a channel when it accepts his message, refuses him there, and records what it made of him
(``kernel/policy/access.py``); it holds each question and each call to that. So a resumed turn sees the same, whatever
the configuration says by then. Here the turn learns it, and gives up where nothing was decided.
"""

from __future__ import annotations

from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Abort, Continue, Outcome

UNRESOLVED = "AccessDenied: the node has not said who {user} of {channel} is."


async def auth_resolve(turn: AgentTurn) -> Outcome:
    inbound, who = turn.message.inbound, turn.identity
    if inbound is None or not inbound.channel:
        return Continue(turn, f"{turn.message.sender} ({', '.join(turn.roles)})")
    if not who.name or not who.roles:
        return Abort(UNRESOLVED.format(user=inbound.user or "nobody", channel=inbound.channel))
    most = f", {who.max_tier} at most" if who.max_tier else ""
    sees = "" if who.sensitive else ", not shown what is sensitive"
    return Continue(
        turn, f"{inbound.channel}:{inbound.user} is {who.name} ({', '.join(who.roles)}{most}{sees})"
    )
