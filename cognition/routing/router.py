"""Which model a turn asks, and which others where that one fails. Pure.

Theory of operation. The complexity of the task wants a tier; the sender's permission caps it, one tier later where it
escalates. The models of that tier come first, in the order of its selection, then those of the tiers below it, from
above, and then, where a tier was left without a model, those above it up to what is permitted. Models that globs rule
out, whose context window is too small, or for which caps of cost leave no room are left out everywhere. So no model of
the chain is beyond the permission, and the cheapest that the task has a claim on comes first.

    free [0, 0.15)    standard [0.15, 0.40)    premium [0.40, 0.70)    elite [0.70, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from cognition.config.routing_config import TIERS, ModelFacts, Selection, TierConfig, ToldRouting
from cognition.routing.permission import Permission, may_ask, permission_of

BEGINS = (0.0, 0.15, 0.40, 0.70)
"""The complexity with which each tier begins."""
ANSWER_TOKENS = 4_096
"""What is left of a context window for the answer, and what costs are compared with."""


@dataclass(frozen=True, slots=True)
class Need:
    """``complexity`` of the task, from 0 to 1; who sent it; about how many ``tokens`` a model would read. ``roles`` and
    ``max_tier``: as of :func:`cognition.routing.permission.permission_of`.
    """

    complexity: float
    sender: str
    tokens: int
    roles: Sequence[str] | None = None
    max_tier: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What the node says before a model is chosen. ``drawn``: random bits; ``against``: of the models for which caps of
    cost leave no room why not; ``number``: how many routes have begun with the tier of this one before, where its
    models take turns.
    """

    drawn: int = 0
    against: Mapping[str, str] = field(default_factory=dict)
    number: int = 0


NOTHING_FOUND = Found()


@dataclass(frozen=True, slots=True)
class Route:
    """``chain``: the models to ask, ``provider/model``, the first at once, each further one where those before failed;
    empty where none may be asked. ``tier``: of the first. ``window``: its context window, 0 when nobody has said it.
    ``why``: how that came about, in a line.
    """

    chain: tuple[str, ...]
    tier: str
    window: int
    why: str


@dataclass(frozen=True, slots=True)
class _Tier:
    models: tuple[str, ...]
    selection: Selection


def wanted_rank(complexity: float) -> int:
    """The place of the tier that a task of that complexity wants."""
    return max(rank for rank, begin in enumerate(BEGINS) if complexity >= begin)


def split_name(name: str) -> tuple[str, str]:
    """Provider and model of a name."""
    provider, _, model = name.partition("/")
    return provider, model


