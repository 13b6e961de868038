"""Commands about turns that wait for a person because they asked something else than the record says."""

from __future__ import annotations

from typing import Annotated

import typer

from kernel.operations.decisions import Decision
from weftos.cli.terminal.options import AsJson, Data, chosen, client, group, listed
from weftos.cli.terminal.output import Output, moment
from weftos.errors import WeftosError
from weftos.json_object import Fields

divergences = group("Resumed turns that asked something else than before, and are parked.")

TurnId = Annotated[str, typer.Argument(metavar="TURN", help="From weftos divergences list.")]


@divergences.command("list")
def list_divergences(data: Data = None, as_json: AsJson = False) -> None:
    """List turns that are parked until somebody decides."""
    out = Output(as_json)
    with client(data) as node:
        rows = node.divergences.list()
    listed(
        out,
        rows,
        ("TIME", "TURN", "ADDRESS", "CALL", "RECORDED", "ASKED"),
        lambda row: [
            moment(row["time_us"]),
            *(row[field] for field in ("id", "address", "ordinal")),
            *map(_brief, _both(row)),
        ],
        "no turn is parked",
        keys=3,
    )


@divergences.command("show")
def show_divergence(turn: TurnId, data: Data = None, as_json: AsJson = False) -> None:
    """Show both calls whole: what is recorded, and what was asked instead."""
    out = Output(as_json)
    with client(data) as node:
        row = next((row for row in node.divergences.list() if row["id"] == turn), None)
    if row is None:
        raise WeftosError(f"no turn {turn} is parked; weftos divergences list shows them", "not_found")
    out.document(row)
    recorded, asked = _both(row)
    fields = ("op", "name", "arguments", "seq", "outcome")
    out.say(f"{row['id']} of {row['address']}, call {row['ordinal']}")
    out.table(("", "RECORDED", "ASKED"), ([key, recorded.get(key), asked.get(key, "")] for key in fields))
    out.say(f"weftos chain show {recorded['seq']} has what is recorded in full")


@divergences.command("decide")
def decide_divergence(
    turn: TurnId,
    again: Annotated[
        bool, typer.Option("--again", help="Hand the turn out once more: what had changed was put right.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Go on with the new call; what was recorded from there on is forgotten."
        ),
    ] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Give up: the message becomes a dead letter.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Decide how a parked turn goes on."""
    choices: dict[Decision, bool] = {"again": again, "accept": accept, "dead": dead}
    word = chosen(choices)
    out = Output(as_json)
    with client(data) as node:
        answer = node.divergences.decide(turn, word)
    out.document(answer)
    out.say(f"{turn} is decided: {word}")


def _both(row: Fields) -> tuple[Fields, Fields]:
    return row["recorded"], row["asked"]


def _brief(call: Fields) -> str:
    text = f"{call['op']} {call['name']} {call['arguments']}"
    return text if len(text) <= 60 else text[:57] + "..."
