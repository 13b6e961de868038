"""Commands that look into one process: what it logged, and where its tasks stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.terminal.options import AsJson, Command, Data, Looked, client
from weftos.cli.terminal.output import Output
from weftos.json_object import Fields

if TYPE_CHECKING:
    from kernel.operations.processes import ProcessStacks


def logs(
    target: Looked,
    limit: Annotated[
        int, typer.Option(metavar="K", min=1, max=10_000, help="How many lines, the newest.")
    ] = 200,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with each new one.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what a process logged."""
    out = Output(as_json)
    if follow:
        with client(data) as node:
            for row in node.follow(target, limit=limit):
                out.line_document(row)
                out.line(_log_line(row))
        return
    with client(data) as node:
        rows = node.logs(target, limit=limit)
    out.document(rows)
    for row in rows:
        out.line(_log_line(row))


def _log_line(row: Fields) -> str:
    """When, how bad, what; then whatever else the line holds."""
    known = ("time", "level", "event")
    rest = " ".join(f"{name}={value}" for name, value in row.items() if name not in known)
    return "  ".join(str(part) for part in (*(row.get(name, "") for name in known), rest) if part)


def stack(target: Looked, data: Data = None, as_json: AsJson = False) -> None:
    """Show where the tasks of a process stand just now, never the value of a variable.

    Where its cell does not answer, who holds the cell, and where the cell's threads stand.
    """
    out = Output(as_json)
    with client(data) as node:
        found = node.stack(target)
    out.document(found)
    out.say(_stands(found))
    for one in found["stacks"]:
        out.say(one["name"])
        for call in one["calls"]:
            out.say(f"  {call['file']}:{call['line']} in {call['function']}")
            if call["source"]:
                out.say(f"    {call['source']}")
    if found["more"]:
        out.say(f"and {found['more']} more")


def _stands(found: ProcessStacks) -> str:
    who = f"{found['address']}, PID {found['pid']}, in cell {found['cell']}"
    if not found["stuck"]:
        count = len(found["stacks"]) + found["more"]
        return f"{who}: {count} task{'' if count == 1 else 's'}"
    holder = f"PID {found['running']} holds it" if found["running"] else "who holds it is not known"
    shown = "its threads" if found["stacks"] else "nothing is known of its threads"
    return f"{who}: the loop of the cell is stuck, {holder}; {shown}"


COMMANDS: tuple[Command, ...] = (logs, stack)
