"""Options and arguments that several commands share, and the way from them to a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftos.paths import data_directory

if TYPE_CHECKING:
    from weftos.client import Client

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Data directory of the node (else WEFTOS_DATA, else the user's own)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of words.")]
Target = Annotated[str, typer.Argument(metavar="PID", help="A PID, an address, or a name.")]
Looked = Annotated[
    str, typer.Argument(metavar="PID", help="A PID, an address, a name, or an unambiguous prefix of a name.")
]


def client(data: Path | None) -> Client:
    """The client of the node that runs on ``data``. Raises WeftosError when none does."""
    from weftos.client import Client

    return Client(data_directory(data))


def group(help: str) -> typer.Typer:
    """An application, or a group of commands, as all of ours are made."""
    settings: dict[str, Any] = {"no_args_is_help": True, "add_completion": False}
    return typer.Typer(help=help, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)
