"""Snapshots from before each slice had a format of its own: one map of all parts, with one number, 1 to 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.model.rows import as_list, as_number, as_rows, as_text

FORMER = (1, 2, 3)
_PARTS = {
    "format", "slots", "mail", "turns", "dead", "sessions", "pids", "pids_reserved", "boots", "tally", "documents",
    "outbox", "questions", "inbox", "erasing", "intents", "configured", "accepted", "traces",
}  # fmt: skip
_SINCE: Mapping[int, Mapping[str, Any]] = {
    2: {"intents": [], "configured": [], "accepted": []},
    3: {"traces": []},
}


def slices_of(number: int, parts: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """Format and rows of each slice in a snapshot of that number. Raises ValueError, TypeError."""
    for since, lacking in _SINCE.items():
        if number < since:
            parts = {**lacking, **parts}
    if set(parts) != _PARTS:
        raise ValueError("its parts are not those of a state")
    accepted = [as_number(int(as_text(seq))) for [seq] in as_rows(parts["accepted"])]
    calls = [[each[1], each[6]] for each in as_rows(parts["turns"])]
    return {
        "boots": (1, [parts["boots"], parts["configured"], accepted, parts["erasing"]]),
        "pids": (1, [parts["pids_reserved"], parts["pids"]]),
        "slots": (1 if number < 3 else 2, parts["slots"]),
        "traces": (1, parts["traces"]),
        "documents": (number, parts["documents"]),
        "mail": (1, parts["mail"]),
        "turns": (1 if number < 2 else 2, parts["turns"]),
        "calls": (1 if number < 2 else 2, [calls, as_list(parts["intents"])]),
        "crossings": (1, [parts["outbox"], parts["questions"], parts["inbox"]]),
        "dead": (1, parts["dead"]),
        "tally": (1, parts["tally"]),
        "sessions": (1, parts["sessions"]),
    }
