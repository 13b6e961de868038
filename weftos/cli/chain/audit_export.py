"""chain export: entries as a file for somebody else, to be read (jsonl) or to be verified (bundle)."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from weftos.cli.chain.audit_options import Address, Kind, Process, Since, Tool, Turn, Until, Words, selected
from weftos.cli.chain.ledger import chain
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output
from weftos.json_object import Json
from weftos.paths import data_directory

if TYPE_CHECKING:
    from weftos.audit.auditor import Auditor
    from weftos.audit.select import Selection


class Format(StrEnum):
    """What the file is."""

    JSONL = "jsonl"
    BUNDLE = "bundle"


@chain.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The same, as an option.")
    ] = None,
    format: Annotated[
        Format,
        typer.Option(
            help="jsonl: a row a line, to be read. bundle: to be verified, without the node's directory."
        ),
    ] = Format.JSONL,
    first: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", min=0, help="From this entry on.")
    ] = None,
    last: Annotated[int | None, typer.Option("--to", metavar="SEQ", min=0, help="Up to this entry.")] = None,
    pid: Process = None,
    address: Address = None,
    kind: Kind = None,
    tool: Tool = None,
    turn: Turn = None,
    since: Since = None,
    until: Until = None,
    text: Words = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write entries to a file: all of them, or those that every given filter selects.

    A bundle of all is verified as the ledger is, one of some by the proofs along: weftos chain verify --bundle FILE.
    """
    from dataclasses import replace

    from weftos.audit.auditor import Auditor
    from weftos.cli.terminal.new_file import new_file

    target = file or output
    if target is None or (file is not None and output is not None):
        raise typer.BadParameter("give one FILE, or -o FILE")
    out = Output(as_json)
    chosen = selected(pid, address, kind, tool, turn, since, until, text)
    selection = replace(chosen, first=first, last=last)
    with out.progress("exporting") as progress, new_file(target, force=force) as written:
        auditor = Auditor(data_directory(data), progress)
        done = _WRITERS[format](auditor, selection, written)
    out.document({"file": str(target), "format": format.value, **done})
    out.line(f"{target}: {done['entries']} entries")


def _write_rows(auditor: Auditor, selection: Selection, target: BinaryIO) -> Json:
    from weftos.audit.auditor import row

    entries = 0
    for record in auditor.select(selection):
        target.write(json.dumps(row(record), separators=(",", ":")).encode() + b"\n")
        entries += 1
    return {"entries": entries}


def _write_bundle(auditor: Auditor, selection: Selection, target: BinaryIO) -> Json:
    from weftos.audit.bundle import write_selected

    return write_selected(auditor, selection, target)


_WRITERS: dict[Format, Callable[[Auditor, Selection, BinaryIO], Json]] = {
    Format.JSONL: _write_rows,
    Format.BUNDLE: _write_bundle,
}
