"""Commands about memory: what the node's processes have written down, and may find again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kernel.operations.memory import SearchMode
from weftos.cli.terminal.options import AsJson, Data, client, group
from weftos.cli.terminal.output import Output, moment
from weftos.errors import WeftosError
from weftos.json_object import Fields
from weftos.named_file import read_named

MAX_TEXT_BYTES = 256 * 2**10
_EXCERPT = 160

memory = group("Documents that agents remember and find again.")

DocumentId = Annotated[str, typer.Argument(metavar="ID", help="From weftos memory search.")]


@memory.command("add")
def add(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - or nothing: standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A UTF-8 file with the text.")] = None,
    title: Annotated[str, typer.Option(metavar="T", help="A title; the first line by default.")] = "",
    owner: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The process it belongs to; you by default.")
    ] = "",
    own: Annotated[
        bool, typer.Option("--own", help="For its owner and the processes below it, instead of for all.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Remember a text of at most 256 KiB."""
    if file is not None and text is not None:
        raise typer.BadParameter("give TEXT or --file, not both")
    if file is not None:
        whole, title = _bounded(read_named(file, MAX_TEXT_BYTES + 1), str(file)), title or file.name
    elif text is None or text == "-":
        whole = _bounded(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "standard input")
    else:
        whole = text
    out = Output(as_json)
    with client(data) as node:
        answer = node.memory.add(whole, title=title, scope="own" if own else "shared", owner=owner)
    out.document(answer)
    out.line(f"remembered as {answer['id']} ({answer['bytes']} bytes, {answer['scope']})")


def _bounded(content: bytes, name: str) -> str:
    """``content`` as text, when it is no more than a document may have. Raises WeftosError."""
    if len(content) > MAX_TEXT_BYTES:
        raise WeftosError(
            f"{name} is larger than {MAX_TEXT_BYTES} bytes: cut it into parts, each a document", "too_large"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WeftosError(f"{name} is not UTF-8 text (byte {error.start})", "invalid") from error


@memory.command("search")
def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words or a sentence to look for.")],
    k: Annotated[int, typer.Option("--k", min=1, max=50, help="How many at most.")] = 5,
    mode: Annotated[SearchMode, typer.Option(help="By words and vectors, or by one of them.")] = "hybrid",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Search all documents, best first."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.memory.search(" ".join(query), k=k, mode=mode)
    out.document(answer)
    if answer["results"]:
        out.table(("ID", "SCORE", "BY", "OWNER", "TITLE", "TEXT"), map(_hit_row, answer["results"]))
    else:
        out.say("nothing found")
    if answer["degraded"]:
        out.say(f"note: {answer['degraded']}")


def _hit_row(hit: Fields) -> list[object]:
    """One result in a line; BY says which rank each part of the search gave it."""
    parts = " ".join(f"{name} {part.get('rank', '')}" for name, part in sorted(hit["parts"].items()))
    text = " ".join(hit["text"].split())
    short = text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
    return [hit["id"], f"{hit['score']:.4f}", parts, _whose(hit), hit["title"], short]


def _whose(document: Fields) -> str:
    owner = str(document["owner"])
    return f"{owner}, shared" if document["scope"] == "shared" else owner


@memory.command("show")
def show(id: DocumentId, data: Data = None, as_json: AsJson = False) -> None:
    """Show one document whole."""
    out = Output(as_json)
    with client(data) as node:
        document = node.memory.show(id)
    out.document(document)
    out.line(f"{document['id']}  {document['title']}")
    seen = moment(document.get("time_us"))
    out.line(f"{_whose(document)}, {document['bytes']} bytes, ledger entry {document['seq']}, {seen}")
    out.say("")
    out.say(document["text"])


@memory.command("forget")
def forget(id: DocumentId, data: Data = None, as_json: AsJson = False) -> None:
    """Take a document out of memory."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.memory.forget(id)
    out.document(answer)
    out.line(f"forgotten: {answer['id']}")


@memory.command("stats")
def stats(data: Data = None, as_json: AsJson = False) -> None:
    """Show how much is remembered, by whom, and how the index stands."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.memory.stats()
    out.document(answer)
    out.say(f"{answer['documents']} documents, {answer['bytes']} bytes")
    if answer["owners"]:
        rows = ([row["owner"], row["documents"], row["bytes"]] for row in answer["owners"])
        out.table(("OWNER", "DOCUMENTS", "BYTES"), rows)
    out.say("")
    out.table(("INDEX", "VALUE"), sorted(answer["index"].items()))


@memory.command("reindex")
def reindex(data: Data = None, as_json: AsJson = False) -> None:
    """Build the index anew from the journal, in the background."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.memory.reindex()
    out.document(answer)
    out.say("the index is being built anew; weftos memory stats shows how it stands")
