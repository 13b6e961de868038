"""Checks on what a cell hands over, and the hashes of calls. Pure; a cell's word is hostile until checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kernel.errors import Invalid

MAX_DEPTH = 64
"""Levels of lists and maps in what somebody else hands over to be kept."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces, no NaN. Raises :class:`Invalid` for what JSON cannot say."""
    try:
        text = _ENCODER.encode(value)
        if not text.isascii():
            text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"not expressible as JSON: {type(error).__name__}") from error
    return text


def plain(value: Any, what: str, limit_bytes: int) -> Any:
    """What canonical JSON says of ``value``: keys are text, tuples are lists. Whatever is kept goes through here once.

    Raises :class:`Invalid` for what JSON cannot say, more than ``limit_bytes`` of it, nesting over :data:`MAX_DEPTH`,
    and integers that 64 bits cannot hold.
    """
    if value == [] and type(value) is list:  # as nearly all turns leave it
        return []
    text = canonical(value)
    size = size_of_text(text)
    if size > limit_bytes:
        raise Invalid(f"{what} of {size} bytes, limit {limit_bytes}")
    found = json.loads(text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(found, what)
    return found


def check_depth(value: Any, what: str, limit: int = MAX_DEPTH) -> None:
    """Raises :class:`Invalid` when lists and maps in ``value`` are nested deeper than ``limit``."""
    level = [value]
    for _ in range(limit + 1):
        inner = [
            each.values() if type(each) is dict else each for each in level if type(each) in (dict, list)
        ]
        if not inner:
            return
        level = [each for items in inner for each in items]
    raise Invalid(f"{what} is nested deeper than {limit}")


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What ``above`` says, and of ``below`` what it does not say; tables that both have are merged too."""
    both = {
        name: merged(below[name], each)
        for name, each in above.items()
        if isinstance(each, dict) and isinstance(below.get(name), dict)
    }
    return {**below, **above, **both}


def sha256_hex(text: str) -> str:
    """Hex SHA-256 of UTF-8 text; lone surrogates count as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def call_hash(op: str, *parts: str) -> str:
    """The identity of a syscall: same operation, same canonical arguments."""
    return sha256_hex("\0".join((op, *parts)))


def text_of(value: Any, what: str, limit_bytes: int) -> str:
    """``value`` as clean UTF-8 text of at most ``limit_bytes``. Raises :class:`Invalid`."""
    if not isinstance(value, str):
        raise Invalid(f"{what} is {type(value).__name__}, not text")
    size = size_of_text(value)
    if size > limit_bytes:
        raise Invalid(f"{what} of {size} bytes, limit {limit_bytes}")
    return clean(value)


def size_of_text(text: str) -> int:
    """Bytes of it as UTF-8; lone surrogates count as they are. Text of ASCII alone knows that of itself, and is not
    encoded for it.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def clean(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates become the replacement character."""
    if text.isascii() or not _has_surrogates(text):
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def cut_bytes(text: str, limit_bytes: int) -> tuple[str, bool]:
    """``text`` cut to ``limit_bytes`` of UTF-8 at a character, and whether anything was cut."""
    if len(text) <= limit_bytes and text.isascii():
        return text, False
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return text, False
    return data[:limit_bytes].decode("utf-8", "ignore"), True


def ordinal_of(round_: Any, index: Any) -> str:
    """``round.index`` of a syscall. Raises :class:`Invalid`."""
    if not (
        isinstance(round_, int) and isinstance(index, int) and 0 <= round_ < 10**6 and 0 <= index < 10**4
    ):
        raise Invalid("ordinal is not a pair of small non-negative integers")
    return f"{round_}.{index}"


def measured(text: str) -> str:
    """What stands for a text in a command's entry."""
    return f"{len(text)} characters"
