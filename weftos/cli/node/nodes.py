"""Commands about the node itself: init, up, down, status."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weftos.cli.terminal.options import AsJson, Command, Data, client
from weftos.cli.terminal.output import Output, duration
from weftos.errors import WeftosError
from weftos.json_object import Fields, Json
from weftos.paths import data_directory, existing_data, has_data

if TYPE_CHECKING:
    from weftos.lifecycle.launch import NodeProcess


def init(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Where; else --data, WEFTOS_DATA, or the user's own."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a data directory.

    It gets keys, folders and a commented configuration.
    """
    if directory is not None and data is not None and directory != data:
        raise typer.BadParameter(f"DIR is {directory} and --data is {data}: give one of them")
    from weftos.lifecycle.initialise import initialise

    out = Output(as_json)
    place = data_directory(directory or data)
    keys = initialise(place)
    out.document({"data": str(place), "origin": keys.origin, "config": str(place / "weftos.toml")})
    out.say(
        f"made {place}\nthe node's true name is {keys.origin}\nits configuration is {place / 'weftos.toml'}"
    )


def up(
    name: Annotated[str | None, typer.Option(metavar="N", help="A petname for the node.")] = None,
    data: Data = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of weftos.toml in the data directory.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when the node listens.")] = False,
    engine: Annotated[
        Literal["ray", "local"] | None, typer.Option(help="Cells as Ray actors, or as plain child processes.")
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Attach to this Ray cluster instead of starting one."),
    ] = None,
    ray_token: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The token of that cluster (else WEFTOS_RAY_TOKEN_PATH)."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDR", help="Where peers may dial this node: HOST:PORT.")
    ] = None,
    join: Annotated[str | None, typer.Option(metavar="ADDR", help="A node to dial: HOST:PORT.")] = None,
    token: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The join token that the node to be joined has made.")
    ] = None,
    accept_state: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Take over state that the node's keys have not signed; the ledger records it.",
        ),
    ] = None,
    app: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Know the tools and behaviours of this application; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the node.

    Makes the data directory if there is none. In the foreground Ctrl-C stops the node. A node that attaches to a
    Ray cluster runs on a machine of that cluster.
    """
    from weftos.lifecycle.initialise import initialise
    from weftos.lifecycle.launch import NodeProcess, node_command
    from weftos.ownership import check_own_place
    from weftos.sealed_environment import close_to_others

    out = Output(as_json)
    place = data_directory(data)
    if not has_data(place):
        keys = initialise(place)
        out.say(f"made {place}; the node's true name is {keys.origin}")
    check_own_place(place)  # the node does so too, but its output goes to a file there before that
    flags: dict[str, str | None] = {
        "--name": name,
        "--config": _absolute(config),
        "--engine": engine,
        "--ray-address": ray_address,
        "--ray-token": _absolute(ray_token),
        "--listen": listen,
        "--join": join,
        "--token": _absolute(token),
        "--accept-state": _given_reason(accept_state),
    }
    close_to_others()  # this process waits for the node's end, with the provider keys in its environment
    with NodeProcess(place, node_command(place, flags, app or ())) as node:
        _boot(node, out, place, detach)
        if not detach:
            status = node.wait()
            out.say("the node has stopped" if status == 0 else f"the node ended with status {status}")
            raise typer.Exit(status)


def _given_reason(reason: str | None) -> str | None:
    if reason is not None and not reason.strip():
        raise typer.BadParameter("--accept-state wants a reason: the ledger records it with your user id")
    return reason


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None


def _boot(node: NodeProcess, out: Output, place: Path, detach: bool) -> None:
    started = time.monotonic()
    ready = node.until_ready(lambda step: out.say(f"  {time.monotonic() - started:5.2f} s  {step}"))
    facts: Json = {"data": str(place), "os_pid": node.process.pid, **ready}
    out.document(facts)
    out.say(f"node {_called(facts)} listens on {place}, process {node.process.pid}")
    if detach:
        out.say(f"stop it with weftos down --data {place}")
    else:
        out.say("Ctrl-C stops it")


def _called(facts: Json) -> str:
    name, origin = facts.get("name"), facts.get("origin", "")
    return f"{name} ({origin})" if name and origin else str(name or origin)


def down(data: Data = None, as_json: AsJson = False) -> None:
    """Stop the node; returns when all of it is gone."""
    from weftos.lifecycle import stopping

    out = Output(as_json)
    place = existing_data(data_directory(data))
    with out.waiting(f"stopping the node on {place}"):
        answer = stopping.stop_node(place)
    out.document(answer)
    if not answer["was_running"]:
        left = f"; ended {answer['killed']} processes that its last run had left" if answer["killed"] else ""
        out.say(f"no node was running on {place}{left}")
    elif answer["killed"]:
        waited = f"{stopping.STOP_TIMEOUT_S:g} s"
        out.say(f"the node on {place} did not stop within {waited}: killed {answer['killed']} processes")
    else:
        out.say(f"the node on {place} has stopped")


def status(data: Data = None, as_json: AsJson = False) -> None:
    """Show how the node is."""
    out = Output(as_json)
    place = data_directory(data)
    try:
        with client(place) as node, out.waiting("asking the node"):
            found = node.status()
    except WeftosError as error:
        if error.code != "not_running":
            raise
        out.document({"running": False, "data": str(place)})
        if not as_json:
            raise
        raise typer.Exit(1) from None
    out.document({"running": True, **found})
    if found.get("read_only"):
        out.say(f"READ-ONLY: {found['read_only']}")
    for fault in found.get("faults", []):
        out.say(f"FAULT: {fault}")
    out.table(("FIELD", "VALUE"), _facts(found))
    if helpers := found.get("helpers"):
        out.say("")
        columns = ("name", "pid", "os_pid", "state")
        out.table(
            [c.upper().replace("_", " ") for c in columns], ([h.get(c) for c in columns] for h in helpers)
        )


def _facts(found: Fields) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = []
    for name, value in found.items():
        if name in ("helpers", "faults"):
            continue
        if isinstance(value, dict):
            facts += [(f"{name} {part.replace('_', ' ')}", item) for part, item in value.items()]
        elif name == "uptime_s":
            facts.append(("uptime", duration(value)))
        else:
            facts.append((name.replace("_", " "), value))
    return facts


COMMANDS: tuple[Command, ...] = (init, up, down, status)
