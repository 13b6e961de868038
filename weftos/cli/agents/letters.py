"""Commands about what waits for a person: dead letters, and tool calls in doubt."""

from __future__ import annotations

from typing import Annotated

import typer

from kernel.operations.decisions import Resolution
from weftos.cli.terminal.options import AsJson, Data, chosen, client, group, listed
from weftos.cli.terminal.output import Output, moment

deadletters = group("Messages that could not be delivered.")
doubts = group("Tool calls with unknown effect.")

LetterId = Annotated[str, typer.Argument(metavar="ID", help="From weftos deadletters list.")]
DoubtId = Annotated[str, typer.Argument(metavar="ID", help="From weftos doubts list.")]


@deadletters.command("list")
def list_letters(data: Data = None, as_json: AsJson = False) -> None:
    """List dead letters, with the beginning of each text."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.deadletters()
    fields = ("id", "to", "sender", "why", "text")
    listed(
        out,
        rows,
        ("TIME", *(field.upper() for field in fields)),
        lambda row: [moment(row.get("time_us")), *(row.get(field) for field in fields)],
        "no dead letters",
        keys=3,
    )


@deadletters.command("show")
def show_letter(id: LetterId, data: Data = None, as_json: AsJson = False) -> None:
    """Show one dead letter whole."""
    out = Output(as_json)
    with client(data) as node:
        letter = node.deadletter(id)
    out.document(letter)
    out.table(("FIELD", "VALUE"), letter.items())


@deadletters.command("replay")
def replay_letter(id: LetterId, data: Data = None, as_json: AsJson = False) -> None:
    """Send a dead letter again, as a new message."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.replay(id)
    out.document(answer)
    out.say(f"replayed {id}" + f" as {answer['message']}")


@doubts.command("list")
def list_doubts(data: Data = None, as_json: AsJson = False) -> None:
    """List tool calls in doubt, with the beginning of what each was asked."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.doubts.list()
    fields = [field for field in rows[0] if field != "effect_id"] if rows else []  # show has it
    columns = [field.upper() for field in fields]
    listed(out, rows, columns, lambda row: [row.get(field) for field in fields], "nothing in doubt")


@doubts.command("show")
def show_doubt(id: DoubtId, data: Data = None, as_json: AsJson = False) -> None:
    """Show one tool call in doubt whole."""
    out = Output(as_json)
    with client(data) as node:
        doubt = node.doubts.show(id)
    out.document(doubt)
    out.table(("FIELD", "VALUE"), doubt.items())


@doubts.command("resolve")
def resolve_doubt(
    id: DoubtId,
    retry: Annotated[bool, typer.Option("--retry", help="Do it now, perhaps a second time.")] = False,
    done: Annotated[bool, typer.Option("--done", help="It did happen: the turn goes on.")] = False,
    lost: Annotated[bool, typer.Option("--lost", help="It did not happen: tell the process so.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Decide a tool call in doubt."""
    choices: dict[Resolution, bool] = {"retry": retry, "done": done, "lost": lost}
    word = chosen(choices)
    out = Output(as_json)
    with client(data) as node:
        answer = node.doubts.resolve(id, word)
    out.document(answer)
    out.say(f"{id} is resolved: {word}")
