"""The keys of ``[routing]``, and what agents are told of them. Models are named ``provider/model``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Le, MaxLen, MinLen

from cognition.config.agent_config import AgentConfig, Word, Words
from cognition.config.guard_config import GuardConfig

TierName = Literal["free", "standard", "premium", "elite"]
TIERS: tuple[TierName, ...] = get_args(TierName)
"""From the one for the simplest tasks to the one for the hardest."""
Selection = Literal["preference", "round_robin", "lowest_cost", "random"]
Name = Annotated[str, MinLen(1), MaxLen(256)]
Share = Annotated[float, Ge(0), Le(1)]
ByName = Annotated[dict[Word, TierName], MaxLen(1_000)]


@dataclass(frozen=True, slots=True)
class TierConfig:
    """``models``: in the order in which they are preferred. ``selection``: which of them is asked first: the first
    (``preference``), each in its turn (``round_robin``), the one that would cost least, or any (``random``).
    """

    name: TierName
    models: Annotated[tuple[Name, ...], MaxLen(256)] = ()
    selection: Selection = "preference"


@dataclass(frozen=True, slots=True)
class PermissionsConfig:
    """``max_tier``: the highest tier for whom nothing else is said. ``senders``: the same for the identities and
    addresses (or globs of them) that messages come from, which goes before ``roles``: operator, agent, peer, and those
    of ``[permissions]``. ``allow`` and ``deny``: globs of models; one that is denied or not allowed is never asked.
    ``escalation``: the senders and roles that may have one tier more for tasks of at least ``escalation_threshold``.
    """

    max_tier: TierName = "elite"
    senders: ByName = field(default_factory=dict)
    roles: ByName = field(default_factory=dict)
    allow: Words = ("*",)
    deny: Words = ()
    escalation: Words = ()
    escalation_threshold: Share = 0.6


@dataclass(frozen=True, slots=True)
class CapConfig:
    """What may be spent a day and a month (UTC), as text such as ``"2.50"``; None: no limit."""

    daily: Annotated[str, MaxLen(18)] | None = None
    monthly: Annotated[str, MaxLen(18)] | None = None


@dataclass(frozen=True, slots=True)
class TierCapsConfig:
    """By tier, what all who ask may spend together on its models."""

    free: CapConfig | None = None
    standard: CapConfig | None = None
    premium: CapConfig | None = None
    elite: CapConfig | None = None


@dataclass(frozen=True, slots=True)
class BudgetsConfig:
    """Caps of cost. ``senders``: by address, identity or a glob of them, what each sender that it fits may spend; the
    longest that fits counts.
    """

    tiers: TierCapsConfig = field(default_factory=TierCapsConfig)
    senders: Annotated[dict[Word, CapConfig], MaxLen(1_000)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """``mode``: ``static`` (the provider and model of the configuration), or ``tiered`` (by the task's complexity).
    ``budgets`` hold in either.
    """

    mode: Literal["static", "tiered"] = "static"
    tiers: Annotated[tuple[TierConfig, ...], MaxLen(4)] = ()
    permissions: PermissionsConfig = field(default_factory=PermissionsConfig)
    budgets: BudgetsConfig = field(default_factory=BudgetsConfig)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the node knows of a model. ``context_window``: tokens, 0 when nobody has said it. ``input`` and ``output``:
    the price of a million tokens in millionths, None when nobody has said it.
    """

    name: Name
    context_window: Annotated[int, Ge(0)] = 0
    input: Annotated[int, Ge(0)] | None = None
    output: Annotated[int, Ge(0)] | None = None


@dataclass(frozen=True, slots=True)
class ToldRouting:
    """``[routing]`` as agents are told it where it is tiered, with what is known of the models of the tiers.
    ``capped``: whether the node has caps of cost, and is to be asked for a quote.
    """

    tiers: tuple[TierConfig, ...]
    permissions: PermissionsConfig = field(default_factory=PermissionsConfig)
    models: tuple[ModelFacts, ...] = ()
    capped: bool = False


@dataclass(frozen=True, slots=True)
class ToldConfig(AgentConfig):
    """What a cell is told of an agent: ``[agent]``, and what the node adds. ``routing``: None where it is
    static. ``guard``: ``[guard]``.
    """

    routing: ToldRouting | None = None
    guard: GuardConfig = field(default_factory=GuardConfig)
