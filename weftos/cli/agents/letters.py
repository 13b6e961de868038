"""Commands about what waits for a person: dead letters, and tool calls in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernel.operations.decisions import Resolution
from kernel.operations.messages import Step
from weftos.cli.terminal.options import AsJson, Data, chosen, client, group, listed
from weftos.cli.terminal.output import Output, moment
from weftos.errors import WeftosError

if TYPE_CHECKING:
    from weftos.client.client import Client

deadletters = group("Messages that could not be delivered.")
doubts = group("Tool calls with unknown effect.")

LetterId = Annotated[str, typer.Argument(metavar="ID", help="From weftos deadletters list.")]
AnyLetter = Annotated[str | None, typer.Argument(metavar="[ID]", help="From weftos deadletters list.")]
DoubtId = Annotated[str, typer.Argument(metavar="ID", help="From weftos doubts list.")]


To = Annotated[str, typer.Option("--for", metavar="ADDRESS", help="Those for it, and for all below it.")]
Sender = Annotated[
    str, typer.Option("--from", metavar="ADDRESS", help="Those from it, or from all below it.")
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason",
        metavar="WORD",
        help="down, expired, poison, diverged, undeliverable, overflow, or other.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it to all that are counted.")]


@deadletters.command("list")
def list_letters(
    to: To = "",
    sender: Sender = "",
    reason: Reason = "",
    replayed: Annotated[bool, typer.Option("--all", help="Those too that were sent again.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, with the beginning of each text."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.deadletters(to=to, sender=sender, reason=reason, replayed=replayed)
    fields = ("id", "to", "sender", "why", "text", *(("replayed_as",) if replayed else ()))
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
    """Show one dead letter whole, and what became of it, step by step.

    Of one that was dropped, and of any other message, there is the history alone.
    """
    out = Output(as_json)
    with client(data) as node:
        letter, history, why = _letter(node, id)
    out.document({**letter, "history": history, **({"why_no_history": why} if why else {})})
    if letter:
        out.table(("FIELD", "VALUE"), letter.items())
    if why:
        out.say(f"its history is not known just now: {why}")
        return
    rows = [
        (moment(step["time_us"]), step["event"], step["pid"] or None, step["detail"], step["seq"])
        for step in history or ()
    ]
    out.table(("TIME", "WHAT", "PID", "DETAIL", "ENTRY"), rows)


def _letter(node: Client, ident: str) -> tuple[Mapping[str, Any], list[Step] | None, str]:
    """A dead letter, empty for one that is gone, and its history; None, and why, where the archive has none to give."""
    letter: Mapping[str, Any] = {}
    missing: WeftosError | None = None
    try:
        letter = node.deadletter(ident)
    except WeftosError as error:
        if error.code != "not_found":
            raise
        missing = error
    try:
        return letter, node.history(ident), ""
    except WeftosError as error:
        if missing is not None:
            raise missing from error
        return letter, None, str(error)


@deadletters.command("replay")
def replay_letters(
    id: AnyLetter = None,
    target: Annotated[str, typer.Option("--to", metavar="PID", help="Another receiver.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Though it was sent again already.")] = False,
    to: To = "",
    sender: Sender = "",
    reason: Reason = "",
    yes: Yes = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send a dead letter again, as a new message.

    Without an ID: all of which it was never done and that the options name, counted first.
    """
    out = Output(as_json)
    with client(data) as node:
        idents = _meant(node, id, to, sender, reason, yes)
        answers = [node.replay(ident, to=target, again=again) for ident in idents]
    out.document(answers[0] if id else answers)
    for ident, answer in zip(idents, answers, strict=True):
        out.say(f"replayed {ident} as {answer['message']}")


@deadletters.command("drop")
def drop_letters(
    id: AnyLetter = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the ledger.")] = "",
    to: To = "",
    sender: Sender = "",
    reason: Reason = "",
    yes: Yes = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Discard a dead letter for good.

    Without an ID: all that were never sent again and that the options name, counted first.
    """
    if not why:
        raise typer.BadParameter("say why: --why TEXT")
    out = Output(as_json)
    with client(data) as node:
        idents = _meant(node, id, to, sender, reason, yes)
        answers = [node.drop(ident, why) for ident in idents]
    out.document(answers[0] if id else answers)
    for ident in idents:
        out.say(f"dropped {ident}")


def _meant(node: Client, id: str | None, to: str, sender: str, reason: str, yes: bool) -> list[str]:
    """The letters that are named, by an id or by what they have in common. Raises BadParameter."""
    if bool(id) == bool(to or sender or reason):
        raise typer.BadParameter("name one by its ID, or several by --for, --from and --reason")
    if id:
        return [id]
    idents = [letter["id"] for letter in node.deadletters(to=to, sender=sender, reason=reason)]
    if idents and not yes:
        raise typer.BadParameter(f"{len(idents)} dead letters are meant; say --yes to do it to all of them")
    return idents


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
