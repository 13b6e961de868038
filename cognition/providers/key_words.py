"""Takes a provider's key out of what its server says: whoever thinks is to have no key, and the ledger none to keep.

A server that means harm can spell the key in a hundred ways; this is for the one that echoes it.
"""

from __future__ import annotations

import json
import re
import string

KEY_MARK = "[key]"
SECRET_CHARS = 12
"""A shorter key is a word, such as those that servers of one's own are given, and may stand in an answer."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def without_key(text: str, key: str) -> str:
    """``text`` with a mark in place of ``key``, in whatever case it stands there."""
    if not key:
        return text
    spelt = {re.escape(key), re.escape(json.dumps(key)[1:-1])}
    return re.sub("|".join(sorted(spelt)), lambda _: KEY_MARK, text, flags=re.IGNORECASE | re.ASCII)


def arguments_without_key(arguments: str, key: str) -> str:
    """The same of JSON text, whose strings may spell the key by escapes."""
    arguments = without_key(arguments, key)
    if not key or ("\\u" not in arguments and "\\/" not in arguments):
        return arguments
    try:
        plain = json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
    clean = without_key(plain, key)
    return arguments if clean == plain else clean


class KeyFilter:
    """The same of a text that comes in pieces: what may be the beginning of the key is held back."""

    def __init__(self, key: str) -> None:
        self._key = key.translate(_LOWER)
        self._held = ""

    def add(self, piece: str) -> str:
        """What can be shown by now."""
        if not self._key:
            return piece
        text = without_key(self._held + piece, self._key)
        last = text[len(text) - min(len(text), len(self._key) - 1) :].translate(_LOWER)
        held = next((len(last) - at for at in range(len(last)) if self._key.startswith(last[at:])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """What was held back and is not the key."""
        rest, self._held = self._held, ""
        return rest
