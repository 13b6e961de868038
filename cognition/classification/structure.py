"""How a text is built: lines and marks of code and of mathematics, quotations, numbers, paths. Pure.

No pattern here runs on for longer than its text: what repeats is bounded or cannot begin at two places of the same run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

MOST_COUNTED = 6
LONGEST = 8.0
SAID_WORDS = 4
"""A line that begins with so many words says something, even if it ends as code does."""

_QUOTED = re.compile(r"[\"“„«][^\"“”„«»\n]{24,}[\"”“»]|```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_CODE_WORDS = """
    def fn func function class struct impl enum interface trait public private static package namespace const let var
    import from use using elif switch case catch except finally async
    SELECT INSERT UPDATE DELETE CREATE ALTER BEGIN FROM RUN COPY CMD ENV WHERE JOIN
"""
_BLOCK_WORDS = "for if while else try with return print raise yield await do"
_CODE = frozenset(_CODE_WORDS.split())
_BLOCK = frozenset(_BLOCK_WORDS.split())
_CODE_BEGINS = re.compile(r"[({\[;=<\"']")
_FIRST_WORD = re.compile(r"(?:[+-] |\d{1,4} )?\s{0,40}(\w{1,40})")
_ASSIGNS = re.compile(r"\w[\w.\[\]]{0,60} ?(?:=|\+=|:=) ?[^=\s]")
_ENDINGS = (
    "txt|pdf|docx?|xlsx?|csv|jpe?g|png|zip|log|md|json|ya?ml|mp3|mp4|ics|vcf|html?|conf|tar|gz|odt|pptx?"
)
_DIGITS = "0123456789"
_PATTERNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "code_marks": (
        ("(", r"\((?<=\w\w\()[^)\n]{0,120}\)"),
        ("=-:&|+;{}(\\<", r"[=!]==?|=>|->|::|&&|\|\||\+=|:=|[;{}]|\(\?[=!:]|\\[dwsb]|</\w"),
        ("_", r"_(?<=[a-z]_)[a-z]"),
    ),
    "maths_marks": (
        (
            _DIGITS,
            r"\d\s?(?:[*×·÷^+-]\s?\d|[/=<>]\s?\d|mod\b|x\s\d|%\s(?:of|von|de|от)\b|[xyz]\s?[+*/^=-])",
        ),
        ("^=", r"(?<=[a-z])\s?(?:\^\s?[\w({-]|=\s?-?\d)"),
        ("√∫∑π≤≥∞∈", r"[√∫∑π≤≥∞∈]"),
        ("(", r"\((?<=\b[PEfgh]\()[\w ,|]{1,12}\)"),
        ("(", r"\b(?:sin|cos|tan|ln|log|exp|sqrt)\s?\("),
    ),
    "places": (
        ("/", r"(?<![\w/:])(?:~|\.{1,2})?/[\w.-]"),
        ("/", r"https?://"),
        (".", rf"\.(?<=\w\.)(?:{_ENDINGS})\b"),
        (".", r"\d\.\d{1,3}\.\d{1,3}\.\d"),
        ("@#", r"[@#](?:(?<=\w@)\w|(?<=#)[a-z]\w)"),
    ),
    "clock": (
        (_DIGITS, r"\b(?:at|um|à|a las|в) \d"),
        (_DIGITS, r"\d:\d\d\b|\d ?[ap]m\b|\dh\b"),
    ),
    "years": ((_DIGITS, r"[12](?:(?<!\w1)(?<=1)[5-9]|(?<!\w2)(?<=2)0)\d\d\b"),),
    "numbers": ((_DIGITS, r"\d[\d,.]*"),),
}
_COUNTED = {
    name: tuple((need, re.compile(pattern)) for need, pattern in patterns)
    for name, patterns in _PATTERNS.items()
}
"""With the characters of which a match has one at least: without any there is nothing to look for. Most begin with one
character or a set of them, which the machine of ``re`` looks for quickly.
"""
_FACE = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]|[:;]-?[()DPp]|<3")


@dataclass(frozen=True, slots=True)
class Structure:
    """``prose``: what is said, without what looks like code or is quoted at length. ``counts``: how many there are of
    a kind, up to :data:`MOST_COUNTED`. ``marks``: what is there or not.
    """

    prose: str
    counts: Mapping[str, int]
    marks: tuple[str, ...]

    @staticmethod
    def length_of(chars: int) -> float:
        """The length of a message in doublings of 16 characters, up to :data:`LONGEST` (4,080 characters)."""
        return min(log2(1 + chars / 16), LONGEST)


def structure_of(text: str) -> Structure:
    """How ``text`` is built."""
    unquoted = _QUOTED.sub(" ", text)
    lines = unquoted.split("\n")
    prose = [line for line in lines if not _is_code(line.strip())]
    there = frozenset(text)
    counts = {name: _count(patterns, text, there) for name, patterns in _COUNTED.items()}
    counts["code_lines"] = len(lines) - len(prose)
    counts["paragraphs"] = text.count("\n\n")
    marks = {
        "question": "?" in text,
        "exclamation": "!" in text,
        "face": _FACE.search(text) is not None,
        "quotation": unquoted != text,
        "many_numbers": counts["numbers"] >= MOST_COUNTED,
    }
    return Structure("\n".join(prose), counts, tuple(name for name, there in marks.items() if there))


def _is_code(line: str) -> bool:
    """Whether a stripped line looks like one of a program: by how it ends, by its first word, or as an assignment."""
    if not line:
        return False
    if line[0] in "@})<" or line.startswith("#include"):
        return True
    if line[-1] in "{};" and len(_CODE_BEGINS.split(line, maxsplit=1)[0].split()) < SAID_WORDS:
        return True
    found = _FIRST_WORD.match(line)
    if found is None:
        return False
    word = found[1]
    if word in _CODE:
        return line[-1] not in "?!"
    if word in _BLOCK:
        return line[-1] in ":({)"
    return _ASSIGNS.match(line) is not None


def _count(patterns: tuple[tuple[str, re.Pattern[str]], ...], text: str, there: frozenset[str]) -> int:
    found = 0
    for need, pattern in patterns:
        if there.isdisjoint(need):
            continue
        for _ in pattern.finditer(text):
            found += 1
            if found == MOST_COUNTED:
                return found
    return found
