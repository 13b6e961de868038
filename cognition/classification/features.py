"""What is seen of a message: groups of words, how it begins, and how it is built. Pure, and bounded for any length.

Of a long message its beginning and its end are looked at (:data:`HEAD_CHARS`, :data:`TAIL_CHARS`): what is wanted is
said at one of them, and what lies between is what it is wanted of. What looks like code or is a long quotation is taken
out before words are looked for: it is what the message is about, and asks for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from types import MappingProxyType

from cognition.classification.cues import LEAD_WORDS, LEADS, OPENERS, POLITE, THINGS, WORDS
from cognition.classification.phrases import PHRASES
from cognition.classification.structure import Structure, structure_of
from cognition.recall.words import normalised

HEAD_CHARS = 1_024
TAIL_CHARS = 512
COUNTED = (0.0, 1.0, 1.5, 1.8)
"""What the first, the second and each further one of a kind count together: many say little more than three."""
BEGINNING_WORDS = 8

_TOKEN = re.compile(r"c\+\+|[cf]#|[^\W_]+|[.!?,:;\n]")
_MARKS = frozenset(".!?,:;\n")
_QUESTIONS = ("who", "what", "how", "why", "which")
ASKING = ("make", "change", "want", "review", "explain", "act", "analysis", "math")
"""Verbs of these groups ask for something where a part of a sentence begins with them."""

TOGETHER = (
    *(("asks:make", each) for each in ("code_thing", "technology", "creative_thing", "code_lines")),
    *(("asks:change", each) for each in ("code_thing", "technology", "creative_thing", "code_lines", "code_marks")),
    ("asks:change", "quotation"),
    *(("asks:want", each) for each in ("code_thing", "technology", "creative_thing")),
    *(("asks:act", each) for each in ("act_thing", "places", "clock", "code_thing")),
    *(("asks:review", each) for each in ("code_thing", "code_marks", "code_lines")),
    *(("asks:explain", each) for each in ("code_marks", "code_thing")),
    *(("asks:analysis", each) for each in ("data_thing", "deixis", "numbers", "quotation")),
    *(("question", each) for each in ("code_marks", "code_lines", "code_thing", "many_numbers", "knowledge")),
    *(("question", each) for each in ("deixis", "assistant", "maths_marks")),
    *(("review", each) for each in ("code_marks", "code_lines", "code_thing")),
    *(("deixis", each) for each in ("data_thing", "many_numbers", "quotation", "code_lines")),
    *(("begins:is", each) for each in ("code_marks", "code_lines", "act_thing", "moment", "deixis", "assistant")),
    *(("begins:technology", each) for each in ("many_steps", "asks:nothing")),
    *(("begins:other", each) for each in ("code_thing", "creative_thing", "technology", "maths_marks")),
    *(("quantity", each) for each in ("measure", "numbers", "moment", "act_thing", "self")),
    *(("asks:wh", each) for each in ("act_thing", "moment", "creative_thing", "data_thing", "places", "maths_marks")),
    *(("asks:wh", each) for each in ("quotation", "self", "code_lines", "some_words", "review")),
    *(("few_words", each) for each in ("maths_marks", "numbers", "code_marks", "question", "act_thing")),
    ("question", "quotation"),
    ("question", "moment"),
    ("self", "feeling"),
    ("self", "asks:nothing"),
    ("technology", "code_thing"),
    ("math", "numbers"),
    *(("asks:wh", each) for each in ("knowledge", "code_marks", "deixis", "math", "assistant", "numbers", "feeling")),
)  # fmt: skip
"""Pairs that say together what neither says alone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """``features``: name to strength; those that are not there are left out. ``words``: of each group of cues the
    first that was found.
    """

    features: Mapping[str, float]
    words: Mapping[str, str]


