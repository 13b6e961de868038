"""Commands about the ledger: chain status, log, show, why, key. They read the files; no node need run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from weftos.cli.agents.talk import event_line
from weftos.cli.chain.audit_options import Address, Kind, Process, Since, Tool, Turn, Until, Words, selected
from weftos.cli.terminal.branches import Branch
from weftos.cli.terminal.options import AsJson, Data, client, group
from weftos.cli.terminal.output import Output, moment
from weftos.cli.terminal.styles import joined, styled
from weftos.json_object import Json
from weftos.paths import data_directory

chain = group("The ledger: read, explained, verified.")

Seq = Annotated[int, typer.Argument(metavar="SEQ", min=0, help="An entry's number.")]


@chain.command("status")
def status(data: Data = None, as_json: AsJson = False) -> None:
    """Show how far the ledger goes and what is signed."""
    from weftos.audit.auditor import Auditor

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        found = Auditor(data_directory(data), progress).summary()
    out.document(found)
    found["snapshot_time"] = moment(found.pop("snapshot_time_us"))
    out.table(("FIELD", "VALUE"), ((name.replace("_", " "), value) for name, value in found.items()))


@chain.command("log")
def log(
    pid: Process = None,
    address: Address = None,
    kind: Kind = None,
    tool: Tool = None,
    turn: Turn = None,
    since: Since = None,
    until: Until = None,
    text: Words = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="How many, the newest.")] = 50,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with each new one, until Ctrl-C.")
    ] = False,
    archive: Annotated[
        bool, typer.Option("--archive", help="Ask the running node's database: quicker over a long ledger.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest entries, read from the ledger's files: what chain verify vouches for.

    All filters that are given must hold. A name means all incarnations of a process, a PID one of them.
    """
    from weftos.audit.auditor import Auditor, gist
    from weftos.audit.follow import follow as follow_on

    out = Output(as_json)
    place = data_directory(data)
    selection = selected(pid, address, kind, tool, turn, since, until, text)
    if archive:
        if follow or selection != selected(pid=pid, kind=kind):
            raise typer.BadParameter("--archive goes with --pid, --kind and --limit alone")
        rows, source = _from_archive(place, pid, kind, limit)
        out.document({"rows": rows, "source": source})
    elif follow:
        with suppress(KeyboardInterrupt):
            for entry in follow_on(place, selection, limit):
                out.line_document(entry)
                out.line(f"{event_line(entry)}  {gist(entry)}")
        return
    else:
        with out.progress("reading the ledger") as progress:
            rows, source = Auditor(place, progress).newest(selection, limit), "journal"
        out.document({"rows": rows, "source": source})
    for row in rows:
        out.line(f"{event_line(row)}  {gist(row)}")


def _from_archive(place: Path, pid: str | None, kind: str | None, limit: int) -> tuple[list[Json], str]:
    """Asked of the running node: quick over a long ledger, and only as true as its database."""
    with client(place) as node:
        number = None if pid is None else int(pid) if pid.isdigit() else int(node.inspect(pid)["pid"])
        answer = node.log(pid=number, kind=kind, limit=limit)
        return answer["rows"], str(answer["source"])


@chain.command("show")
def show(seq: Seq, data: Data = None, as_json: AsJson = False) -> None:
    """Show one entry with its body."""
    from weftos.audit.auditor import Auditor, row

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        auditor = Auditor(data_directory(data), progress)
        record = auditor.entry(seq)
    entry = record.entry
    found = {
        **row(record),
        "commitment": entry.commitment.hex(),
        "previous": entry.previous.hex(),
        "leaf_hash": record.leaf_hash.hex(),
        "leaf": record.leaf.hex(),
        "salt": record.salt.hex() if record.salt is not None else None,
        "published": seq < auditor.published_size,
        "file": record.file,
        "offset": record.offset,
    }
    out.document(found)
    body = found.pop("body")
    found["time"] = moment(found.pop("time_us"))
    fields = [*found.items(), *((f"body.{name}", value) for name, value in (body or {}).items())]
    out.table(("FIELD", "VALUE"), fields)
    if record.erased:
        out.say("its body is gone; the entry and every proof of it stand")


@chain.command("why")
def why(seq: Seq, data: Data = None, as_json: AsJson = False) -> None:
    """Show what led to an entry: the path of causes, from the message it came from and who sent it."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.path import path_to, sender_of

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        path = path_to(Auditor(data_directory(data), progress), seq)
    out.document(path)
    if not as_json:
        out.tree(_path_tree(path))
    if sender := sender_of(path):
        out.line(sender)


def _path_tree(path: list[Json]) -> Branch:
    from weftos.audit.auditor import gist

    root: Branch | None = None
    branch: Branch | None = None
    for row in path:
        label = joined(
            styled(f"{row['seq']} ", "dim"),
            styled(row["kind"], "bold"),
            styled(f"  pid {row['pid']}  {gist(row)}"),
        )
        branch = Branch(label) if branch is None else branch.add(label)
        root = root or branch
    assert root is not None
    return root


@chain.command("key")
def key(
    all_keys: Annotated[
        bool,
        typer.Option("--all", help="All that it ever had, the first ones first: what a vkeys file holds."),
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print the node's verifier keys, to be kept where the node cannot change them."""
    from chain.keys.keys import load_pairs

    out = Output(as_json)
    pairs = load_pairs(data_directory(data) / "keys")
    rows = [{"ed25519": pair.ed25519.text, "ml_dsa_65": pair.mldsa.text} for pair in pairs]
    shown = pairs if all_keys else pairs[-1:]
    document = {"origin": pairs[0].ed25519.name, **rows[-1]}
    out.document({**document, "all": rows} if all_keys else document)
    out.say("".join(pair.text for pair in shown).rstrip("\n"))
