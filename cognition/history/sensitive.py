"""Fields that are nobody's business but theirs who may see them, taken out of what tools gave. Pure.

A field is known by its name: in JSON, however deep, and in lines of ``name: value`` or ``name = value``. Case and what
joins words do not matter (``date_of_birth``, ``Date of birth``, ``dateOfBirth``). What stands in prose is not found,
nor what a column of a table is called far above it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

NOT_SHOWN = "[not shown: sensitive]"
_MOST_BYTES = 1_000_000
_MOST_DEPTH = 40
_NAME_CHARS = 100
_LINE = re.compile(
    r"""(?mx)
    ^(?P<before>[ \t>*|-]{0,8}["']?
    (?P<name>[A-Za-z][\w\ .-]{0,60}?)
    ["']?[ \t]{0,3}[:=][ \t]{0,3})
    \S[^\n]*$
    """
)


def hidden(text: str, fields: Sequence[str]) -> str:
    """The text without the values of such fields."""
    if not fields:
        return text
    is_sensitive = _matcher(tuple(fields))
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MOST_BYTES:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            kept = _without(value, is_sensitive, _MOST_DEPTH)
            return text if kept == value else json.dumps(kept, ensure_ascii=False)
    return _LINE.sub(lambda found: _line(found, is_sensitive), text)


def _line(found: re.Match[str], is_sensitive: Callable[[str], bool]) -> str:
    return f"{found['before']}{NOT_SHOWN}" if is_sensitive(found["name"]) else found[0]


def _without(value: Any, is_sensitive: Callable[[str], bool], depth: int) -> Any:
    """Below a depth nothing is shown: nobody nests what is to be read so deep."""
    if isinstance(value, dict | list) and not depth:
        return NOT_SHOWN
    if isinstance(value, dict):
        return {
            name: NOT_SHOWN if is_sensitive(name) else _without(each, is_sensitive, depth - 1)
            for name, each in value.items()
        }
    return [_without(each, is_sensitive, depth - 1) for each in value] if isinstance(value, list) else value


@lru_cache(maxsize=64)
def _matcher(fields: tuple[str, ...]) -> Callable[[str], bool]:
    globs = [_plain(each) for each in fields]

    @lru_cache(maxsize=1024)
    def look(name: str) -> bool:
        return any(fnmatchcase(_plain(name), glob) for glob in globs)

    return lambda name: look(name[:_NAME_CHARS])


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).lower()
