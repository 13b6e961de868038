"""An answer as it can be spoken: without marks that are made to be seen. Pure.

What is taken out is what Markdown adds: headings, emphasis, links, lists, rules, fences, tables. The words stay, in
their order; a row of a table and an item of a list are sentences of their own. It is no reader of Markdown: what only
looks like a mark inside a word (``2*3*4``, ``snake_case``) stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^\s*(```|~~~)")
_RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_QUOTE = re.compile(r"^\s*(?:>\s?)+")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\]\([^()\s]{0,2000}\)")
_ADDRESS = re.compile(r"<(https?://[^<>\s]{1,2000})>")
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|~~)(?=\S)([^*_~\n]{1,500}?)(?<=\S)\1(?!\w)")
_CODE = re.compile(r"`{1,3}([^`\n]{1,500})`{1,3}")
_ENDS = ".!?:;,"


def spoken(text: str) -> str:
    """The same words without such marks, in one paragraph for each that there was."""
    paragraphs = [" ".join(each) for each in _paragraphs(text)]
    return "\n\n".join(each for each in paragraphs if each) or text.strip()


def _paragraphs(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            yield lines
            lines = []
        elif not (_FENCE.match(line) or _RULE.match(line) or _TABLE_RULE.match(line)):
            lines.append(_line(line))
    yield lines


def _line(line: str) -> str:
    """One line; what stood apart by its form is a sentence."""
    apart = bool(_HEADING.match(line) or _ITEM.match(line) or _ROW.match(line))
    if _ROW.match(line):
        line = ", ".join(cell.strip() for cell in line.strip().strip("|").split("|") if cell.strip())
    line = _ITEM.sub("", _HEADING.sub("", _QUOTE.sub("", line)), count=1)
    line = _ADDRESS.sub(r"\1", _IMAGE_OR_LINK.sub(r"\1", line))
    line = _CODE.sub(r"\1", line)
    for _ in range(2):  # emphasis in emphasis
        line = _EMPHASIS.sub(r"\2", line)
    line = line.strip()
    return f"{line}." if apart and line and line[-1] not in _ENDS else line
