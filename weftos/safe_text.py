"""Foreign text (a model's, a tool's, a peer's) before it reaches a terminal or a log: shown, never obeyed.

A terminal obeys control characters (ESC starts a sequence that can retitle the window, move the cursor, or
type for the user), a bidirectional override makes text read differently from what it is, and invisible format
characters hide text from a reader. Each of these is replaced by its Python escape (``\\x1b``, ``\\u202e``),
so that it is seen.

The rule is by Unicode category, so that it needs no list to keep up to date: control (Cc), format (Cf, which
holds every bidirectional control, zero-width character and tag), surrogates (Cs), line and paragraph
separators (Zl, Zp).
"""

from __future__ import annotations

import unicodedata

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def safe_text(text: str, *, lines: bool = False) -> str:
    """``text`` on one line with everything a terminal would obey shown as an escape.

    With ``lines`` a newline and a tab stay what they are (a carriage return does not: it overwrites).
    """
    if text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def safe_markup(text: str, *, lines: bool = False) -> str:
    """:func:`safe_text` for a sink that obeys rich's markup: ``[link=...]`` is shown as it was written."""
    from rich.markup import escape

    return escape(safe_text(text, lines=lines))


def _shown(character: str, lines: bool) -> str:
    if lines and character in "\n\t":
        return character
    if unicodedata.category(character) not in _OBEYED:
        return character
    return character.encode("unicode_escape").decode("ascii")
