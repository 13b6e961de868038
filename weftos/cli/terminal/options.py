"""Options and arguments that several commands share, and the way from them to a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from weftos.cli.terminal.output import Output
from weftos.json_object import Fields
from weftos.paths import data_directory

if TYPE_CHECKING:
    from weftos.client.client import Client

Choice = TypeVar("Choice", bound=str)
Command = Callable[..., None]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Data directory of the node (else WEFTOS_DATA, else the user's own)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of words.")]
Target = Annotated[str, typer.Argument(metavar="PID", help="A PID, an address, or a name.")]
Why = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]
Looked = Annotated[
    str, typer.Argument(metavar="PID", help="A PID, an address, a name, or an unambiguous prefix of a name.")
]


def client(data: Path | None) -> Client:
    """The client of the node that runs on ``data``. Raises WeftosError when none does."""
    from weftos.client.client import Client

    return Client(data_directory(data))


def chosen(choices: Mapping[Choice, bool]) -> Choice:
    """The one that was given of options that are one decision together. Raises BadParameter."""
    given = [name for name, wanted in choices.items() if wanted]
    if len(given) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(f'--{name}' for name in choices)}")
    return given[0]


def listed(
    out: Output,
    rows: Sequence[Fields],
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    none: str,
    keys: int = 1,
) -> None:
    """What waits for a person, a row each, of which the first ``keys`` cells identify it; ``none`` is said when nothing
    does.
    """
    out.document(rows)
    if rows:
        out.table(columns, map(cells, rows), keys)
    else:
        out.say(none)


def group(help: str) -> typer.Typer:
    """An application, or a group of commands, as all of ours are made."""
    settings: dict[str, Any] = {"no_args_is_help": True, "add_completion": False}
    return typer.Typer(help=help, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)
