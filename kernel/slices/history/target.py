"""What a tool call was about, in a few words of its own arguments. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TARGET_CHARS = 120
_SAID_CHARS = 48
_WHOM = ("to", "recipient", "recipients", "topic", "channel")
_WHAT = (
    "path",
    "file",
    "filename",
    "url",
    "address",
    "target",
    "name",
    "key",
    "id",
    "title",
    "command",
    "query",
)
_SAID = ("subject", "title", "text", "message", "body", "content")


def target_of(arguments: str) -> str:
    """What arguments (JSON of an object) say of what is acted on, in one line of at most :data:`TARGET_CHARS`: a
    path, an address, and of what is said to somebody its beginning. Of others the first text in it.
    """
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        given = None
    return _line(_named(given) if isinstance(given, dict) else arguments, TARGET_CHARS)


def _named(given: Mapping[str, Any]) -> str:
    whom = _first(given, _WHOM)
    if whom:
        said = _line(_first(given, _SAID), _SAID_CHARS)
        return f"{whom}: {said}" if said else whom
    texts = tuple(name for name, value in given.items() if isinstance(value, str))
    return _first(given, _WHAT) or _first(given, texts) or _first(given, tuple(given))


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of some arguments that says something."""
    for name in names:
        value = given.get(name)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ", ".join(value)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value)
    return ""


def _line(text: str, most_chars: int) -> str:
    """In one line of what can be seen, cut with a mark."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * most_chars]).split())
    return line if len(line) <= most_chars else line[: most_chars - 1] + "…"
