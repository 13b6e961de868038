"""What is seen of a text, token by token: words and the letters in them, pairs of neighbours, and which kinds of words
stand near each other. Pure.

Each feature is a bucket of :data:`BUCKETS`; the tool that fits the weights and what weighs a text both take them from
here. Kinds of words are those of :mod:`cognition.guard.lexicon`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from cognition.guard.lexicon import PHRASES, bits_of

BUCKETS = 1 << 18
GRAMS = (3, 4, 5)
"""Lengths of the runs of letters that are looked at within a word."""
REACH = 8
"""So many tokens apart may two kinds of words stand."""
LONGEST = 24
"""A run of letters above this is no word."""
_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\n|\d+|_+|[^\w\s]+")
_KINDS = 51
_EDGE, _ASKED, _ADDRESS, _MARKUP, _QUOTE, _COLON = (1 << n for n in range(45, _KINDS))
_OF_MARKS = {
    "?": _ASKED,
    "@": _ADDRESS,
    "<": _MARKUP,
    "{": _MARKUP,
    "[": _MARKUP,
    '"': _QUOTE,
    "'": _QUOTE,
    ":": _COLON,
}
_ENDS = frozenset('.!?;:>-*#"(')
_IN_A_SENTENCE, _WORD, _END = range(3)


@dataclass(frozen=True, slots=True)
class Seen:
    """The tokens of a text with the number, the line and the kinds (bits) of each."""

    tokens: list[str]
    numbers: list[int]
    lines: list[int]
    kinds: list[int]


def seen_in(text: str, first_line: int = 0) -> Seen:
    """The tokens of a folded text."""
    tokens: list[str] = []
    numbers: list[int] = []
    lines: list[int] = []
    kinds: list[int] = []
    heads: list[int] = []
    line, begins = first_line, True
    for found in _TOKEN.findall(text):
        if found == "\n":
            line, begins = line + 1, True
            continue
        token, number, kind, sort, heads_phrase = _known(found)
        if sort == _WORD:
            if begins:
                kind |= _EDGE
                begins = False
            if heads_phrase:
                heads.append(len(tokens))
        elif sort == _END:
            begins = True
        tokens.append(token)
        numbers.append(number)
        lines.append(line)
        kinds.append(kind)
    for at in heads:
        for rest, bit in PHRASES[tokens[at]].get(tokens[at + 1] if at + 1 < len(tokens) else "", ()):
            if not rest or tokens[at + 2 : at + 2 + len(rest)] == rest:
                kinds[at] |= bit
    return Seen(tokens, numbers, lines, kinds)


@lru_cache(maxsize=16_384)
def _known(found: str) -> tuple[str, int, int, int, bool]:
    """A token as it is compared, its number, its kinds, what it is in a sentence, and whether phrases begin with it."""
    first = found[0]
    if first.isalpha():
        token, kind, sort = (found if len(found) <= LONGEST else "§"), bits_of(found), _WORD
    elif first.isdigit():
        token, kind, sort = "0", 0, _WORD
    else:
        token, kind, sort = found[:3], _OF_MARKS.get(first, 0), _END if first in _ENDS else _IN_A_SENTENCE
    return token, crc32(token.encode()), kind, sort, token in PHRASES


def word_features(token: str) -> Iterator[tuple[int, float]]:
    """A token by itself, and what letters are in it."""
    yield _bucket("w", token), 1.0
    if token[0].isalpha() and len(token) > 2:
        marked = f"<{token}>"
        grams = sorted({marked[at : at + n] for n in GRAMS for at in range(len(marked) - n + 1)})
        for gram in grams:
            yield _bucket("c", gram), 1 / math.sqrt(len(grams))


def pair_features(numbers: list[int]) -> list[int]:
    """Each token behind the one before it, by their numbers."""
    return [(before * 31 + number) % BUCKETS for before, number in zip([0, *numbers], numbers, strict=False)]


def kind_features(before: int, kinds: int) -> Iterator[int]:
    """Each kind of one token with each of one that stands before it, near by; of none before it: each kind alone."""
    for kind in _split(kinds):
        if not before:
            yield _bucket("k", str(kind))
        for other in _split(before):
            yield _bucket("k", f"{other} {kind}")


def name_feature(name: str) -> int:
    """What holds of all of a text: how it was disguised, that it is an article."""
    return _bucket("n", name)


def near(kinds: list[int]) -> Iterator[tuple[int, int, int]]:
    """Where kinds of words meet: the later one's place, the kinds of the earlier one (0: none), and its own."""
    recent: list[tuple[int, int]] = []
    for at, kind in enumerate(kinds):
        if kind:
            yield at, 0, kind
            recent = [each for each in recent if at - each[0] <= REACH]
            for _, other in recent:
                yield at, other, kind
            recent.append((at, kind))


def _split(kinds: int) -> list[int]:
    return [n for n in range(_KINDS) if kinds >> n & 1]


def _bucket(sort: str, name: str) -> int:
    return crc32(f"{sort}\0{name}".encode()) % BUCKETS
