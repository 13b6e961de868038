"""The command tree: what ``weftos --help`` shows, of the commands that each module names. Importing it imports typer
and nothing heavier.
"""

from __future__ import annotations

from typing import Annotated

import typer

from weftos import __version__
from weftos.cli.agents import (
    applications,
    budgets,
    divergences,
    letters,
    looks,
    memory,
    processes,
    rights,
    sessions,
    talk,
    topics,
)
from weftos.cli.chain import (
    audit_export,
    audit_views,
    erase,
    ledger,
    proofs,
    rotation,
    sql,
    verify,
)
from weftos.cli.node import clusters, configuration, doctor, mesh, nodes
from weftos.cli.terminal.options import group
from weftos.cli.turns import contexts, traces, trajectories

app = group("A kernel for AI agents: processes with PIDs, supervision, and a signed ledger of every act.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weftos {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A kernel for AI agents: processes with PIDs, supervision, and a signed ledger of every act."""


for _command in (
    *nodes.COMMANDS,
    *doctor.COMMANDS,
    *applications.COMMANDS,
    *processes.LOOK,
    *talk.COMMANDS,
    *looks.COMMANDS,
    *topics.COMMANDS,
    *rights.COMMANDS,
    *processes.RULE,
    *traces.COMMANDS,
    *trajectories.COMMANDS,
    *mesh.COMMANDS,
):
    app.command()(_command)
app.command()(contexts.context)
app.add_typer(mesh.node, name="node")
app.add_typer(mesh.peer, name="peer")
app.add_typer(mesh.token, name="token")
app.add_typer(clusters.cluster, name="cluster")
app.add_typer(letters.deadletters, name="deadletters")
app.add_typer(topics.topics, name="topics")
app.add_typer(sessions.sessions, name="sessions")
app.add_typer(letters.doubts, name="doubts")
app.add_typer(divergences.divergences, name="divergences")
app.add_typer(memory.memory, name="memory")
app.add_typer(rights.policy, name="policy")
app.add_typer(budgets.budget, name="budget")
_CHAIN = (
    ledger,
    audit_views,
    proofs,
    audit_export,
    erase,
    rotation,
    sql,
    verify,
)  # each adds its commands to ``chain`` when it is imported
app.add_typer(ledger.chain, name="chain")
app.add_typer(configuration.config, name="config")