class Router:
    """The tiers of a configuration. Keeps nothing between turns."""

    def __init__(self, told: ToldRouting) -> None:
        self._permissions = told.permissions
        self._facts: Mapping[str, ModelFacts] = {each.name: each for each in told.models}
        tiers = {each.name: each for each in told.tiers}
        self._tiers = tuple(_tier(tiers.get(name)) for name in TIERS)
        self.capped = told.capped
        self._allowed = {
            name for tier in self._tiers for name in tier.models if may_ask(told.permissions, name)
        }

    @property
    def draws(self) -> bool:
        """Whether a route depends on chance."""
        return any(tier.selection == "random" and len(tier.models) > 1 for tier in self._tiers)

    @property
    def least_window(self) -> int:
        """The smallest context window of the models that may be asked, of those that are known; 0: of none."""
        windows = (self._facts[name].context_window for name in self._allowed if name in self._facts)
        return min(filter(None, windows), default=0)

    def candidates(self, need: Need) -> tuple[str, ...]:
        """The models that may be asked, as far as permission and room go, in the order of tiers: of these caps of cost
        have something to say.
        """
        ranks = self._ranks(self._permission(need), need)
        return tuple(
            dict.fromkeys(name for rank in ranks for name in self._of_tier(rank, need, NOTHING_FOUND))
        )

    def taking_turns(self, need: Need, found: Found) -> tuple[str, ...]:
        """The models of the tier that the route begins with, where these take turns; else nothing."""
        for rank in self._ranks(self._permission(need), need):
            if names := self._of_tier(rank, need, found):
                turns = self._tiers[rank].selection == "round_robin" and len(names) > 1
                return tuple(names) if turns else ()
        return ()

    def route(self, need: Need, found: Found = NOTHING_FOUND) -> Route:
        """``found``: what the node was asked for."""
        permission = self._permission(need)
        wanted, most = wanted_rank(need.complexity), self._most(permission, need)
        ranks = self._ranks(permission, need)
        by_rank = {rank: self._of_tier(rank, need, found) for rank in ranks}
        chain = tuple(dict.fromkeys(name for names in by_rank.values() for name in names))
        said = f"complexity {need.complexity:.2f} wants {TIERS[wanted]}, {permission.whose} may have {_said(most)}"
        short = _shorts(found.against)
        if not chain:
            return Route(
                (),
                "",
                0,
                f"{said}, and no model of these tiers may be asked{short or self._short(most, need.tokens)}",
            )
        rank = next(rank for rank, names in by_rank.items() if names)
        window = self._facts[chain[0]].context_window if chain[0] in self._facts else 0
        by = self._tiers[rank].selection
        why = f"{said}: {chain[0]} of {TIERS[rank]} by {by}, then {', '.join(chain[1:]) or 'nobody'}{short}"
        return Route(chain, TIERS[rank], window, why)

    def _permission(self, need: Need) -> Permission:
        return permission_of(self._permissions, need.sender, need.roles, need.max_tier)

    def _ranks(self, permission: Permission, need: Need) -> tuple[int, ...]:
        """The tiers in the order in which their models are asked."""
        most = self._most(permission, need)
        began = min(wanted_rank(need.complexity), most)
        return (*range(began, -1, -1), *range(began + 1, most + 1))

    def _most(self, permission: Permission, need: Need) -> int:
        """The highest rank for this task."""
        escalated = (
            permission.escalates
            and 0 <= permission.most < wanted_rank(need.complexity)
            and need.complexity >= self._permissions.escalation_threshold
        )
        return permission.most + 1 if escalated else permission.most

    def _of_tier(self, rank: int, need: Need, found: Found) -> list[str]:
        """The models of a tier that may be asked, in the order in which they are."""
        tier = self._tiers[rank]
        names = [
            name
            for name in tier.models
            if name in self._allowed and self._fits(name, need.tokens) and not found.against.get(name)
        ]
        return _ORDERS[tier.selection](self, names, rank, need, found) if names else []

    def _fits(self, name: str, tokens: int) -> bool:
        facts = self._facts.get(name)
        return facts is None or facts.context_window == 0 or tokens + ANSWER_TOKENS <= facts.context_window

    def cost(self, name: str, tokens: int) -> tuple[bool, int]:
        """What a question would cost; one that nobody knows costs more than all others."""
        facts = self._facts.get(name)
        if facts is None or facts.input is None or facts.output is None:
            return True, 0
        return False, tokens * facts.input + ANSWER_TOKENS * facts.output

    def _short(self, most: int, tokens: int) -> str:
        """Whether that is so for want of room alone."""
        there = [name for tier in self._tiers[: most + 1] for name in tier.models if name in self._allowed]
        return f": none has room for about {tokens} tokens and an answer" if there else ""


def _as_listed(router: Router, names: list[str], rank: int, need: Need, found: Found) -> list[str]:
    return names


def _in_turn(router: Router, names: list[str], rank: int, need: Need, found: Found) -> list[str]:
    first = found.number % len(names)
    return [*names[first:], *names[:first]]


def _cheapest_first(router: Router, names: list[str], rank: int, need: Need, found: Found) -> list[str]:
    return sorted(names, key=lambda name: router.cost(name, need.tokens))


def _drawn(router: Router, names: list[str], rank: int, need: Need, found: Found) -> list[str]:
    return Random(found.drawn * len(TIERS) + rank).sample(names, len(names))


_ORDERS: Mapping[Selection, Callable[[Router, list[str], int, Need, Found], list[str]]] = {
    "preference": _as_listed,
    "round_robin": _in_turn,
    "lowest_cost": _cheapest_first,
    "random": _drawn,
}


def _shorts(against: Mapping[str, str]) -> str:
    """Why caps of cost rule models out, each reason once."""
    said = dict.fromkeys(why for why in against.values() if why)
    return f"; {'; '.join(said)}" if said else ""


def _tier(config: TierConfig | None) -> _Tier:
    return _Tier((), "preference") if config is None else _Tier(config.models, config.selection)


def _said(rank: int) -> str:
    return TIERS[rank] if rank >= 0 else "nothing"
