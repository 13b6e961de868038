"""How much a task asks for, from 0 to 1: by its type, its length, how it is built, and how many acts it wants. Pure.

A sum of parts, each of which can be named. The parts were fitted once to what people said of messages (low, mid, high);
:mod:`cognition.classification.weights` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cognition.classification.features import COUNTED

PARTS = (
    "length",
    "few_words",
    "many_steps",
    "expert",
    "acts",
    "wishes",
    "paragraphs",
    "numbers",
    "code_lines",
    "code_thing",
    "analysis_act",
)
_ACTS = ("begins:act", "then begins:act")
_WISHES = ("make", "change", "want", "review", "explain", "analysis", "math")


def parts_of(features: Mapping[str, float]) -> dict[str, float]:
    """What of a message's features says how much it asks for. ``acts``: verbs that want a tool, ``wishes``: others
    with which a part of a sentence begins.
    """
    acts = sum(features.get(name, 0.0) for name in _ACTS)
    wishes = sum(features.get(f"then begins:{name}", 0.0) for name in _WISHES)
    counted = {"acts": min(acts, 2 * COUNTED[1]), "wishes": min(wishes, 3 * COUNTED[1])}
    return {name: counted.get(name, features.get(name, 0.0)) for name in PARTS}


def complexity_of(
    task_type: str, features: Mapping[str, float], bases: Mapping[str, int], weights: Sequence[int]
) -> tuple[float, dict[str, float]]:
    """The complexity, to two digits, and the parts of which it is the sum, greatest first. ``bases``, by the type,
    and ``weights``, by the part, are in thousandths.
    """
    parts = dict(_weighed(task_type, features, bases, weights))
    total = min(max(sum(parts.values()), 0.0), 1.0)
    ordered = sorted(parts.items(), key=lambda part: (-abs(part[1]), part[0]))
    return round(total, 2), dict(ordered)


def _weighed(
    task_type: str, features: Mapping[str, float], bases: Mapping[str, int], weights: Sequence[int]
) -> Iterator[tuple[str, float]]:
    yield task_type, bases[task_type] / 1000
    for (name, value), weight in zip(parts_of(features).items(), weights, strict=True):
        if value and weight:
            yield name, value * weight / 1000
