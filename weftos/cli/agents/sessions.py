"""weftos sessions: conversations that there are, as files, and looked through. Export and search read the files of the
node, which need not run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weftos.cli.terminal.new_file import new_file
from weftos.cli.terminal.options import AsJson, Data, Target, client, group, listed
from weftos.cli.terminal.output import Output, moment
from weftos.errors import WeftosError
from weftos.json_object import Fields, Json
from weftos.paths import data_directory

sessions = group("Conversations of processes, those of chats with their processes.")
REQUEST_BYTES = 900_000
_MOST_FOUND = 50

OfProcess = Annotated[
    str, typer.Argument(metavar="PROCESS", help="Its PID, name or address; it may be gone.")
]
SessionName = Annotated[str, typer.Option("--session", metavar="S", help="The conversation, main as a rule.")]


OfAgent = Annotated[str, typer.Argument(metavar="SESSION", help="CHANNEL:CHAT, or another of its names.")]


@sessions.command("export")
def export(
    process: OfProcess,
    session: SessionName = "main",
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; else to the screen.")
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write a conversation as lines of JSON, one event each: all that the ledger has of it."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.lines.transcripts import transcripts

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        found = transcripts(Auditor(data_directory(data), progress), process, session)
    if not found:
        raise WeftosError(
            f"{process} has no session {session}: weftos sessions search finds them", "not_found"
        )
    if len(found) > 1:
        names = ", ".join(one.address for one in found[:5])
        raise WeftosError(f"{process} may be any of {names}: give the address", "invalid")
    events = list(found[0].lines())
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in events)
    if file is None:
        out.document(events)
        for line in () if as_json else lines:
            typer.echo(line, nl=False)
        return
    with new_file(file, force=False) as made:
        made.writelines(line.encode() for line in lines)
    out.document({"file": str(file), "events": len(found[0].events)})
    out.say(f"{len(found[0].events)} events of {found[0].address} {found[0].session} are in {file}")


@sessions.command("import")
def take_over(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Lines of JSON, as export writes them.")],
    target: Target,
    session: Annotated[
        str, typer.Option("--session", metavar="S", help="What it is to be called there.")
    ] = "main",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have a process remember the messages and replies of a file, in a session that it does not have yet."""
    from weftos.audit.lines.transcripts import read_exchanges

    out = Output(as_json)
    try:
        with file.open("rb") as opened:
            exchanges = read_exchanges(opened)
    except OSError as error:
        raise WeftosError(f"{file} cannot be read: {error.strerror}", "invalid") from error
    if not exchanges:
        raise WeftosError(f"{file} has no message with a reply", "invalid")
    chosen: list[list[str]] = []
    size = 0
    for one in reversed(exchanges):
        size += len(json.dumps([one.message, one.reply]))
        if size > REQUEST_BYTES or len(chosen) == 1_000:
            break
        chosen.insert(0, [one.message, one.reply])
    if not chosen:
        raise WeftosError(f"the newest exchange in {file} is longer than {REQUEST_BYTES} bytes", "too_large")
    with client(data) as node:
        answer = node.transcripts.take_over(target, session, chosen)
    older = len(exchanges) - answer["exchanges"]
    out.document(answer)
    left = f", {older} older ones left out" if older else ""
    out.say(f"{answer['address']} remembers {answer['exchanges']} exchanges as {answer['session']}{left}")


@sessions.command("search")
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORD...", help="All of them are in one message or reply.")
    ],
    process: Annotated[str, typer.Option("--of", metavar="PROCESS", help="Of this one alone.")] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Find messages and replies by words, the newest 50."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.lines.transcripts import found_in, transcripts

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        held = transcripts(Auditor(data_directory(data), progress), process)
    rows = sorted(found_in(held, words), key=lambda row: int(row["time_us"]))[-_MOST_FOUND:]
    columns = ("TIME", "PROCESS", "SESSION", "TURN", "WHAT", "TEXT")
    listed(out, rows, columns, _cells, "nothing has been said with these words")


def _cells(row: Json) -> tuple[object, ...]:
    names = ("process", "session", "turn", "event", "text")
    return moment(row["time_us"]), *(row[name] for name in names)


@sessions.command("list")
def list_sessions(target: Target, data: Data = None, as_json: AsJson = False) -> None:
    """List the sessions of an agent."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.sessions.list(target)
    fields = ("session", "state", "turn", "waiting", "records", "bytes", "model", "address")
    columns = [field.upper() for field in fields]
    none = "no sessions: nothing that was said to it is kept"
    listed(out, rows, columns, lambda row: [row[field] for field in fields], none)


@sessions.command("show")
def show_session(
    target: Target,
    session: OfAgent,
    limit: Annotated[int, typer.Option(metavar="N", min=0, max=1_000, help="So many records at most.")] = 50,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show one: what is kept of it, and the model that its chat prefers."""
    out = Output(as_json)
    with client(data) as node:
        shown = node.sessions.show(target, session, limit=limit)
    out.document(shown)
    out.say(f"session {shown['session']} of {shown['address']}, {shown['state']}")
    out.say(f"answered by {shown['model'] or 'the model that is configured'}")
    out.say(f"{shown['records']} records, {shown['bytes']} bytes; the newest {len(shown['shown'])}:")
    for record in shown["shown"]:
        out.say(_line(record))


@sessions.command("delete")
def delete_session(target: Target, session: OfAgent, data: Data = None, as_json: AsJson = False) -> None:
    """Forget one. The ledger keeps what it has of it: weftos erase takes that away."""
    out = Output(as_json)
    with client(data) as node:
        done = node.sessions.delete(target, session)
    out.document(done)
    gone = ", and its process is gone" if done["removed"] else ""
    out.say(f"{done['address']} has forgotten session {done['session']} ({done['records']} records){gone}")


@sessions.command("undo")
def undo_summary(target: Target, session: OfAgent, data: Data = None, as_json: AsJson = False) -> None:
    """Undo the newest summary of one: what it is of is shown to the model again, as far as it is kept."""
    out = Output(as_json)
    with client(data) as node:
        done = node.sessions.undo(target, session)
    out.document(done)
    out.say(
        f"the summary of {done['records']} records of {done['address']} {done['session']} is undone; what it is of is "
        "shown again, as far as it is kept and there is room"
    )


def _line(record: Fields) -> str:
    content = record.get("content")
    calls = record.get("tool_calls")
    said = (
        content if isinstance(content, str) and content else json.dumps(calls or record, ensure_ascii=False)
    )
    return f"{record.get('role', 'record')}: {said}"
