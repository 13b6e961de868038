"""A text in clauses, each with what its words may do in an order. Pure, one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cognition.guard.lexicon import AGENT, PHRASES, bits_of

CLAUSE_WORDS = 48
"""A clause ends here at the latest: in a list of a thousand words everything stands beside everything."""
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\n|[.!?;:](?=[\s\"')\]*]|$)|[\"<>]|(?<![^\W_])'|'(?![^\W_])")
_PEOPLE = frozenset(
    [
        "travel",
        "estate",
        "insurance",
        "sales",
        "service",
        "support",
        "secret",
        "free",
        "ticket",
        "call",
        "shop",
        "medical",
        "dental",
        "teaching",
        "shipping",
        "booking",
        "real",
        "user",
    ]
)
"""What stands before an agent or assistant who is a person, or a browser."""
_ENDS = frozenset(".!?;:\n<>\"'")


@dataclass(frozen=True, slots=True)
class Clause:
    """``words`` with ``bits`` for each, ``all`` of them together. ``quoted``: it began inside of quotation marks.
    ``end``: the mark behind it.
    """

    words: list[str]
    bits: list[int]
    all: int
    line: int
    quoted: bool
    end: str


def clauses(text: str, first_line: int = 0) -> Iterator[Clause]:
    """Those in which any word means something here."""
    words: list[str] = []
    line, quoted = first_line, False
    for token in _TOKEN.findall(text):
        if token not in _ENDS:
            words.append(token)
            if len(words) < CLAUSE_WORDS:
                continue
        if words:
            yield _clause(words, line, quoted, token)
            words = []
        if token == "\n":
            line, quoted = line + 1, False
        elif token in "\"'":
            quoted = not quoted
    if words:
        yield _clause(words, line, quoted, "")


def _clause(words: list[str], line: int, quoted: bool, end: str) -> Clause:
    bits = [bits_of(word) for word in words]
    together = 0
    for at, word in enumerate(words):
        if word in PHRASES and at + 1 < len(words):
            for rest, bit in PHRASES[word].get(words[at + 1], ()):
                if not rest or words[at + 2 : at + 2 + len(rest)] == rest:
                    bits[at] |= bit
        if bits[at] & AGENT and (
            (at and words[at - 1] in _PEOPLE) or (at + 1 < len(words) and words[at + 1].isdigit())
        ):
            bits[at] &= ~AGENT
        together |= bits[at]
    return Clause(words, bits, together, line, quoted, end)
