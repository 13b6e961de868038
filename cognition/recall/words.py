"""Text as search sees it: one spelling for what looks the same, and its words."""

from __future__ import annotations

import re
import unicodedata

MAX_WORD_CHARACTERS = 64

_WORD = re.compile(r"[^\W_]+")


def normalised(text: str) -> str:
    """``text`` in one spelling: compatibility forms folded, no case, half character pairs replaced."""
    if text.isascii():
        return text.lower()
    whole = text.encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", whole).casefold()


def words(text: str) -> list[str]:
    """The words of ``text``, normalised, in order; longer ones are cut at 64 characters."""
    return [word[:MAX_WORD_CHARACTERS] for word in _WORD.findall(normalised(text))]
