"""Options that are given once for each name, as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def named_values(words: Sequence[str], form: str, read: Callable[[str, str], Any]) -> dict[str, Any]:
    """What each name is said to be, as ``read(name, value)`` reads it. Raises ValueError for what is not of the
    ``form``, such as NAME=VALUE, or given twice.
    """
    said: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in said:
            raise ValueError(f"{word[:80]!r} is not {form}, or {name[:40]} is given twice")
        said[name] = read(name, value)
    return said
