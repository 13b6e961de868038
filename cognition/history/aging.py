"""Results of tools that are some turns old, in one line each: what they were, not all that they said. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cognition.context import Record, cut_text

TURNS = 4
"""So many turns a result is shown whole."""
LINE_BYTES = 160


def aged(exchanges: Sequence[list[Record]]) -> list[list[Record]]:
    """All of them, in those older than :data:`TURNS` turns each long result in one line."""
    old = max(0, len(exchanges) - TURNS)
    return [
        [in_one_line(record) for record in exchange] if place < old else list(exchange)
        for place, exchange in enumerate(exchanges)
    ]


def in_one_line(record: Record) -> Record:
    """A result that is longer than a line, cut to its beginning with what it came to; anything else as it is."""
    if record.get("role") != "tool":
        return record
    text = str(record.get("content") or "")
    line = " ".join(text.split())
    if len(text.encode("utf-8", "replace")) <= LINE_BYTES and line == text:
        return record
    size = len(text.encode("utf-8", "replace"))
    return {
        **record,
        "content": f"{cut_text(line, LINE_BYTES)} [shortened: {size} bytes in all, some turns ago]",
    }
