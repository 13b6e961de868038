"""One thing that is seen of a turn, as it is kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kernel.operations.turns.events import EventName
from kernel.values import size_of_text

SHOWN_CHARS = 1_000
"""Of arguments, results and reasons; the ledger has them whole."""
TEXT_CHARS = 64 * 1024
"""Of what a model said in one piece, and of a reply."""
RECORDED = -1
BESIDE_DATA_BYTES = 400
"""What an event takes beside its data, about."""
_NUMBER_BYTES = 8


class TurnEvent(NamedTuple):
    """``seq``: the entry that it was made of, :data:`RECORDED` of one that was made of a record of its own.
    ``step``: the ordinal of the call that it belongs to, empty for the turn as a whole. ``data``: as JSON has it.
    """

    name: str
    time_us: int
    seq: int
    step: str
    data: Mapping[str, Any]

    @property
    def size_bytes(self) -> int:
        return BESIDE_DATA_BYTES + _size(self.data.values())


def event(name: EventName, time_us: int, seq: int, step: str = "", **data: Any) -> TurnEvent:
    """One of them."""
    return TurnEvent(name, time_us, seq, step, data)


def _size(values: Iterable[Any]) -> int:
    size = 0
    for value in values:
        if isinstance(value, str):
            size += size_of_text(value)
        elif isinstance(value, (list, dict)):
            size += _size(value.values() if isinstance(value, dict) else value)
        else:
            size += _NUMBER_BYTES
    return size


def cut(text: str, most: int = SHOWN_CHARS, name: str = "text") -> dict[str, Any]:
    """``text`` under ``name``, the beginning where it is longer than ``most``; and then ``truncated``."""
    return {name: text} if len(text) <= most else {name: text[:most], "truncated": True}
