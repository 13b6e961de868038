"""Where a turn of ten calls is killed, and what: the places in the order in which a turn comes to them, and the cases.

The model wants its calls in rounds, three of them at once in one. A *step* is one call, ``CASE.ROUND.INDEX``; each is
asked for by the question of its round, and one more question is answered with words.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from cognition.config.agent_config import PipelineConfig
from cognition.turn.order import builder_of

ROUNDS = (1, 1, 2, 1, 3, 1, 1)
"""How many calls each round has."""
CALLS, QUESTIONS = sum(ROUNDS), len(ROUNDS) + 1
TOOLS = ("act", "act_probed")
VICTIMS = ("cell", "gateway", "worker", "node")
"""In this order at each place: a node that was started anew has none of the back-off of its helpers, and no worker."""
DOUBLES, QUICK_DOUBLES = 24, 4
Kind = Literal["stage", "asked", "answering", "acting", "acted"]
TITLES: dict[Kind, str] = {
    "asked": "question, no answer yet",
    "answering": "question, mid-stream",
    "acting": "call, before its effect",
    "acted": "call, behind its effect",
}
AGAIN: dict[Kind, tuple[str, ...]] = {
    "stage": ("cell", "node"),
    "asked": ("gateway", "node"),
    "answering": ("gateway", "node"),
    "acting": ("worker", "node"),
    "acted": (),
}
"""Who is to be killed at a place so that the turn comes there once more."""


@dataclass(frozen=True, slots=True)
class Place:
    """``rank``: places of equal rank are come to in no certain order."""

    kind: Kind
    name: str
    rank: int

    @property
    def title(self) -> str:
        """Its row in the table."""
        return TITLES.get(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Case:
    """One turn, and who is killed where in it; ``name`` is its message and its session."""

    name: str
    kills: tuple[tuple[Place, str], ...]

    @property
    def label(self) -> str:
        """What to call it where something is said of it."""
        return f"{self.name} ({'; '.join(f'{victim}, {place.name}' for place, victim in self.kills) or 'nobody'})"


def question(number: int) -> tuple[str, str]:
    """The places in a question, numbered from 0: before its answer, in mid-stream."""
    return f"question {number} asked", f"question {number} answering"


def call(round_: str, index: str) -> tuple[str, str]:
    """The places in a call: before its effect, behind it."""
    return f"call {round_}.{index} acting", f"call {round_}.{index} acted"


def tool_of(round_: int, index: int) -> str:
    """The tools take turns."""
    return TOOLS[(sum(ROUNDS[:round_]) + index) % len(TOOLS)]


def steps_of(case: str) -> list[str]:
    """The steps of a whole walk."""
    return [f"{case}.{round_}.{index}" for round_, count in enumerate(ROUNDS) for index in range(count)]


def reply_of(case: str) -> str:
    """What the walk is answered with."""
    return f"the walk {case} is at its end"


def places() -> list[Place]:
    """All of them."""
    names = [stage.name for stage in builder_of(PipelineConfig()).stages]
    at = names.index("execute")
    found = [Place("stage", f"before {names[0]}", 0)]
    found += [Place("stage", f"behind {name}", rank) for rank, name in enumerate(names[:at], 1)]
    for number in range(QUESTIONS):
        rank = found[-1].rank + 1
        asked, answering = question(number)
        found += [Place("asked", asked, rank), Place("answering", answering, rank + 1)]
        for index in range(ROUNDS[number] if number < len(ROUNDS) else 0):
            acting, acted = call(str(number), str(index))
            found += [Place("acting", acting, rank + 2), Place("acted", acted, rank + 2)]
    rank = found[-1].rank
    return found + [Place("stage", f"behind {name}", rank + 1 + n) for n, name in enumerate(names[at:])]


def plan(seed: str, quick: bool) -> list[Case]:
    """Everybody killed at each place; in the quick form at some, of each kind. Then two kills in one turn."""
    chance = random.Random(seed)
    found = places()
    if quick:
        kinds = [[place for place in found if place.kind == kind] for kind in ("stage", *TITLES)]
        several = {id(place) for of in kinds for place in chance.sample(of, 2)}
        found = [place for place in found if id(place) in several]
    kills: list[tuple[tuple[Place, str], ...]] = [((place, who),) for place in found for who in VICTIMS]
    kills += [_double(chance) for _ in range(QUICK_DOUBLES if quick else DOUBLES)]
    return [Case("plain", ()), *(Case(f"w{number}", each) for number, each in enumerate(kills))]


def _double(chance: random.Random) -> tuple[tuple[Place, str], ...]:
    """Two kills, at the same place where the turn comes there again, or the second at a later one."""
    first, victim = chance.choice(places()), chance.choice(VICTIMS)
    if victim in AGAIN[first.kind] and chance.random() < 0.5:
        return (first, victim), (first, chance.choice(VICTIMS))
    later = [place for place in places() if place.rank > first.rank]
    return ((first, victim), (chance.choice(later), chance.choice(VICTIMS))) if later else _double(chance)
