"""Commands that speak with a process or listen to the node: send, chat, cancel, logs, events."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.terminal.options import AsJson, Command, Data, Looked, Target, client
from weftos.cli.terminal.output import Output, complain, moment
from weftos.errors import WeftosError
from weftos.json_object import Fields
from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from weftos.client.client import Client

WAIT_S = 300.0
SessionOption = Annotated[str, typer.Option("--session", metavar="S", help="Conversation it belongs to.")]


def send(
    target: Target,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the reply and print it.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait.")] = WAIT_S,
    session: SessionOption = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send a message.

    Once it is accepted it is on disk: it will be handled, or become a dead letter.
    """
    out = Output(as_json)
    said = sys.stdin.read() if text == "-" else text
    with client(data) as node, out.waiting(f"waiting for {target}"):
        answer = node.send(target, said, session=session, wait_s=timeout if wait else None)
    out.document(answer)
    if not wait:
        out.say(f"accepted as {answer['message']} for {answer['address']}")
        return
    out.say(str(answer.get("reply", "")))
    if answer.get("status") != "ok":
        complain(f"the turn ended as {answer.get('status')}: weftos inspect {target} says more")
        raise typer.Exit(1)


def chat(target: Target, session: SessionOption = "", data: Data = None, as_json: AsJson = False) -> None:
    """Talk with a process, its tokens as they come.

    One message a line. Ctrl-C cancels a turn, Ctrl-D ends the talk.
    """
    out = Output(as_json)
    talk = session or f"chat-{secrets.token_hex(4)}"
    failed = False
    with client(data) as node:
        if "@" not in target:
            node.inspect(target)
        for said in _lines(out):
            try:
                failed = not _turn(node, out, target, said, talk)
            except KeyboardInterrupt:
                _cancel_quietly(node, target)
                out.say("\ncancelled")
            except WeftosError as error:
                if error.code in ("not_running", "unavailable") or not sys.stdin.isatty():
                    raise
                complain(str(error))
    if failed and not sys.stdin.isatty():
        raise typer.Exit(1)


def _cancel_quietly(node: Client, target: str) -> None:
    """Cancel, unless the turn has ended by itself meanwhile."""
    try:
        node.cancel(target)
    except WeftosError as error:
        if error.code != "not_found":
            raise


def _lines(out: Output) -> Iterator[str]:
    prompt = "you> " if sys.stdin.isatty() and not out.as_json else ""
    while True:
        try:
            said = input(prompt)
        except EOFError:
            return
        if said.strip():
            yield said


def _turn(node: Client, out: Output, target: str, said: str, session: str) -> bool:
    """One message and everything that comes of it. True when it was answered."""
    streamed = ""
    status = "ended"
    for event in node.watch(target, said, session=session):
        out.line_document(event)
        kind = event.get("event")
        if kind == "delta" and not event.get("reset"):
            streamed += str(event.get("text", ""))
            out.write(str(event.get("text", "")))
        elif kind == "reply":
            status = str(event["status"])
            _closing(out, str(event["reply"]), streamed, status)
        else:
            broken = bool(streamed) and not streamed.endswith("\n")
            if note := _note(event):
                out.say(("\n" if broken else "") + note)
                streamed = ""
    return status == "ok"


def _closing(out: Output, reply: str, streamed: str, status: str) -> None:
    """The reply, unless its tokens have been printed already."""
    if streamed and streamed.strip().endswith(reply.strip()):
        out.write("" if streamed.endswith("\n") else "\n")
    else:
        out.say(("\n" if streamed else "") + reply)
    if status != "ok":
        out.say(f"[{status}]")


def _note(event: Fields) -> str:
    """A line for whatever is neither token nor reply; nothing for what a person need not see."""
    match event.get("event"):
        case "tool":
            return f"  [tool {safe_text(str(event.get('name')))}]"
        case "turn" if event.get("attempt", 1) > 1:
            return f"  [PID {event.get('pid')} goes on with the turn, attempt {event['attempt']}]"
        case "exit":
            return f"  [PID {event.get('pid')} ended: {event.get('reason')}]"
        case "diverged":
            return f"  [turn {event.get('turn')} diverged at call {event.get('ordinal')}: weftos divergences list]"
        case "dead":
            return f"  [dead: {event.get('why')}]"
        case "delta" if event.get("reset"):
            return "  [the answer begins anew]"
    return ""


def cancel(target: Target, data: Data = None, as_json: AsJson = False) -> None:
    """End the current turn of a process.

    The process lives on.
    """
    out = Output(as_json)
    with client(data) as node:
        answer = node.cancel(target)
    out.document(answer)
    out.say(f"the turn of {answer.get('address', target)} is cancelled")


def logs(
    target: Looked,
    limit: Annotated[
        int, typer.Option(metavar="K", min=1, max=10_000, help="How many lines, the newest.")
    ] = 200,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what a process logged."""
    out = Output(as_json)
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


def events(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with each new one.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest ledger entries, one a line."""
    out = Output(as_json)
    rows = []
    with client(data) as node:
        for row in node.events(follow=follow):
            if follow:
                out.line_document(row)
            else:
                rows.append(row)
            out.line(event_line(row))
    if not follow:
        out.document(rows)


def event_line(row: Fields) -> str:
    """One ledger entry in one line."""
    cause = row["cause"]
    because = f"<- {cause}" if cause >= 0 else ""
    where = f"{row['seq']:>7} {because:>10}  {moment(row['time_us'])}  pid {row['pid']:<6}"
    return f"{where} {row['kind']:<17} {row['subject']}".rstrip()


COMMANDS: tuple[Command, ...] = (send, chat, cancel, logs, events)
