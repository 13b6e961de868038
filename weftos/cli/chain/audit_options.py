"""The filters of log, export and stats as options of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weftos.audit.select import Selection

Process = Annotated[str | None, typer.Option("--pid", metavar="P", help="By this process: a PID, or a name.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="A", help="By or about the process of this address or name, also what was sent to it."
    ),
]
Kind = Annotated[
    str | None, typer.Option(metavar="K", help="Of this kind (tool.intent), or all of a noun (tool).")
]
Tool = Annotated[str | None, typer.Option(metavar="T", help="About calls of this tool.")]
Turn = Annotated[str | None, typer.Option(metavar="ID", help="Of this turn.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="From then on: 2026-05-01T12:00 (UTC), or 10m, 2h, 3d ago.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")]
Words = Annotated[
    str | None, typer.Option("--text", metavar="TEXT", help="With this text somewhere in the body.")
]


def selected(
    pid: str | None = None,
    address: str | None = None,
    kind: str | None = None,
    tool: str | None = None,
    turn: str | None = None,
    since: str | None = None,
    until: str | None = None,
    text: str | None = None,
) -> Selection:
    """The selection that these options make. Raises WeftosError for a time that is none."""
    from datetime import UTC, datetime

    from weftos.audit.select import Selection, parse_time

    now = datetime.now(UTC)
    return Selection(
        process=pid,
        address=address,
        kind=kind,
        tool=tool,
        turn=turn,
        since_us=None if since is None else parse_time(since, now),
        until_us=None if until is None else parse_time(until, now),
        text=text,
    )
