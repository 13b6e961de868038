"""Whether a text tries to give a model orders that are not its sender's to give. Pure.

Linear in the text, of which the beginning and the end are looked at. What it finds is a suspicion with its reasons;
what a process may do never depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from cognition.guard.model import Weighed, weighed
from cognition.guard.reading import Reading, readings

SEEN_CHARS = 65_536
"""How much of a text is looked at, half of it at its beginning and half at its end."""
TOLD_WORDS = 4
"""So many of the words that weighed most are told."""
_MOST_ODDS = 20.0


class Source(IntEnum):
    """Who speaks."""

    USER = 0
    TOOL_OUTPUT = 1
    WEB = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """``score``: of the most suspicious place, as odds; at 1 they are those at which a text is suspicious. ``signals``:
    how that place was disguised, and the words that weighed most, in quotation marks. ``lines``:
    those of all suspicious places.
    """

    score: float = 0.0
    signals: tuple[str, ...] = ()
    lines: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Place:
    odds: float
    reading: Reading
    weights: Weighed
    begin: int
    end: int


def judge(text: str, source: Source, threshold: float = 1.0) -> Judgement:
    """The most suspicious place of ``text``, as it stands or as it may be meant; with the lines of every place whose
    score is ``threshold`` or more.
    """
    level = math.log(threshold)
    worst: _Place | None = None
    lines: set[int] = set()
    for part, first_line in _parts(text):
        for reading in readings(part):
            weights = weighed(reading.seen, 0 if source is Source.USER else 1)
            odds = weights.all_odds(reading.windows(), reading.names)
            for above, begin, end in odds:
                if above >= level:
                    lines.update(
                        first_line + line
                        for line in _blamed(_Place(above, reading, weights, begin, end), level)
                    )
            most, begin, end = max(odds)
            if worst is None or most > worst.odds:
                worst = _Place(most, reading, weights, begin, end)
    if worst is None:
        return Judgement()
    return Judgement(round(math.exp(min(worst.odds, _MOST_ODDS)), 3), _signals(worst), frozenset(lines))


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """What of a text is looked at, each part with the number of its first line."""
    half = SEEN_CHARS // 2
    if len(text) <= SEEN_CHARS:
        yield text, 0
    else:
        yield text[:half], 0
        yield text[-half:], text.count("\n", 0, len(text) - half)


def _blamed(place: _Place, level: float) -> set[int]:
    """Of a suspicious place as few lines as are suspicious still: what stands around them is not to be blamed."""
    lines, names = place.reading.seen.lines, place.reading.names
    begin, end = place.begin, place.end
    while lines[begin] != lines[end - 1]:
        later = next(at for at in range(begin, end) if lines[at] != lines[begin])
        if place.weights.odds(later, end, names) < level:
            break
        begin = later
    while lines[begin] != lines[end - 1]:
        earlier = next(at for at in range(end, begin, -1) if lines[at - 1] != lines[end - 1])
        if place.weights.odds(begin, earlier, names) < level:
            break
        end = earlier
    return set(lines[begin:end])


def _signals(place: _Place) -> tuple[str, ...]:
    at, tokens = place.weights.at, place.reading.seen.tokens
    most = sorted(range(place.begin, place.end), key=at.__getitem__, reverse=True)
    words = [f'"{tokens[each]}"' for each in most if at[each] > 0] or [f'"{tokens[most[0]]}"']
    return (*place.reading.names, *list(dict.fromkeys(words))[:TOLD_WORDS])
