"""weftos trajectories and rate: what turns came to, and what a person says of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weftos.cli.terminal.new_file import new_file
from weftos.cli.terminal.options import AsJson, Command, Data, Target, client, listed
from weftos.cli.terminal.output import Output, duration, moment
from weftos.json_object import Json
from weftos.paths import data_directory

if TYPE_CHECKING:
    from kernel.operations.turns.trajectories import TrajectoryRow
    from weftos.client.client import Client

_PAGE = 500
Force = Annotated[bool, typer.Option("--force", help="Replace a file of that name.")]
_COLUMNS = (
    "TURN",
    "ENDED",
    "TOOK",
    "OUTCOME",
    "TASK",
    "SCORE",
    "THUMB",
    "TOKENS",
    "COST",
    "CALLS",
    "MODEL",
    "SESSION",
)


def trajectories(
    target: Target,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="So many, the newest.")] = 50,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all as lines of JSON, with what was said and is not erased."
        ),
    ] = None,
    force: Force = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List what turns of an agent and its chats came to: outcome, scores, tokens, cost. Nothing is copied for it."""
    out = Output(as_json)
    if export is not None:
        _write(out, export, force, target, data)
        return
    with client(data) as node:
        rows = node.trajectories.list(target, limit=limit)
    listed(out, rows, _COLUMNS, _cells, "no turn of it has ended that is kept")


def _cells(row: TrajectoryRow) -> tuple[object, ...]:
    from kernel.operations.rights.money import in_units

    cost, overall = row["cost_millionths"], row["overall"]
    return (
        row["turn"],
        moment(row["ended_us"]),
        duration(row["took_us"] / 1e6),
        row["outcome"],
        row["task_type"],
        "" if overall is None else f"{overall:.2f}",
        row["thumb"],
        row["input_tokens"] + row["output_tokens"],
        "" if cost is None else in_units(cost),
        f"{row['tool_calls'] - row['failed_calls']}/{row['tool_calls']}",
        f"{row['provider']} {row['model']}".strip(),
        row["session"],
    )


def _write(out: Output, file: Path, force: bool, target: str, data: Path | None) -> None:
    from weftos.audit.auditor import Auditor
    from weftos.audit.lines.trajectories import with_texts

    with client(data) as node:
        rows = list(_all(node, target))
    with out.progress("reading the ledger") as progress:
        lines = with_texts(Auditor(data_directory(data), progress), rows)
    with new_file(file, force=force) as made:
        made.writelines((json.dumps(line, ensure_ascii=False) + "\n").encode() for line in lines)
    out.document({"file": str(file), "trajectories": len(lines)})
    out.say(f"{len(lines)} trajectories are in {file}")


def _all(node: Client, target: str) -> Iterator[TrajectoryRow]:
    """All that there are, the newest page first."""
    before = 0
    while True:
        page = node.trajectories.list(target, limit=_PAGE, before=before)
        yield from reversed(page)
        if len(page) < _PAGE:
            return
        before = page[0]["response"]


def rate(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="A turn that has ended: t12.")],
    thumb: Annotated[Literal["up", "down"], typer.Argument(metavar="up|down", help="How it went.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="What is to be said of it, 500 characters.")] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say how a turn went. The newest word counts in its score; all are on record."""
    out = Output(as_json)
    with client(data) as node:
        done = node.trajectories.rate(turn, thumb, why=why)
    document: Json = {**done}
    out.document(document)
    counts = "" if done["overall"] is None else f", its score is {done['overall']:.2f} with that"
    before = f", no more {done['before']}" if done["before"] not in ("", thumb) else ""
    out.say(f"turn {turn} is rated {thumb}{before}{counts} (entry {done['seq']})")


COMMANDS: tuple[Command, ...] = (trajectories, rate)
