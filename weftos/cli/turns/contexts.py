"""weftos context: what a model was shown. It reads the files; no node need run."""

from __future__ import annotations

from typing import Annotated

import typer

from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output, draws
from weftos.json_object import Json
from weftos.paths import data_directory

_BAR_CELLS = 30
_HASH_CHARS = 12


def context(
    turn: Annotated[
        str,
        typer.Argument(
            metavar="TURN", help="The turn, as trace shows it: t12; without it the newest that asked a model."
        ),
    ] = "",
    question: Annotated[
        int,
        typer.Argument(metavar="ROUND", min=0, help="Which of its questions, from 1 on; 0 for the newest."),
    ] = 0,
    text: Annotated[bool, typer.Option("--text", help="Show the text of each section too.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model was shown with a question of a turn: its sections, where each comes from, how large it is."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.context.window import shown_window

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        found = shown_window(Auditor(data_directory(data), progress), turn, question)
    out.document(found)
    if not as_json:
        _show(out, found, text)


def _show(out: Output, found: Json, text: bool) -> None:
    out.line(
        f"turn {found['turn']}, question {found['question']} of {found['of']} (entry {found['seq']}): "
        f"{found.get('provider') or ''} {found.get('model') or ''}".rstrip()
    )
    sections = found["sections"]
    most = max((row["tokens"] for row in sections), default=0) or 1
    block = "█" if draws() else "#"
    rows = [
        (
            row["name"],
            row["tokens"],
            block * (row["tokens"] * _BAR_CELLS // most) or ("." if row["tokens"] else ""),
            row["source"],
            row["sha256"][:_HASH_CHARS],
        )
        for row in sections
    ]
    out.table(("section", "tokens", "", "source", "sha256"), rows)
    if found["fault"]:
        out.line(f"the text is not to be had: {found['fault']}")
    elif text:
        for row in sections:
            out.line(f"--- {row['name']} ({row['source']})")
            for line in (row["text"] or "").splitlines():
                out.line(line)
    if sections:
        out.line(f"about {found['tokens']} tokens, as the behaviour estimates them")
