"""What servers say of their limits in the heads of their answers. Pure; nothing of it is trusted to make sense.

OpenAI and those like it: ``x-ratelimit-limit-requests``, ``-remaining-``, ``-reset-`` (``6m0s``), the same of tokens.
Anthropic: ``anthropic-ratelimit-requests-limit``, ``-remaining``, ``-reset`` (a date, RFC 3339), the same of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from cognition.providers.served.pace import Told

_NAMES: Mapping[str, tuple[str, ...]] = {
    "requests": ("x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"),
    "tokens": (
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-tokens-{}",
        "anthropic-ratelimit-input-tokens-{}",
    ),
}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def limits_of(headers: Mapping[str, str], wall_s: float) -> dict[str, Told]:
    """What is said of ``requests`` and ``tokens``. ``wall_s``: seconds since the epoch."""
    found = {}
    for name, spellings in _NAMES.items():
        for spelling in spellings:
            limit, left = (_count(headers.get(spelling.format(word), "")) for word in ("limit", "remaining"))
            if limit and left is not None:
                reset_s = _seconds(headers.get(spelling.format("reset"), ""), wall_s)
                found[name] = Told(limit, min(left, limit), reset_s)
                break
    return found


def _count(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[0-9]{1,15}", value.strip(), re.ASCII) else None


def _seconds(value: str, wall_s: float) -> float:
    """0 where nothing is said that makes sense."""
    value = value.strip()[:64]
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value, re.ASCII):
        return float(value)
    if value and not _PART.sub("", value):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    try:
        due = datetime.fromisoformat(value)
    except ValueError:
        return 0.0
    return max(0.0, due.timestamp() - wall_s) if due.tzinfo is not None else 0.0
