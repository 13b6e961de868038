"""What kind of work a message asks for, and how much of it: a weighted sum over what is seen, which can say why.

Pure, and the same for the same text wherever it runs: where two types come to the same the first of
:data:`cognition.classification.task_types.TASK_TYPES` stands. Nothing here was made by others: the cues were written
down, and the weights fitted to half of a corpus and some messages of our own (``tools/task_weights.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cognition.classification.complexity import complexity_of
from cognition.classification.features import Seen, seen_in
from cognition.classification.task_types import TASK_TYPES
from cognition.classification.weights import BASES, BIAS, PARTS, WEIGHTS

MOST_REASONS = 4


@dataclass(frozen=True, slots=True)
class Task:
    """``type``: one of :data:`cognition.classification.task_types.TASK_TYPES`. ``complexity``: from 0 to 1. ``why``:
    what spoke most for the type before the one that came second, strongest first, with the word that was found.
    ``parts``: what the complexity is the sum of.
    """

    type: str
    complexity: float
    why: tuple[str, ...]
    parts: Mapping[str, float]

    @property
    def words(self) -> str:
        """The whole in one line."""
        parts = " ".join(f"{name} {value:+.2f}" for name, value in list(self.parts.items())[:MOST_REASONS])
        return f"{self.type} ({', '.join(self.why) or 'nothing said'}), complexity {self.complexity:.2f} ({parts})"


def classify(text: str) -> Task:
    """The task that a message sets."""
    seen = seen_in(text)
    first, second = _best(seen)
    complexity, parts = complexity_of(TASK_TYPES[first], seen.features, BASES, PARTS)
    return Task(TASK_TYPES[first], complexity, tuple(_reasons(seen, first, second)), parts)


def _best(seen: Seen) -> tuple[int, int]:
    """The places of the best type and of the one behind it."""
    sums = [float(each) for each in BIAS]
    for name, value in seen.features.items():
        for place, weight in enumerate(WEIGHTS.get(name, ())):
            sums[place] += value * weight
    ranked = sorted(range(len(sums)), key=lambda place: (-round(sums[place], 3), place))
    return ranked[0], ranked[1]


def _reasons(seen: Seen, first: int, second: int) -> list[str]:
    """What spoke most for the first type before the second."""
    told = {
        name: value * (WEIGHTS[name][first] - WEIGHTS[name][second])
        for name, value in seen.features.items()
        if name in WEIGHTS
    }
    most = sorted((name for name, points in told.items() if points > 0), key=lambda name: (-told[name], name))
    return [f"{name}: {seen.words[name]}" if name in seen.words else name for name in most[:MOST_REASONS]]
