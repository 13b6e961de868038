"""What a cell may say of how a model is to answer, and what the gateway is told of it. Pure."""

from __future__ import annotations

import math
from typing import Any

from kernel.bounds import Bounds
from kernel.cell.conversation import has_text_keys
from kernel.cell.protocol import NO_OPTIONS, ModelOptions
from kernel.errors import Invalid
from kernel.values import canonical

MOST_TEMPERATURE = 2.0
MOST_TOP_K = 1_000_000
MOST_TOKENS = 2**31 - 1
_DRAWN = "temperature", "top_p", "top_k", "output_schema"


def check_options(options: ModelOptions | None, bounds: Bounds) -> None:
    """Raises :class:`Invalid` for what nobody can be asked, whoever answers."""
    if options is None:
        return
    _check("temperature", options.temperature, 0, MOST_TEMPERATURE)
    _check("top_p", options.top_p, 0, 1)
    if options.top_p == 0:
        raise Invalid("top_p is 0, must be above 0")
    _check("top_k", options.top_k, 1, MOST_TOP_K)
    _check("max_tokens", options.max_tokens, 0, MOST_TOKENS)
    _check("after_ms", options.after_ms, 0, int(bounds.model_back_off_s * 1000))
    if options.output_schema is not None:
        size = len(canonical(options.output_schema).encode())
        if size > bounds.output_schema_bytes:
            raise Invalid(f"output_schema of {size} bytes, limit {bounds.output_schema_bytes}")
        if not has_text_keys(options.output_schema):
            raise Invalid("a key in output_schema is no text")


def _check(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not (math.isfinite(value) and least <= value <= most):
        raise Invalid(f"{name} is {value}, must be from {least:g} to {most:g}")


def told_options(options: ModelOptions | None, most_tokens: int) -> dict[str, Any]:
    """What the gateway is told of them. ``most_tokens``: what a budget allows, 0 for any number."""
    options = options or NO_OPTIONS
    given = {name: getattr(options, name) for name in _DRAWN}
    told = {name: value for name, value in given.items() if value is not None}
    limits = [limit for limit in (options.max_tokens, most_tokens) if limit]
    if limits:
        told["max_tokens"] = min(limits)
    for name in ("retry", "stream"):
        if not getattr(options, name):
            told[name] = False
    return told
