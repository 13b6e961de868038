"""Commands about a cluster of nodes on this machine: cluster up, down, status."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weftos.cli.terminal.options import AsJson, group
from weftos.cli.terminal.output import Output
from weftos.errors import WeftosError
from weftos.json_object import Json

if TYPE_CHECKING:
    from weftos.cluster.cluster import Plan, PlannedNode

cluster = group("Several nodes on this machine, introduced to each other, on one Ray.")

ClusterData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where the nodes' data directories are, n1 and so on, or one of these (else the cluster of the node that "
        "WEFTOS_DATA names, else the data directory's name with -cluster).",
    ),
]
DEFAULT_NODES = 3


def _directory(given: Path | None) -> Path:
    """The cluster's: whoever names one of its nodes, with --data or WEFTOS_DATA, means the cluster around it."""
    from weftos.cluster.cluster import cluster_around
    from weftos.paths import data_directory

    own = data_directory(given)
    if around := cluster_around(own):
        return around
    return own if given is not None else own.with_name(f"{own.name}-cluster")


@cluster.command()
def up(
    nodes: Annotated[
        int | None,
        typer.Option("-n", "--nodes", min=1, max=32, help="How many; else as before, at first 3."),
    ] = None,
    data: ClusterData = None,
    engine: Annotated[
        Literal["ray", "local"] | None,
        typer.Option(help="Cells as actors of one shared Ray, or as plain child processes of each node."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the cluster, or those of its nodes that do not run; returns when all are ready.

    What a launcher that died has left is ended first.
    """
    from weftos.cluster.cluster import load_plan
    from weftos.lifecycle.stopping import holder

    out = Output(as_json)
    place = _directory(data)
    plan = load_plan(place)
    started = time.monotonic()

    def step(text: str) -> None:
        out.say(f"  {time.monotonic() - started:5.2f} s  {text}")

    if launcher := holder(place):
        if plan is None or plan.launcher != launcher:
            raise WeftosError(f"a cluster is just starting on {place}: ask again", "conflict")
        if (nodes or len(plan.nodes)) != len(plan.nodes) or (engine or plan.engine) != plan.engine:
            raise WeftosError(
                f"a cluster of {len(plan.nodes)} nodes with engine {plan.engine} runs on {place}: stop it first",
                "conflict",
            )
        for node in plan.nodes:
            if not holder(plan.place(node)):
                _start_again(plan, node)
                step(f"{node.name} is ready")
    else:
        chosen = engine or (plan.engine if plan else "ray")
        _launch(place, nodes or (len(plan.nodes) if plan else DEFAULT_NODES), chosen, step)
    _show(out, place)


def _launch(place: Path, count: int, engine: str, step: Any) -> None:
    from weftos.lifecycle.launch import NodeProcess
    from weftos.ownership import check_own_directory, make_own_ground

    make_own_ground(place)
    check_own_directory(place)
    words = ["--data", str(place), "--nodes", str(count), "--engine", engine]
    command = [sys.executable, "-P", "-m", "weftos.cluster.launcher", *words]
    with NodeProcess(place, command, stop_timeout_s=STOP_S, what="launcher") as launcher:
        launcher.until_ready(step)


def _start_again(plan: Plan, node: PlannedNode) -> None:
    from weftos.lifecycle.launch import NodeProcess, node_command

    place = plan.place(node)
    with NodeProcess(place, node_command(place, plan.flags(node))) as process:
        process.until_ready(lambda step: None)


STOP_S = 45.0


@cluster.command()
def down(data: ClusterData = None, as_json: AsJson = False) -> None:
    """Stop all nodes and what they share; returns when all of it is gone.

    Exit status 1 where no cluster is; one that does not run is as it should be.
    """
    from weftos.cluster.cluster import cluster_around, node_places
    from weftos.cluster.cluster_end import stop_cluster

    out = Output(as_json)
    place = _directory(data)
    with out.waiting(f"stopping the cluster on {place}"):
        answer = stop_cluster(place, STOP_S)
    if not (any(answer.values()) or cluster_around(place) or node_places(place)):
        raise WeftosError(f"no cluster is on {place}: give its directory with --data", "not_found")
    out.document(answer)
    if answer["was_running"]:
        out.say(f"the cluster on {place} has stopped")
    else:
        out.say(f"no cluster was running on {place}")
    if answer["nodes"] or answer["killed"]:
        out.say(
            f"ended {len(answer['nodes'])} nodes and {answer['killed']} other processes that had been left"
        )


@cluster.command()
def status(data: ClusterData = None, as_json: AsJson = False) -> None:
    """Show which nodes run. Exit status 1 unless all do."""
    out = Output(as_json)
    if not _show(out, _directory(data)):
        raise typer.Exit(1)


def _show(out: Output, place: Path) -> bool:
    """Whether the whole cluster runs."""
    from chain.keys.keys import load_keys
    from weftos.cluster.cluster import load_plan
    from weftos.lifecycle.stopping import holder

    plan = load_plan(place)
    if plan is None:
        raise WeftosError(
            f"no cluster is on {place}: start one with weftos cluster up --data {place}", "not_found"
        )
    launcher = holder(place)
    rows: list[Json] = []
    for node in plan.nodes:
        os_pid = holder(plan.place(node))
        rows.append(
            {
                "name": node.name,
                "state": "running" if os_pid else "stopped",
                "os_pid": os_pid,
                "listen": node.address,
                "origin": load_keys(plan.place(node) / "keys").origin,
                "data": str(plan.place(node)),
            }
        )
    running = bool(launcher) and all(row["os_pid"] for row in rows)
    ray = plan.flags(plan.nodes[0])["--ray-address"]
    out.document(
        {"running": running, "data": str(place), "launcher": launcher, "ray_address": ray, "nodes": rows}
    )
    columns = ("name", "state", "os_pid", "listen", "origin", "data")
    out.table(
        [name.upper().replace("_", " ") for name in columns], ([row[c] for c in columns] for row in rows)
    )
    owner = f"launcher: process {launcher}" if launcher else "the launcher does not run"
    out.say(f"{owner}; cells: {f'Ray at {ray}' if ray else 'child processes of the nodes'}")
    if not running:
        out.say(f"start what is missing with weftos cluster up --data {place}")
    return running
