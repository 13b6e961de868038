"""Which model the turn asks, once: by the task's complexity and what its sender may have, where routing is tiered.

The node judges each question again (``kernel/policy/routes.py``): what is decided here is a proposal.
"""

from __future__ import annotations

from dataclasses import replace

from cognition.context import estimate_tokens
from cognition.routing.router import Found, Need, Router, split_name
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Abort, Continue, Outcome, Skip


async def route(turn: AgentTurn) -> Outcome:
    router, config = turn.router, turn.config
    if router is None:
        return Skip("static: the provider and model of the configuration")
    if config.provider or config.model:
        return Skip(f"the configuration names {config.provider}/{config.model}")
    shown = (*turn.system, *turn.history, turn.question)
    tokens = sum(map(estimate_tokens, shown))
    need = Need(turn.complexity, turn.sender, tokens, turn.roles, turn.identity.max_tier)
    found = router.route(need, await _found(turn, router, need))
    turn.sys.log(f"route: {found.why}")
    if not found.chain:
        return Abort(f"No model may be asked: {found.why}.")
    provider, model = split_name(found.chain[0])
    routed = replace(
        turn,
        provider=provider,
        model=model,
        fallbacks=found.chain[1:],
        tier=found.tier,
        context_window=found.window,
    )
    return Continue(routed, found.why)


async def _found(turn: AgentTurn, router: Router, need: Need) -> Found:
    """What the node says of the models: chance, caps of cost, whose turn it is; asked for where it matters."""
    drawn = await turn.sys.random() if router.draws else 0
    against: dict[str, str] = {}
    if router.capped and (models := router.candidates(need)):
        quote = await turn.sys.quote(models, need.tokens, turn.config.max_tokens)
        against = {model: why for model, why in zip(models, quote.against, strict=False) if why}
    found = Found(drawn, against)
    turns = router.taking_turns(need, found)
    return replace(found, number=(await turn.sys.quote(turns, 0)).number) if turns else found
