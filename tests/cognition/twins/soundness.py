"""What a model server takes of a transcript, in the plainest words: the reference for what repairs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cognition.context import Record, is_message


def sound_exchanges(history: Sequence[Record]) -> list[list[Record]]:
    """The history in exchanges, oldest first, without those that a model server would refuse."""
    exchanges: list[list[Record]] = []
    for record in history:
        if record.get("role") == "user":
            exchanges.append([])
        if exchanges:
            exchanges[-1].append(record)
    return [exchange for exchange in exchanges if _is_sound(exchange)]


def _is_sound(exchange: list[Record]) -> bool:
    """Each tool call answered, in the messages right behind it, and nothing answered that was not called.

    Records may be another behaviour's, of any shape: those that are no messages make an exchange unsound.
    """
    open_calls: set[Any] = set()
    for record in exchange:
        role = record.get("role")
        if not is_message(record):
            return False
        if role == "tool":
            if record.get("tool_call_id") not in open_calls:
                return False
            open_calls.discard(record.get("tool_call_id"))
        elif open_calls or role not in ("user", "assistant"):
            return False
        elif role == "assistant":
            open_calls = {call.get("id") for call in record.get("tool_calls") or ()}
    return not open_calls and exchange[-1].get("role") == "assistant"
