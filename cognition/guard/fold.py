"""Text as it is compared: without case, width, accents and what nobody sees. Pure."""

from __future__ import annotations

import re
import unicodedata

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
"""Characters without a shape: zero-width, direction, variation and tag characters, soft hyphens."""
_ACCENTS = re.compile("[\u0300-\u036f\u0483-\u0487\u05b0-\u05c7\u064b-\u0652]+")
_MARKS = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u02bc": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "ı": "i",
        "ł": "l",
        "ø": "o",
    }
)


def fold(text: str) -> str:
    """The same text in small letters; lines stay lines."""
    if text.isascii():
        return text.lower()
    seen = INVISIBLE.sub("", text)
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", seen).casefold()).translate(_MARKS)
