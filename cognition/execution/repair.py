"""Arguments that a model wrote as JSON, nearly: mended where they can mean one thing only. Pure.

Each mend is tried alone, and counts when it alone makes an object of the text: nothing (an empty text is no arguments),
a fence of three backticks around it, the object as a JSON text inside of a JSON text, a comma before a closing bracket.
All else is left as it was, and the node says what is wrong with it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from cognition.execution.fences import unfenced
from kernel.abi import ToolCall

LONGEST_CHARS = 256 * 2**10
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|,(\s*[}\]])', re.DOTALL)


def repaired(call: ToolCall) -> ToolCall:
    """The call with arguments that are an object, where that can be had without a guess."""
    text = call.arguments
    if len(text) > LONGEST_CHARS or _object(text) is not None:
        return call
    for mend in (_nothing, unfenced, _unwrapped, _without_commas):
        mended = mend(text)
        if mended is not None and _object(mended) is not None:
            return replace(call, arguments=mended)
    return call


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _nothing(text: str) -> str | None:
    return "{}" if not text.strip() else None


def _unwrapped(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _without_commas(text: str) -> str | None:
    """Commas that stand before a closing bracket, outside of all texts, are left out."""
    return _TOKEN.sub(lambda found: found[0] if found[1] is None else found[1], text)