def looked_at(text: str) -> str:
    """What is looked at of a message."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"


def seen_in(text: str) -> Seen:
    """What is seen of a message."""
    structure = structure_of(looked_at(text))
    tokens = _TOKEN.findall(normalised(structure.prose))
    words = [token for token in tokens if token not in _MARKS]
    counts, first = _counted(words)
    features = {name: counted(count) for name, count in counts.items()}
    features.update(dict.fromkeys(_beginning(words), 1.0))
    features.update(dict.fromkeys(_first_thing(words), 1.0))
    features.update(_later(tokens))
    features.update((name, value) for name, value in _built(structure, len(text), words) if value)
    features.update(dict.fromkeys(_asks(features), 1.0))
    features.update(
        (f"{one} & {other}", 1.0) for one, other in TOGETHER if one in features and other in features
    )
    return Seen(features, first)


def counted(count: int) -> float:
    """What so many of a kind count."""
    return COUNTED[min(count, 3)]


def _cues(table: Mapping[str, str], split: str | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, text in table.items():
        for cue in text.split(split):
            yield " ".join(_TOKEN.findall(normalised(" ".join(cue.split())))), prefix + name


def _by_cue(pairs: Iterator[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """The names of each cue, in the order of the tables."""
    found: dict[str, tuple[str, ...]] = {}
    for cue, name in pairs:
        names = found.get(cue, ())
        found[cue] = names if name in names else (*names, name)
    return MappingProxyType(found)


_GROUPS = _by_cue(chain(_cues(WORDS, None), _cues(PHRASES, "|")))
_LEADS = _by_cue(
    chain(
        _cues({name: WORDS[group] for name, group in LEADS.items()}, None, "begins:"),
        _cues(LEAD_WORDS, None, "begins:"),
    )
)
_POLITE = frozenset(_TOKEN.findall(POLITE))
_OPENERS = _MARKS | frozenset(_TOKEN.findall(OPENERS))
_LONGEST_PHRASE = max(len(each.split()) for each in _GROUPS)
_BEGUN = frozenset(
    " ".join(words[:length])
    for each in _GROUPS
    if len(words := each.split()) > 1
    for length in range(1, len(words))
)
"""What phrases begin with: what begins none is not looked up further."""


def _counted(words: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """How many cues of each group there are, and the first of them. A phrase counts beside its words."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for place, word in enumerate(words):
        cue = word
        for following in range(place + 1, place + _LONGEST_PHRASE + 1):
            for group in _GROUPS.get(cue, ()):
                counts[group] = counts.get(group, 0) + 1
                first.setdefault(group, cue)
            if cue not in _BEGUN or following >= len(words):
                break
            cue = f"{cue} {words[following]}"
    return counts, first


def _beginning(words: Sequence[str]) -> tuple[str, ...]:
    """What the first word is that is not there for politeness."""
    for word in words[:BEGINNING_WORDS]:
        if word not in _POLITE:
            return _LEADS.get(word, ("begins:other",))
    return ("begins:other",)


def _first_thing(words: Sequence[str]) -> tuple[str, ...]:
    """Of what groups the first word is that a verb may be about."""
    for word in words:
        if found := tuple(f"first:{name}" for name in _GROUPS.get(word, ()) if name in THINGS):
            return found
    return ("first:none",)


def _later(tokens: Sequence[str]) -> Iterator[tuple[str, float]]:
    """What parts of sentences begin with behind the beginning of the message."""
    counts: dict[str, int] = {}
    for before, token in pairwise(tokens):
        if before in _OPENERS:
            for name in _LEADS.get(token, ()):
                counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        yield f"then {name}", counted(count)


def _asks(features: Mapping[str, float]) -> list[str]:
    """What is asked for, by the words with which the message or a part of a sentence begins."""

    def begins(name: str) -> bool:
        return f"begins:{name}" in features or f"then begins:{name}" in features

    found = [f"asks:{name}" for name in ASKING if begins(name)]
    if any(map(begins, _QUESTIONS)):
        found.append("asks:wh")
    if not found and "question" not in features:
        found.append("asks:nothing")
    return found


def _built(structure: Structure, chars: int, words: Sequence[str]) -> Iterator[tuple[str, float]]:
    """How a message is built, whatever its words."""
    yield "length", structure.length_of(chars)
    yield "few_words", float(len(words) <= 4)
    yield "some_words", float(4 < len(words) <= 12)
    for name, count in structure.counts.items():
        yield name, counted(count)
    for name in structure.marks:
        yield name, 1.0
