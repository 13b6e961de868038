"""Commands about the configuration: view, validate, reload."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weftos.cli.terminal.options import AsJson, Data, client, group
from weftos.cli.terminal.output import Output
from weftos.errors import WeftosError
from weftos.json_object import Fields
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
    """Show every value with its origin.

    Those of the running node; without one, those that a node started now would use.
    """
    out = Output(as_json)
    place = data_directory(data)
    running, values = _values(place, file)
    out.document({"running": running, "values": values})
    out.table(("KEY", "VALUE", "ORIGIN"), ([item["key"], item["value"], item["origin"]] for item in values))


def _values(place: Path, file: Path | None) -> tuple[bool, Sequence[Fields]]:
    """What the running node uses; without one, or for another file, what a node started now would use."""
    if file is None:
        try:
            with client(place) as node:
                return True, node.config()["values"]
        except WeftosError as error:
            if error.code != "not_running":
                raise
    from weftos.config.config import load

    return False, load(place, file=file, environment=os.environ).view()


@config.command("validate")
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration file.")],
    as_json: AsJson = False,
) -> None:
    """Check a file: every fault at once, with its line and the nearest right key.

    Code that other users could change is a fault too.
    """
    from weftos.cli.terminal.output import complain
    from weftos.config.config import ConfigError, validate_file
    from weftos.node.protected import others_faults

    out = Output(as_json)
    try:
        if faults := others_faults(validate_file(file), None, {}):
            raise ConfigError(*faults)
    except ConfigError as error:
        out.document({"valid": False, "faults": list(error.faults)})
        complain(f"{file} cannot be used:\n" + "\n".join(f"  {fault}" for fault in error.faults))
        raise typer.Exit(1) from None
    out.document({"valid": True, "faults": []})
    out.say(f"{file} is valid")


@config.command("reload")
def reload(data: Data = None, as_json: AsJson = False) -> None:
    """Have the running node read its configuration again, and the files that hold keys.

    With a fault in it nothing changes. What needs a restart is named.
    """
    out = Output(as_json)
    with client(data_directory(data)) as node:
        answer = node.reload()
    out.document(answer)
    out.say(f"changed: {', '.join(answer['changed'])}" if answer["changed"] else "nothing has changed")
    if answer["needs_restart"]:
        out.say(f"needs a restart (weftos down, weftos up): {', '.join(answer['needs_restart'])}")
