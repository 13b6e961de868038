"""How a turn went, from 0 to 1 in five respects and overall, each with what it was made of. Pure.

These are measures of what can be counted, and no judgement of what was said: a wrong answer in the words of the
question is *relevant* here. They compare turns of one agent with each other, before and after a change.

relevance    the share of the message's own words (of four letters and more) that the answer, or what its tools gave,
has coherence    1, less for lines that repeat and for a fence or bracket that is never closed
completion   1 for an answer, 1/2 for one that was cut or came after the last round of tools, 0 for an error
efficiency   1 over one and every call that was refused, failed or repeated and every question nobody answered
tool use     the share of calls that went well; 1 where none was made
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cognition.context import Record, cut_text

WEIGHTS = {"relevance": 0.2, "coherence": 0.15, "completion": 0.35, "efficiency": 0.15, "tool_use": 0.15}
READ_BYTES = 32 * 2**10
_WORD = re.compile(r"[^\W_]{4,40}")


@dataclass(frozen=True, slots=True)
class Went:
    """What is looked at. ``cut``: the answer is not whole; ``unanswered``: how many questions no provider answered."""

    question: str
    answer: str
    ok: bool
    cut: bool
    exchange: Sequence[Record]
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """Each from 0 to 1."""

    relevance: float
    coherence: float
    completion: float
    efficiency: float
    tool_use: float

    @property
    def overall(self) -> float:
        """Their mean, by :data:`WEIGHTS`."""
        return float(sum(getattr(self, name) * weight for name, weight in WEIGHTS.items()))

    def __str__(self) -> str:
        each = ", ".join(f"{name.replace('_', ' ')} {getattr(self, name):.2f}" for name in WEIGHTS)
        return f"{self.overall:.2f} ({each})"


def scores_of(went: Went) -> Scores:
    """The scores of a turn."""
    results = [record for record in went.exchange if record.get("role") == "tool"]
    bad = sum("status" in record for record in results)
    return Scores(
        _relevance(went, results),
        _coherence(went.answer),
        (0.5 if went.cut else 1.0) if went.ok else 0.0,
        1 / (1 + bad + went.unanswered),
        1 - bad / len(results) if results else 1.0,
    )


def _relevance(went: Went, results: Sequence[Record]) -> float:
    asked = _words(went.question)
    if not asked:
        return 1.0 if went.answer.strip() else 0.0
    said = _words(went.answer)
    for record in results:
        said |= _words(str(record.get("content") or ""))
    return len(asked & said) / len(asked)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(cut_text(text, READ_BYTES).lower()))


def _coherence(answer: str) -> float:
    text = cut_text(answer, READ_BYTES)
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 20]
    repeated = 1 - len(set(lines)) / len(lines) if lines else 0.0
    unclosed = 0.25 * (text.count("```") % 2) + 0.1 * (text.count("(") > text.count(")"))
    return max(0.0, 1 - repeated - unclosed)
