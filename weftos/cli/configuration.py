"""Commands about the configuration: view, validate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from weftos.cli.options import AsJson, Data, group
from weftos.cli.output import Output
from weftos.paths import data_directory

config = group("The configuration and its origins.")


@config.command("view")
def view(
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Instead of weftos.toml in the data directory."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show every value a node started now would use, with its origin."""
    from weftos.config import load

    out = Output(as_json)
    values = load(data_directory(data), file=file, environment=os.environ).view()
    out.document(values)
    out.table(("KEY", "VALUE", "ORIGIN"), ([item["key"], item["value"], item["origin"]] for item in values))


@config.command("validate")
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration file.")],
    as_json: AsJson = False,
) -> None:
    """Check a file: every fault at once, with its line and the nearest right key."""
    from weftos.cli.output import complain
    from weftos.config import ConfigError, validate_file

    out = Output(as_json)
    try:
        validate_file(file)
    except ConfigError as error:
        out.document({"valid": False, "faults": list(error.faults)})
        complain(f"{file} cannot be used:\n" + "\n".join(f"  {fault}" for fault in error.faults))
        raise typer.Exit(1) from None
    out.document({"valid": True, "faults": []})
    out.say(f"{file} is valid")
