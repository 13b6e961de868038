"""Commands that speak with a process or listen to the node: send, chat, cancel, logs, events."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.agents.settings import read_config
from weftos.cli.terminal.attached import attached
from weftos.cli.terminal.options import AsJson, Command, Data, Target, Why, client
from weftos.cli.terminal.output import Output, complain, moment, show
from weftos.cli.terminal.styles import styled
from weftos.errors import WeftosError
from weftos.json_object import Fields
from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from kernel.operations.turns.events import TurnEventRow
    from weftos.client.client import Client

WAIT_S = 300.0
_SHOWN_CHARS = 100
ChannelOption = Annotated[str | None, typer.Option("--channel", metavar="NAME", help="The way it came.")]
ChatOption = Annotated[
    str | None, typer.Option("--chat", metavar="ID", help="The conversation in that channel.")
]
UserOption = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Who wrote it, as the channel names them.")
]
SessionOption = Annotated[str, typer.Option("--session", metavar="S", help="Conversation it belongs to.")]


def send(
    target: Target,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the reply and print it.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait.")] = WAIT_S,
    session: SessionOption = "",
    key: Annotated[
        str,
        typer.Option("--key", metavar="KEY", help="Sent again with it within a day, it is not sent twice."),
    ] = "",
    expires: Annotated[
        float | None,
        typer.Option("--expires", metavar="SECONDS", min=0.001, help="A dead letter, unless begun by then."),
    ] = None,
    channel: ChannelOption = None,
    chat: ChatOption = None,
    user: UserOption = None,
    ident: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="What the channel calls it: sent again, it is answered once."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="What it asks of the answer: provider, model, temperature, top_p, top_k, max_tokens; once for each.",
        ),
    ] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "--attach", metavar="FILE", help="A file that goes with it: what it is, and short texts."
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send a message.

    Once it is accepted it is on disk: it will be handled, or become a dead letter.
    """
    out = Output(as_json)
    said = sys.stdin.read() if text == "-" else text
    with client(data) as node, out.waiting(f"waiting for {target}"):
        answer = node.send(
            target,
            said,
            session=session,
            wait_s=timeout if wait else None,
            key=key,
            expires_s=expires,
            channel=channel,
            chat=chat,
            user=user,
            id=ident,
            options=read_config(option, "'--option'"),
            attachments=attached(attach),
        )
    out.document(answer)
    if answer.get("again") and "reply" not in answer:
        ended = f", and ended as {answer['status']}" if answer.get("status") else ""
        out.say(f"not sent again: accepted earlier as {answer['message']} for {answer['address']}{ended}")
        return
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
                failed = speak(node, out, target, said, talk).status != "ok"
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
    if prompt:
        show(styled("one message a line; Ctrl-C cancels a turn, Ctrl-D ends the talk"), sys.stderr)
    while True:
        try:
            said = input(prompt)
        except EOFError:
            return
        if said.strip():
            yield said


@dataclass(slots=True)
class Said:
    """What came of a message: the entry that accepted it, how its turn ended (``ok`` when it was answered), and which
    that was, empty when there was none."""

    accepted: int = -1
    status: str = "ended"
    turn: str = ""


def speak(node: Client, out: Output, target: str, text: str, session: str, said: Said | None = None) -> Said:
    """One message, and everything that comes of it as it comes. ``said`` is told at once what is known so far."""
    streamed, said = "", said or Said()
    for event in node.watch(target, text, session=session):
        out.line_document(event)
        kind = event.get("event")
        if kind == "accepted":
            said.accepted = int(event.get("seq", -1))
        if kind == "delta" and not event.get("reset"):
            streamed += str(event.get("text", ""))
            out.write(str(event.get("text", "")))
        elif kind == "reply":
            said.status, said.turn = str(event["status"]), str(event.get("turn", ""))
            _closing(out, str(event["reply"]), streamed, said.status)
        else:
            broken = bool(streamed) and not streamed.endswith("\n")
            if note := _note(event):
                out.say(("\n" if broken else "") + note)
                streamed = ""
    return said


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


def cancel(
    target: Target,
    message: Annotated[
        str, typer.Option(metavar="ID", help="The message that is meant, also one that waits.")
    ] = "",
    why: Why = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """End what a process handles, or is about to.

    What this has asked of others ends with it; the process lives on.
    """
    out = Output(as_json)
    with client(data) as node:
        answer = node.cancel(target, message=message, why=why)
    out.document(answer)
    others = f", and {answer['others']} that it had led to" if answer["others"] else ""
    begun = f"turn {answer['turn']} of {answer['address']}" if answer["turn"] else (
        f"message {answer['message']} to {answer['address']}, which had not begun"
    )  # fmt: skip
    out.say(f"cancelled {begun}{others}")


def events(
    turn: Annotated[
        str, typer.Argument(metavar="[TURN]", help="What is seen of this turn, until it has ended: t12.")
    ] = "",
    start: Annotated[
        int | None, typer.Option("--from", metavar="N", min=0, help="Of TURN: the events from number N on.")
    ] = None,
    follow: Annotated[
        bool | None,
        typer.Option("-f/-F", "--follow/--no-follow", help="Go on with each new one; of TURN as a rule."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest ledger entries, one a line, or what is seen of a turn."""
    out = Output(as_json)
    if not turn and start is not None:
        raise typer.BadParameter("counts the events of a turn: name the TURN", param_hint="'--from'")
    rows = []
    with client(data) as node:
        if turn:
            for event in node.turns.events(turn, start or 0, follow is not False):
                out.line_document(event)
                out.line(turn_event_line(event))
            return
        for row in node.events(follow=bool(follow)):
            if follow:
                out.line_document(row)
            else:
                rows.append(row)
            out.line(event_line(row))
    if not follow:
        out.document(rows)


def turn_event_line(event: TurnEventRow) -> str:
    """One event of a turn in one line."""
    what = "  ".join(f"{name}={_short(value)}" for name, value in event["data"].items())
    where = f"{event['offset']:>5}  {moment(event['time_us'])}  {event['step']:<5}"
    return f"{where} {event['event']:<21} {what}".rstrip()


def _short(value: object) -> str:
    text = safe_text(value if isinstance(value, str) else json.dumps(value)).replace("\n", "\\n")
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def event_line(row: Fields) -> str:
    """One ledger entry in one line."""
    cause = row["cause"]
    because = f"<- {cause}" if cause >= 0 else ""
    where = f"{row['seq']:>7} {because:>10}  {moment(row['time_us'])}  pid {row['pid']:<6}"
    return f"{where} {row['kind']:<17} {row['subject']}".rstrip()


COMMANDS: tuple[Command, ...] = (send, chat, cancel, events)
