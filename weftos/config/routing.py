"""``[routing]`` and ``[[models]]`` as the node reads them: what agents are told, what the gate goes by, what is wrong.

Here models have their full names: one that names a provider alone means the model of that provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from cognition.config.check import parse
from cognition.config.routing_config import (
    TIERS,
    CapConfig,
    ModelFacts,
    RoutingConfig,
    TierConfig,
    ToldRouting,
)
from kernel.budget.price import Price
from kernel.budget.spending import Cap, CostCaps
from kernel.operations.rights.money import millionths
from kernel.policy.access import GUEST
from kernel.policy.routes import RouteRights
from weftos.config.settings import KnownModelSettings, Settings


def routing_of(settings: Settings) -> RoutingConfig:
    """What is configured of routing."""
    return parse(RoutingConfig, settings.routing, "routing")


def full_name(settings: Settings, name: str) -> str:
    """``provider/model`` of a name that may be of a provider alone, which means its own model."""
    provider, _, model = name.partition("/")
    known = settings.providers.get(provider)
    return f"{provider}/{model or (known.model if known is not None else '')}"


def price_of(settings: Settings, provider: str, model: str) -> Price | None:
    """What a resolved model costs; None: nobody has said it."""
    known = settings.providers.get(provider)
    if known is None or model in known.prices:
        return None if known is None else known.price(model)
    listed = _listed(settings, f"{provider}/{model}")
    said = None if listed is None else listed.price()
    return known.price(model) if said is None else said


def _listed(settings: Settings, name: str) -> KnownModelSettings | None:
    return next((each for each in settings.models if full_name(settings, each.name) == name), None)


def tiers_of(settings: Settings) -> tuple[TierConfig, ...]:
    """The tiers, lowest first, with the models that are said to be in them at either place."""
    listed = {each.name: each for each in routing_of(settings).tiers}
    made = []
    for name in TIERS:
        tier = listed.get(name, TierConfig(name))
        models = [*tier.models, *(each.name for each in settings.models if each.tier == name)]
        made.append(replace(tier, models=tuple(dict.fromkeys(full_name(settings, each) for each in models))))
    return tuple(made)


def told_routing(settings: Settings) -> dict[str, Any] | None:
    """What agents are told; None where routing is static."""
    config = routing_of(settings)
    if config.mode == "static":
        return None
    tiers = tuple(each for each in tiers_of(settings) if each.models)
    names = dict.fromkeys(name for tier in tiers for name in tier.models)
    facts = tuple(_facts(settings, name) for name in names)
    told = ToldRouting(tiers, config.permissions, facts, bool(cost_caps(settings)))
    made: dict[str, Any] = json.loads(json.dumps(asdict(told)))  # as a cell gets it: lists, not tuples
    return made


def _facts(settings: Settings, name: str) -> ModelFacts:
    provider, _, model = name.partition("/")
    price = price_of(settings, provider, model)
    listed = _listed(settings, name)
    window = 0 if listed is None else listed.context_window
    return ModelFacts(name, window) if price is None else ModelFacts(name, window, price.input, price.output)


def route_rights(settings: Settings) -> RouteRights:
    """What the node holds each question to, in either mode."""
    permissions = routing_of(settings).permissions
    ranks: dict[str, int] = {}
    for rank, tier in enumerate(tiers_of(settings)):
        for name in tier.models:
            ranks.setdefault(name, rank)
    return RouteRights(
        TIERS,
        ranks,
        permissions.max_tier,
        permissions.senders,
        permissions.roles,
        permissions.allow,
        permissions.deny,
        permissions.escalation,
    )


def cost_caps(settings: Settings) -> CostCaps:
    """What questions may cost, in either mode."""
    budgets = routing_of(settings).budgets
    tiers = {name: getattr(budgets.tiers, name) for name in TIERS}
    tier_of: dict[str, str] = {}
    for tier in tiers_of(settings):
        for name in tier.models:
            tier_of.setdefault(name, tier.name)
    return CostCaps(
        {name: _cap(cap) for name, cap in tiers.items() if cap is not None},
        {name: _cap(cap) for name, cap in budgets.senders.items()},
        tier_of,
    )


def _cap(said: CapConfig) -> Cap:
    daily, monthly = (None if each is None else millionths(each) for each in (said.daily, said.monthly))
    return Cap(daily, monthly)


def _cap_faults(config: RoutingConfig) -> Iterator[tuple[str, str]]:
    tiers = {f"tiers.{name}": getattr(config.budgets.tiers, name) for name in TIERS}
    senders = {f"senders.{name}": cap for name, cap in config.budgets.senders.items()}
    for where, cap in {**tiers, **senders}.items():
        for name in ("daily", "monthly") if cap is not None else ():
            try:
                said = getattr(cap, name)
                if said is not None:
                    millionths(said)
            except ValueError as error:
                yield "routing", f"routing.budgets.{where}.{name}: {error}"


def _empty_caps(settings: Settings, config: RoutingConfig) -> Iterator[tuple[str, str]]:
    """Caps of tiers that would hold nobody to anything."""
    full = {tier.name for tier in tiers_of(settings) if tier.models}
    for name in TIERS:
        if getattr(config.budgets.tiers, name) is not None and name not in full:
            yield (
                "routing",
                f"routing.budgets.tiers.{name}: no model is of that tier: list some in [[routing.tiers]]",
            )


def routing_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """What does not fit together, with the table where it stands."""
    config = routing_of(settings)
    yield from _cap_faults(config)
    yield from _empty_caps(settings, config)
    roles = {"operator", "agent", "peer", GUEST, *settings.permissions.roles}
    for role in config.permissions.roles:
        if role not in roles:
            known = ", ".join(sorted(roles))
            yield "routing", f"routing.permissions.roles: there is no role {role[:64]}; there are {known}"
    names = [each.name for each in config.tiers]
    for tier_name in TIERS:
        if names.count(tier_name) > 1:
            yield "routing", f"routing.tiers: {tier_name} is there twice"
    used = [
        ("routing", f"routing.tiers ({tier.name})", name) for tier in config.tiers for name in tier.models
    ]
    used += [("models", "models", each.name) for each in settings.models]
    for table, where, name in used:
        provider = name.partition("/")[0]
        if provider not in settings.providers:
            known = ", ".join(sorted(settings.providers))
            yield table, f"{where}: {name} is no PROVIDER/MODEL of a provider that is configured: {known}"
    if config.mode == "tiered" and not any(tier.models for tier in tiers_of(settings)):
        yield "routing", "routing.mode is tiered, and no tier has a model: list them in [[routing.tiers]]"
