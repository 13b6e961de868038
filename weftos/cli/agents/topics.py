"""Commands that say something to many: publish, broadcast, topics."""

from __future__ import annotations

from typing import Annotated

import typer

from kernel.operations.messages import Overflow
from weftos.cli.agents.talk import SessionOption
from weftos.cli.terminal.options import AsJson, Command, Data, Target, client, group, listed
from weftos.cli.terminal.output import Output
from weftos.json_object import Fields

topics = group("What is published, and who subscribes to it.")

Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="A topic, TOPIC.* for all below it, or '*'.")]


def publish(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Words with dots, such as orders.new.")],
    text: Text,
    session: SessionOption = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to all subscribers of a topic."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.topics.publish(topic, text, session=session)
    out.document(answer)
    out.say(_said(answer))


def broadcast(
    target: Target, text: Text, session: SessionOption = "", data: Data = None, as_json: AsJson = False
) -> None:
    """Send a message to every process below one."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.broadcast(target, text, session=session)
    out.document(answer)
    out.say(_said(answer))


def _said(answer: Fields) -> str:
    """How many got it, and what became of the others."""
    others = {"dead": "dead letters among them", "dropped": "older ones dropped", "left_out": "left out"}
    rest = "".join(f", {answer[name]} {words}" for name, words in others.items() if answer[name])
    return f"accepted for {answer['accepted']} processes{rest}"


@topics.command("list")
def list_topics(data: Data = None, as_json: AsJson = False) -> None:
    """List subscriptions."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.topics.list()
    fields = ("address", "pattern", "overflow", "seq")
    columns = [field.upper() for field in fields]
    listed(out, rows, columns, lambda row: [row[field] for field in fields], "no subscriptions", keys=2)


@topics.command("subscribe")
def subscribe(
    target: Target,
    pattern: Pattern,
    overflow: Annotated[
        Overflow,
        typer.Option(
            "--overflow",
            help="When its mailbox is full: refuse the publication, for all; make a dead letter of it; or, below "
            "telemetry alone, drop the oldest that waits.",
        ),
    ] = "back_pressure",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Have what is published go to a process."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.topics.subscribe(target, pattern, overflow=overflow)
    out.document(answer)
    out.say(f"{answer['address']} gets what is published to {answer['pattern']}")


@topics.command("unsubscribe")
def unsubscribe(target: Target, pattern: Pattern, data: Data = None, as_json: AsJson = False) -> None:
    """Take a subscription back."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.topics.unsubscribe(target, pattern)
    out.document(answer)
    out.say(f"{answer['address']} gets nothing of {answer['pattern']} any more")


COMMANDS: tuple[Command, ...] = (publish, broadcast)
