"""Which model a turn asks, and which others where that one fails. Pure.

Theory of operation. The complexity of the task wants a tier; the sender's permission caps it, one tier later where it
escalates. The models of that tier come first, in the order of its selection, then those of the tiers below it, from
above, and then, where a tier was left without a model, those above it up to what is permitted. Models that globs rule
out or whose context window is too small are left out everywhere. So no model of the chain is beyond the permission, and
the cheapest that the task has a claim on comes first.

    free [0, 0.15)    standard [0.15, 0.40)    premium [0.40, 0.70)    elite [0.70, 1]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from cognition.config.routing_config import TIERS, ModelFacts, Selection, TierConfig, ToldRouting
from cognition.routing.permission import Permission, may_ask, permission_of

BEGINS = (0.0, 0.15, 0.40, 0.70)
"""The complexity with which each tier begins."""
ANSWER_TOKENS = 4_096
"""What is left of a context window for the answer, and what costs are compared with."""


@dataclass(frozen=True, slots=True)
class Need:
    """``complexity`` of the task, from 0 to 1; who sent it; about how many ``tokens`` a model would read."""

    complexity: float
    sender: str
    tokens: int


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
        self._allowed = {
            name for tier in self._tiers for name in tier.models if may_ask(told.permissions, name)
        }

    @property
    def draws(self) -> bool:
        """Whether a route depends on chance."""
        return any(tier.selection == "random" and len(tier.models) > 1 for tier in self._tiers)

    def route(self, need: Need, drawn: int = 0) -> Route:
        """``drawn``: random bits, where :attr:`draws`."""
        permission = permission_of(self._permissions, need.sender)
        wanted = wanted_rank(need.complexity)
        most = self._most(permission, need.complexity, wanted)
        began = min(wanted, most)
        ranks = (*range(began, -1, -1), *range(began + 1, most + 1))
        chain = list(
            dict.fromkeys(name for rank in ranks for name in self._of_tier(rank, need.tokens, drawn))
        )
        said = f"complexity {need.complexity:.2f} wants {TIERS[wanted]}, {permission.whose} may have {_said(most)}"
        if not chain:
            return Route(
                (), "", 0, f"{said}, and no model of these tiers may be asked{self._short(most, need.tokens)}"
            )
        rank = next(rank for rank in ranks if chain[0] in self._tiers[rank].models)
        tier = self._tiers[rank]
        window = self._facts[chain[0]].context_window if chain[0] in self._facts else 0
        why = f"{said}: {chain[0]} of {TIERS[rank]} by {tier.selection}, then {', '.join(chain[1:]) or 'nobody'}"
        return Route(tuple(chain), TIERS[rank], window, why)

    def _most(self, permission: Permission, complexity: float, wanted: int) -> int:
        """The highest rank for this task."""
        escalated = (
            permission.escalates
            and 0 <= permission.most < wanted
            and complexity >= self._permissions.escalation_threshold
        )
        return permission.most + 1 if escalated else permission.most

    def _of_tier(self, rank: int, tokens: int, drawn: int) -> list[str]:
        """The models of a tier that may be asked, in the order in which they are."""
        tier = self._tiers[rank]
        names = [name for name in tier.models if name in self._allowed and self._fits(name, tokens)]
        if tier.selection == "lowest_cost":
            names.sort(key=lambda name: self._cost(name, tokens))
        elif tier.selection == "random":
            Random(drawn * len(TIERS) + rank).shuffle(names)
        return names

    def _fits(self, name: str, tokens: int) -> bool:
        facts = self._facts.get(name)
        return facts is None or facts.context_window == 0 or tokens + ANSWER_TOKENS <= facts.context_window

    def _cost(self, name: str, tokens: int) -> tuple[bool, int]:
        """What a question would cost; one that nobody knows costs more than all others."""
        facts = self._facts.get(name)
        if facts is None or facts.input is None or facts.output is None:
            return True, 0
        return False, tokens * facts.input + ANSWER_TOKENS * facts.output

    def _short(self, most: int, tokens: int) -> str:
        """Whether that is so for want of room alone."""
        there = [name for tier in self._tiers[: most + 1] for name in tier.models if name in self._allowed]
        return f": none has room for about {tokens} tokens and an answer" if there else ""


def _tier(config: TierConfig | None) -> _Tier:
    return _Tier((), "preference") if config is None else _Tier(config.models, config.selection)


def _said(rank: int) -> str:
    return TIERS[rank] if rank >= 0 else "nothing"
