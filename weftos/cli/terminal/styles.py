"""Text with styles, and what a terminal is told of them. All of it was made safe when it became a :class:`Text`.

A few codes of our own, since a table of many processes is drawn by them, and since a command that prints one line would
load a library of hundreds of kilobytes for it.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TextIO

from weftos.safe_text import safe_text

Paint = Callable[[str, str], str]
"""A text and its style, to what is written."""

_CODES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
    "bold red": "1;31",
}  # fmt: skip
_UNCOLOURED = {"bold": "1", "dim": "2", "bold red": "1"}
_STATES = {
    "running": "green",
    "ok": "green",
    "starting": "cyan",
    "restarting": "yellow",
    "stopping": "yellow",
    "suspended": "yellow",
    "warn": "yellow",
    "parked": "magenta",
    "stopped": "dim",
    "exited": "red",
    "error": "red",
    "fail": "red",
}


@dataclass(frozen=True, slots=True)
class Text:
    """Pieces of safe text, each with its style; no style is the empty one."""

    pieces: tuple[tuple[str, str], ...]

    def painted(self, paint: Paint) -> str:
        return "".join(paint(text, style) for text, style in self.pieces)


def styled(text: str, style: str = "", *, lines: bool = False) -> Text:
    """Foreign text made safe; one that is a state's name has the state's colour. ``lines``: newlines stay newlines."""
    return Text(((safe_text(text, lines=lines), style or style_of(text)),))


def joined(*parts: Text) -> Text:
    """Parts in one line, each in its own style."""
    return Text(tuple(piece for part in parts for piece in part.pieces))


def style_of(text: str) -> str:
    """The colour of a state, nothing for what is none."""
    return _STATES.get(text, "")


def plain(text: str, style: str) -> str:
    """For a file or pipe."""
    return text


def paint_for(file: TextIO) -> Paint:
    """How ``file`` is written to: in styles on a terminal that shows them, without colours if ``NO_COLOR`` is set."""
    if not file.isatty() or os.environ.get("TERM") in (None, "dumb", "unknown"):
        return plain
    codes = _UNCOLOURED if os.environ.get("NO_COLOR") else _CODES

    def paint(text: str, style: str) -> str:
        code = codes.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    return paint


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_cell, text))


@lru_cache(maxsize=4096)
def _cell(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
