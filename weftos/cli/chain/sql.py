"""Commands about the archive, which only the running node can open: chain sql, chain rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.chain.ledger import chain
from weftos.cli.terminal.options import AsJson, Data, client
from weftos.cli.terminal.output import Output
from weftos.errors import WeftosError
from weftos.paths import data_directory
from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from kernel.operations.archive import ArchiveState
    from weftos.client.client import Client

LOOK_S = 0.2


@chain.command("sql")
def sql(
    statement: Annotated[str, typer.Argument(metavar="SELECT", help="One statement that reads.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Rows at most.")] = 100,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ask the running node's archive in SQL: its table of entries, and views over it.

    Views: tool_calls, processes, denials, doubts, model_calls, costs; DESCRIBE shows the columns of each.
    """
    out = Output(as_json)
    with client(data) as node, out.waiting("asking the archive"):
        answer = node.archive.sql(statement, limit=limit)
    out.document(answer)
    out.table([name for name, _ in answer["columns"]], answer["rows"], keys=0)
    if answer["cut"] and not as_json:
        typer.echo(safe_text(f"note: {answer['cut']}"), err=True)


@chain.command("rebuild")
def rebuild(data: Data = None, as_json: AsJson = False) -> None:
    """Throw the running node's archive away, and have it built anew from the ledger.

    The memory's vectors are made anew too. Waits until it is done; the node goes on by itself when this ends.
    """
    out = Output(as_json)
    place = data_directory(data)
    try:
        with client(place) as node, out.progress("building the archive") as progress:
            size = node.archive.rebuild()["size"]
            answer = _wait(node, size, progress)
    except WeftosError as error:
        if error.code != "not_running":
            raise
        raise WeftosError(
            f"no node runs on {place}, and none is needed: its next start brings the archive up to date, and builds a "
            f"new one where there is none (remove {place / 'archive'} to have that)",
            error.code,
        ) from error
    out.document(answer)
    out.line(f"the archive is built: {answer['entries']} entries")


def _wait(node: Client, size: int, progress: Callable[[int, int], None]) -> ArchiveState:
    """Until ``size`` entries are loaded; why it does not go on, when it does not, goes to standard error."""
    told = None
    while (now := node.archive.status())["entries"] < size:
        progress(now["entries"], size)
        if now["fault"] != told:
            told = now["fault"]
            typer.echo(safe_text(f"tried again: {told}") if told else "it goes on", err=True)
        time.sleep(LOOK_S)
    return now
