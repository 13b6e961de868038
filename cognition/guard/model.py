"""What a text weighs: a linear model over the features of :mod:`cognition.guard.features`, in whole numbers. Pure.

The weights lie beside this file, made by ``make guard-model`` (:mod:`tools.guard.model`): for each side a table of one
byte a bucket. A text is weighed in windows, each for itself, so that a long page is no more suspicious than its most
suspicious place.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, repeat
from pathlib import Path

from cognition.guard.features import (
    BUCKETS,
    Seen,
    kind_features,
    name_feature,
    near,
    pair_features,
    word_features,
)

FILE = Path(__file__).with_name("model.bin")
LEAST = 4
"""Fewer tokens than this weigh no more than so many."""


@dataclass(frozen=True, slots=True)
class Model:
    """``tables``: the weights of a user's text and of all other, in units of ``unit``. ``level``: the log odds at which
    each is suspicious, less what is the same in every text. ``made_of``: the digest of what it was fitted to.
    """

    tables: tuple[Sequence[int], Sequence[int]]
    unit: float
    level: tuple[float, float]
    made_of: str


@cache
def model() -> Model:
    """The model as it was made; read once."""
    head, _, packed = FILE.read_bytes().partition(b"\n")
    said = json.loads(head)
    weights = memoryview(zlib.decompress(packed)).cast("b")
    return Model((weights[:BUCKETS], weights[BUCKETS:]), said["unit"], tuple(said["level"]), said["made_of"])


@dataclass(frozen=True, slots=True)
class Weighed:
    """The weights of a text's tokens, one behind the other, so that any run of them is weighed at once. ``side``: 0 for
    what a user says, 1 for all else.
    """

    at: list[float]
    until: list[float]
    side: int

    def odds(self, begin: int, end: int, names: Sequence[str] = ()) -> float:
        """Log odds above the level at which a text is suspicious, of the tokens from ``begin`` to ``end`` in a text of
        which ``names`` holds.
        """
        said = model()
        words = (self.until[end] - self.until[begin]) / math.sqrt(max(LEAST, end - begin))
        return said.unit * words + self.beside(names)

    def beside(self, names: Sequence[str]) -> float:
        """Of these log odds, what does not come of the tokens."""
        said = model()
        return said.unit * sum(_of_name(name, self.side) for name in names) - said.level[self.side]

    def all_odds(
        self, windows: Iterable[tuple[int, int]], names: Sequence[str]
    ) -> list[tuple[float, int, int]]:
        """The log odds of many windows, with where each begins and ends."""
        unit, until, beside = model().unit, self.until, self.beside(names)
        return [
            (unit * (until[end] - until[begin]) / math.sqrt(max(LEAST, end - begin)) + beside, begin, end)
            for begin, end in windows
        ]


def weighed(seen: Seen, side: int) -> Weighed:
    table = model().tables[side]
    of_words = map(_of_word, seen.tokens, repeat(side))
    at = [word + table[pair] for word, pair in zip(of_words, pair_features(seen.numbers), strict=True)]
    for place, other, kinds in near(seen.kinds):
        at[place] += _of_kinds(other, kinds, side)
    return Weighed(at, [0.0, *accumulate(at)], side)


@lru_cache(maxsize=16_384)
def _of_word(token: str, side: int) -> float:
    table = model().tables[side]
    return sum(table[bucket] * value for bucket, value in word_features(token))


@lru_cache(maxsize=16_384)
def _of_kinds(other: int, kinds: int, side: int) -> int:
    table = model().tables[side]
    return sum(table[bucket] for bucket in kind_features(other, kinds))


@cache
def _of_name(name: str, side: int) -> int:
    return model().tables[side][name_feature(name)]
