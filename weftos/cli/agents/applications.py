"""Commands about applications: new, run, apply, delete."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weftos.cli.agents.talk import Said, speak
from weftos.cli.terminal.options import AsJson, Command, Data, Why, client
from weftos.cli.terminal.output import Output
from weftos.errors import WeftosError
from weftos.paths import absolute, data_directory, has_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernel.operations.applications import Applied, Planned, StepRow
    from weftos.client.client import Client
    from weftos.config.app_file import App

INTERRUPTED = 130
AppFile = Annotated[Path, typer.Argument(metavar="FILE", help="What declares it, such as app.toml.")]


def apply(
    file: AppFile,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    why: Why = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make an application what its file declares.

    Starts what is missing, removes what is declared no more, changes or replaces what differs. The plan is printed
    first. Its own tools and behaviours must be known to the node: weftos up --app FILE.
    """
    app = _read(file)
    out = Output(as_json)
    with client(data) as node:
        with out.waiting(f"comparing {app.name} with what is there"):
            planned = _planned(node, app)
        _show_steps(out, planned["steps"], sum(planned["counts"].values()))
        if dry_run:
            out.document(planned)
            return
        with out.waiting(f"applying {app.name}"):
            done = _carried_out(node, app, why)
    out.document(done)
    for failed in done["failed"]:
        out.say(failed["why"])
    if done["not_running"]:
        out.say(f"{done['not_running']} processes of {app.name} do not run; weftos apply {file} tries again")
        raise typer.Exit(1)
    out.say(f"{app.name} is as declared")


def _read(file: Path) -> App:
    from weftos.config.app_file import read_app

    return read_app(absolute(file))


def _planned(node: Client, app: App) -> Planned:
    """What is to be done. Raises WeftosError with all that speaks against it, each with its line."""
    declared = app.declaration
    planned = node.applications.plan(app.name, declared.spawns, code=declared.code)
    if planned["faults"]:
        faults = (f"{app.place(fault['entry'])}: {fault['why']}" for fault in planned["faults"])
        raise WeftosError("\n".join(faults), "invalid")
    return planned


def _carried_out(node: Client, app: App, why: str = "") -> Applied:
    declared = app.declaration
    return node.applications.apply(app.name, declared.spawns, code=declared.code, why=why)


def _show_steps(out: Output, steps: Sequence[StepRow], total: int) -> None:
    if not steps:
        out.say("nothing to do")
        return
    out.table(("ACTION", "WHAT", "COUNT", "BECAUSE"), (_step(row) for row in steps), keys=2)
    told = sum(row["count"] for row in steps)
    if told < total:
        out.say(f"and {total - told} more")


def _step(row: StepRow) -> list[object]:
    what = row["address"] if row["count"] == 1 else f"{row['address']} to {row['last']}"
    because = row["why"] or (", ".join(row["fields"]) and f"changed: {', '.join(row['fields'])}")
    forgets = "; forgets its conversations" if row["action"] == "replace" else ""
    return [row["action"], what, row["count"], because + forgets]


def delete(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application's name.")],
    why: Why = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stop an application and remove all its processes, for good."""
    out = Output(as_json)
    with client(data) as node, out.waiting(f"deleting {name}"):
        answer = node.applications.delete(name, why=why)
    out.document(answer)
    out.say(f"{name} is deleted ({answer['removed']} processes)")


def new(
    name: Annotated[
        Path, typer.Argument(metavar="NAME", help="The directory to make, and what it is called.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make the project of an application: what declares it, a tool, a behaviour, and a test."""
    from weftos.lifecycle.new_project import make_project

    out = Output(as_json)
    made = make_project(absolute(name))
    out.document({"directory": str(made[0].parent), "files": [file.name for file in made]})
    out.say(f"made {', '.join(str(file) for file in made)}")
    out.say(f"run it with weftos run {made[0]} Ada, test it with python -m pytest {made[0].parent}")


def run(
    file: AppFile,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to it.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Whom to say it to, below the application [its to, or first child]."
        ),
    ] = "",
    engine: Annotated[
        Literal["ray", "local"] | None,
        typer.Option(help="As of weftos up [local for a directory of its own]."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Data directory of the node [a new one; WEFTOS_DATA is not asked]."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an application for one message: a node for this run, with the application's own code, and the answer.

    Without --data the node has a new directory below the system's temporary one. It stays, so that its ledger can be
    read; the command that says why the answer was given is printed, and no process is left.
    """
    from weftos.lifecycle.initialise import initialise
    from weftos.lifecycle.launch import NodeProcess, node_command
    from weftos.ownership import check_own_place
    from weftos.sealed_environment import close_to_others

    app = _read(file)
    target = f"/user/{app.name}/{to}" if to else app.to
    if not target:
        raise WeftosError(f"{app.file}: {app.name} has no child that could be spoken to", "invalid")
    out = Output(as_json)
    place = Path(tempfile.mkdtemp(prefix="weftos-run-")) if data is None else data_directory(data)
    if not has_data(place):
        initialise(place)
    check_own_place(place)
    close_to_others()  # as weftos up: the provider keys are in this process's environment
    command = node_command(place, {"--engine": engine or (None if data else "local")}, [app.file])
    said, booted = Said(), False
    with NodeProcess(place, command, ends_with_us=True) as node:
        try:
            with out.waiting("starting a node"):
                node.until_ready(lambda step: None)
            booted = True
            _converse(place, app, out, target, text, said)
        except WeftosError:
            if not node.interrupted:
                raise
        finally:
            interrupted = node.interrupted
            if node.process.poll() is None:
                node.stop()
                node.wait()
            if data is None and (booted or interrupted) and said.accepted < 0:
                shutil.rmtree(
                    place, ignore_errors=True
                )  # nothing was said there, and errors name no file of it
    if said.accepted >= 0:
        out.line_document({"event": "why", "seq": said.accepted, "data": str(place)})
        out.say(f"to see why: weftos chain why {said.accepted} --data {place}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if said.status != "ok":
        raise typer.Exit(1)


def _converse(place: Path, app: App, out: Output, target: str, text: str, said: Said) -> None:
    """Apply it, say one thing, stream the answer. ``said`` ends with the entry that shows the most of why."""
    with client(place) as node:
        _planned(node, app)
        done = _carried_out(node, app)
        if done["not_running"]:
            raise WeftosError("; ".join(failed["why"] for failed in done["failed"]), "refused")
        speak(node, out, target, text, "", said)
        ended = ("turn.ended", said.turn)
        for event in node.events():
            if (event["kind"], event["subject"]) == ended:
                said.accepted = event["seq"]


COMMANDS: tuple[Command, ...] = (new, run, apply, delete)
