"""Writes docs/machines.md from the tables in kernel/model: ``python -m tools.machine_docs``; a test tells when it is
stale."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from kernel.model.machines import call_states, turn_states
from kernel.model.machines.call_states import CALL_EVENTS, CALL_GUARDS, CALL_MEANINGS, CALL_TABLE
from kernel.model.machines.machine import By
from kernel.model.machines.turn_states import TURN_EVENTS, TURN_GUARDS, TURN_MEANINGS, TURN_TABLE
from kernel.model.states import PROCESS_TABLE, SLOT_TABLE

TARGET = Path(__file__).parent.parent / "docs" / "machines.md"

_INTRODUCTION = """\
# Machines

Made from the tables in `kernel/model/` by `python -m tools.machine_docs`; do not edit by hand.

Four things in the kernel go through states: a process, its slot, a turn and a call. The node walks exactly these
tables. For a process and a slot, what is not in the table cannot happen. Turns and calls are what the ledger says of
them: each event is an entry. There, what is not in the table changes nothing (it comes too late, or of an attempt that
is over), and an entry whose event no machine knows is refused: before it is written, and when it is read back.
"""
_HELD = "A state in which nothing leads elsewhere is the last one."


def render() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        f"## The process, one incarnation\n\n{_HELD}\n",
        _table(PROCESS_TABLE),
        "## The child slot\n",
        _table(SLOT_TABLE),
        _machine("turn", turn_states.__doc__, TURN_TABLE, TURN_EVENTS, TURN_MEANINGS, TURN_GUARDS),
        _machine("call", call_states.__doc__, CALL_TABLE, CALL_EVENTS, CALL_MEANINGS, CALL_GUARDS),
    ]
    return "\n".join(parts)


def _table(table: Mapping[Any, Mapping[Any, StrEnum]]) -> str:
    """A row for each state, a column for each event that there is."""
    events = list(dict.fromkeys(event for row in table.values() for event in row))
    head = [f"| state | {' | '.join(events)} |", f"|---|{'---|' * len(events)}"]
    rows = [
        f"| **{state}** | {' | '.join(row.get(event, '') for event in events)} |"
        for state, row in table.items()
    ]
    return "\n".join([*head, *rows, ""])


def _machine(
    name: str,
    said: str | None,
    table: Mapping[Any, Mapping[Any, StrEnum]],
    events: Mapping[str, Any],
    meanings: Mapping[Any, str],
    guards: Mapping[Any, str],
) -> str:
    """The table, then what its states and events mean, which entry each event is, and when it counts."""
    theory = (said or "").partition("\n\n")[2].strip().replace(":mod:", "").replace("``", "`")
    entries: dict[str, list[str]] = {}
    for kind, event in events.items():
        named = event.events.items() if isinstance(event, By) else [("", event)]
        for value, each in named:
            entries.setdefault(each, []).append(f"`{kind}` {value}".strip())
    rows = [f"| **{state}** | {meanings[state]} |" for state in table]
    told = [
        f"| {event} | {meanings[event]} | {', '.join(of)} | {guards.get(event, '')} |"
        for event, of in entries.items()
    ]
    return "\n".join(
        [f"## The {name}", "", theory, "", _table(table), "| state | meaning |", "|---|---|", *rows, "",
         "| event | meaning | entry | counts when |", "|---|---|---|---|", *told, ""]
    )  # fmt: skip


if __name__ == "__main__":
    TARGET.write_text(render())
