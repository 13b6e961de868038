"""The command that erases: chain erase. It asks the running node, which alone may change its files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.chain.ledger import chain
from weftos.cli.terminal.options import AsJson, Data, client
from weftos.cli.terminal.output import Output
from weftos.json_object import Fields
from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from weftos.client.client import Client

LOOK_S = 0.2
_SHOWN = 20


@chain.command("erase")
def erase(
    reason: Annotated[str, typer.Option(metavar="R", help="Why; the ledger keeps it, and who asked.")],
    seqs: Annotated[
        list[int] | None, typer.Argument(metavar="[SEQ]...", min=0, help="Entries by their numbers.")
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(metavar="P", min=1, help="All of a process: its entries, and its turns whole."),
    ] = None,
    session: Annotated[
        str, typer.Option(metavar="S", help="All of a session of the process that --of names.")
    ] = "",
    of: Annotated[
        str,
        typer.Option(metavar="PID", help="Whose session: a PID, a name, or an address, also of one gone."),
    ] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Erase what entries say, for good: from journal, ledger, archive, sessions and memory.

    The entries stay, and every proof with them. Waits until it is done; the node goes on by itself when this ends.
    """
    out = Output(as_json)
    with client(data) as node:
        answer = node.erasure.erase(reason, seqs=seqs or (), pid=pid, target=of, session=session)
        with out.waiting("erasing"):
            _wait(node, answer["seq"])
    out.document(answer)
    out.line(f"erased: {_entries(answer['entries'])}; entry {answer['seq']} says so")
    _say_more(out, answer)


def _wait(node: Client, seq: int) -> None:
    """Until nothing is left of it; why it does not go on, when it does not, goes to standard error."""
    told = ""
    while seq in (now := node.erasure.status())["erasing"]:
        if now["fault"] != told:
            told = now["fault"]
            typer.echo(safe_text(f"tried again: {told}") if told else "it goes on", err=True)
        time.sleep(LOOK_S)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _say_more(out: Output, answer: Fields) -> None:
    """What went with them, and what did not."""
    for address, session in answer["sessions"]:
        out.line(f"forgotten: session {session} of {address}")
    for ident in answer["documents"]:
        out.line(f"forgotten: document {ident}")
    for kind, count in sorted(answer["kept"].items()):
        out.line(f"kept: {count} of kind {kind}, which is never erased")
    if answer["left"]:
        out.line(f"not erased: {_entries(answer['left_count'])} of turns that had it, which may repeat it:")
        for seq, kind in answer["left"][:_SHOWN]:
            out.line(f"  {seq}  {kind}")
        if answer["left_count"] > _SHOWN:
            out.line(f"  and {answer['left_count'] - _SHOWN} more")
    for name, lines in answer["logs"]:
        held = "what tools and behaviours print" if lines < 0 else f"{lines} lines of the processes concerned"
        out.line(f"not erased: {name} holds {held}; delete it if they say it")
