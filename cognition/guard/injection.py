"""Whether a text tries to give a model orders that are not its sender's to give: signals, weighed. Pure.

Linear in the text, of which the beginning and the end are looked at. What it finds is a suspicion with its reasons;
what a process may do never depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from cognition.guard.clauses import Clause, clauses
from cognition.guard.fold import fold
from cognition.guard.lexicon import AGENT, TALK
from cognition.guard.marks import marks_of
from cognition.guard.signals import SHORT, disguised_order, signals_of
from cognition.guard.views import View, views
from cognition.guard.weights import WEIGHTS

SEEN_CHARS = 32_768
"""How much of a text is looked at, half of it at its beginning and half at its end."""
WINDOW = 4
"""So many clauses are weighed together: a long page is no more suspicious than its most suspicious place."""
WINDOW_LINES = 3
"""So far off may a mark stand from them."""

PAIRS = (
    (frozenset({"decode", "do_it"}), "decode_and_do"),
    (frozenset({"hidden", "to_the_agent"}), "hidden_order"),
    (frozenset({"hidden", "approved"}), "hidden_order"),
    (frozenset({"hidden", "acts_on_user"}), "hidden_order"),
    (frozenset({"hidden", "agent_ought"}), "hidden_order"),
)
"""What two signals come to that are seen in one place."""


class Source(IntEnum):
    """Who speaks."""

    USER = 0
    TOOL_OUTPUT = 1
    WEB = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """``score``: of the most suspicious place. ``signals``: what was seen there. ``lines``: those that it takes up."""

    score: float = 0.0
    signals: tuple[str, ...] = ()
    lines: frozenset[int] = frozenset()


Seen = tuple[int, int, list[str]]
"""A clause by its number, its line and its signals."""
Mark = tuple[str, int]
"""A mark and its line."""
_NOTHING = Judgement()


def judge(text: str, source: Source, threshold: float = 1.0) -> Judgement:
    """The most suspicious place of ``text``, as it stands or as it may be meant; with the lines of every place whose
    score is ``threshold`` or more.
    """
    worst, lines = _NOTHING, set[int]()
    for part, first_line in _parts(text):
        for judged in _judged(part, source, threshold):
            if judged.score >= threshold:
                lines.update(first_line + line for line in judged.lines)
            if judged.score > worst.score:
                worst = judged
    return replace(worst, lines=frozenset(lines))


def signals_in(text: str, source: Source) -> frozenset[str]:
    """Every signal that is seen anywhere in ``text``; the weights are fitted to them."""
    names: set[str] = set()
    for judged in _judged(text, source, float("inf")):
        names.update(name.partition(" ")[0] for name in judged.signals)
    return frozenset(names)


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """What of a text is looked at, each part with the number of its first line."""
    half = SEEN_CHARS // 2
    if len(text) <= SEEN_CHARS:
        yield text, 0
    else:
        yield text[:half], 0
        yield text[-half:], text.count("\n", 0, len(text) - half)


def _judged(text: str, source: Source, threshold: float) -> Iterator[Judgement]:
    known: frozenset[str] = frozenset()
    plain: View | None = None
    less = WEIGHTS["about_attacks"][source] if _is_article(text) else 0.0
    for view in views(text):
        if plain is not None and not known and not view.whole:
            known = plain.known
        plain = plain or view
        for judged in _places(view, source, known, threshold):
            yield replace(judged, score=judged.score + less) if less and not view.disguised else judged


def _places(view: View, source: Source, known: frozenset[str], threshold: float) -> Iterator[Judgement]:
    marks = [(name, view.line + view.text.count("\n", 0, at)) for name, at in marks_of(view.text)]
    seen: list[Seen] = []
    if view.how == "tags":
        yield Judgement(WEIGHTS["invisible_text"][source], ("invisible_text",), frozenset({view.line}))
    before = 0
    for number, clause in enumerate(clauses(view.text, view.line)):
        names = list(signals_of(clause, before)) if clause.all else []
        if view.disguised and clause.all and _fresh(clause, known, view) and disguised_order(clause, before):
            names.append("disguised")
        before = _bits_for_next(clause)
        if names:
            seen = [each for each in seen if each[0] > number - WINDOW]
            seen.append((number, clause.line, names))
            judged = _weighed(seen, marks, source, view)
            if judged.score >= threshold:
                judged = replace(judged, lines=_least(seen, marks, source, view, threshold).lines)
            yield judged
    for mark in marks:
        yield _weighed([], [each for each in marks if abs(each[1] - mark[1]) <= WINDOW_LINES], source, view)


def _is_article(text: str) -> bool:
    """Whether a longer text names attacks in its title."""
    title, _, rest = text[:1_000].partition("\n")
    return len(rest) > 400 and any(clause.all & TALK for clause in clauses(fold(title)))


def _bits_for_next(clause: Clause) -> int:
    named = clause.all & AGENT and clause.end == ":" and len(clause.words) <= 4
    return clause.all | SHORT if named else clause.all


def _fresh(clause: Clause, known: frozenset[str], view: View) -> bool:
    """Whether it says something that the text, as it stands, does not."""
    new = sum(bool(bits) and word not in known for word, bits in zip(clause.words, clause.bits, strict=True))
    return view.whole or new >= (1 if view.how == "parts" else 2)


def _least(seen: list[Seen], marks: list[Mark], source: Source, view: View, threshold: float) -> Judgement:
    """Of a suspicious place as little as is suspicious still: what stands around it is not to be blamed."""
    least = seen
    for each in seen:
        without = [other for other in least if other is not each]
        if without and _weighed(without, marks, source, view).score >= threshold:
            least = without
    return _weighed(least, marks, source, view)


def _weighed(seen: list[Seen], marks: list[Mark], source: Source, view: View) -> Judgement:
    lines = {line for _, line, _ in seen}
    names = dict.fromkeys(name for _, _, each in seen for name in each)
    low, high = (min(lines), max(lines)) if lines else (0, 1 << 30)
    for name, line in marks:
        if low - WINDOW_LINES <= line <= high + WINDOW_LINES:
            names[name] = None
            lines.add(line)
    names.update(dict.fromkeys(name for pair, name in PAIRS if pair <= names.keys()))
    score = sum(WEIGHTS[name][source] for name in names)
    told = tuple(f"{name} ({view.how})" if name == "disguised" else name for name in names)
    return Judgement(round(score, 2), told, frozenset(lines))
