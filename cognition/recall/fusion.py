"""Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): several ranked lists become one.

Only ranks count, so lists with scores of different kinds need no common scale. A document's score is the sum of
``weight / (k + rank)`` over the lists that hold it, rank from 1. A list's weight says how much of the query it
could see at all; 1 unless given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RANK_CONSTANT = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A document's place in one list: ``rank`` from 1, and the score it had there."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A document with its fused score, and where that came from, by list."""

    document: int
    score: float
    parts: Mapping[str, Part]


def reciprocal_rank(
    lists: Mapping[str, Sequence[tuple[int, float]]],
    weights: Mapping[str, float] | None = None,
    k: int = RANK_CONSTANT,
) -> list[Fused]:
    """``lists`` (name to documents with scores, best first) as one, best first; equal scores by document number.

    The order of ``lists`` does not matter.
    """
    weight = weights or {}
    parts: dict[int, dict[str, Part]] = {}
    for name in sorted(lists):
        for rank, (document, score) in enumerate(lists[name], 1):
            parts.setdefault(document, {}).setdefault(name, Part(rank, score))
    fused = [
        Fused(document, sum(weight.get(name, 1.0) / (k + part.rank) for name, part in held.items()), held)
        for document, held in parts.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, one.document))
