"""Commands about other nodes: node id, nodes, peer, token, monitor; and ps --cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from weftos.cli.terminal.options import AsJson, Command, Data, client, group
from weftos.cli.terminal.output import Output, duration, moment
from weftos.errors import WeftosError, reason
from weftos.json_object import Fields
from weftos.paths import data_directory

RIGHTS = ("send", "ps", "spawn", "kill")

node = group("This node among others.")
peer = group("The nodes that this one talks with, and what each may.")
token = group("Join tokens: each lets one node in, once.")

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="A peer's petname, or its origin.")]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="From weftos token list.")]


@node.command("id")
def node_id(data: Data = None, as_json: AsJson = False) -> None:
    """Print the node's true name, by which peers know it.

    The node need not run.
    """
    from chain.errors import ChainError
    from chain.keys.keys import load_keys

    out = Output(as_json)
    place = data_directory(data)
    try:
        origin = load_keys(place / "keys").origin
    except (ChainError, OSError) as error:
        raise WeftosError(
            f"{place} has no identity ({reason(error)}): weftos init makes one", "not_found"
        ) from error
    out.document({"origin": origin, "data": str(place)})
    out.say(origin)


@node.command("where")
def where(data: Data = None, as_json: AsJson = False) -> None:
    """Show where the running node listens for peers."""
    out = Output(as_json)
    with client(data) as running:
        found = running.cluster.identity()
    out.document(found)
    out.line(
        f"{found['name']} ({found['origin']}) {found['address'] or 'does not listen: it dials its peers'}"
    )


def nodes(data: Data = None, as_json: AsJson = False) -> None:
    """Show this node and its peers: who is up, what each may, and how far its ledger is known here."""
    out = Output(as_json)
    with client(data) as running, out.waiting("asking the node"):
        rows = running.cluster.nodes()
    out.document(rows)
    columns = ("NODE", "ORIGIN", "STATE", "SINCE", "PROCESSES", "HEAD", "WAITING", "MAY", "ADDRESS", "WHY")
    out.table(columns, map(_node_row, rows), keys=2)


def _node_row(row: Fields) -> list[object]:
    since = "" if row["state"] in ("up", "known") else duration(row["age_s"])
    name = f"{row['name']} *" if row["self"] else row["name"]
    counts = [row["processes"], row["head"], row["outbox"]]
    return [name, row["origin"], row["state"], since, *counts, row["may"], row["address"], row["why"]]


def show_cluster(out: Output, data: Path | None) -> None:
    """``weftos ps --cluster``."""
    with client(data) as running, out.waiting("asking the node"):
        rows = running.cluster.ps()
    out.document(rows)
    out.table(("NODE", "PID", "ADDRESS", "BEHAVIOUR", "STATE", "STALE"), map(_process_row, rows), keys=3)


def _process_row(row: Fields) -> list[object]:
    stale = f"for {duration(row['age_s'])}" if row["stale"] else ""
    return [row["node"], row["pid"], row["address"], row["behaviour"], row["state"], stale]


def monitor(
    target: Annotated[str, typer.Argument(metavar="PID", help="As for send; with @NODE on another node.")],
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=1e7, help="How long to wait.")
    ] = 3600.0,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a process ends, and say why: noconnection when its node is lost."""
    out = Output(as_json)
    with client(data) as running, out.waiting(f"watching {target}"):
        answer = running.cluster.monitor(target, wait_s=timeout)
    out.document(answer)
    out.line(f"{answer['target']} ended: {answer['reason']}")


@peer.command("add")
def peer_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What this node is to call it.")],
    origin: Annotated[str, typer.Argument(metavar="ORIGIN", help="What weftos node id prints there.")],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to dial it; left out: it dials.")
    ] = "",
    may: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Of send, ps, spawn, kill [send,ps]; an empty text: nothing."),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Tools that are used for it here [those without effects]; * for every tool, an empty text for none.",
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Allow a node, from now on."""
    out = Output(as_json)
    rights, ceiling = _words(may), _words(tools)
    if unknown := [right for right in rights or () if right not in RIGHTS]:
        raise typer.BadParameter(f"{unknown[0]} is none of {', '.join(RIGHTS)}", param_hint="'--may'")
    place = f"tcp://{address.removeprefix('tcp://')}" if address else ""
    with client(data) as running:
        answer = running.peers.add(name, origin, address=place, may=rights, tools=ceiling)
    out.document(answer)
    out.line(f"{answer['name']} is a peer now, and may: {', '.join(answer['may']) or 'nothing'}")
    out.line(f"tools that are used for it: {_ceiling(answer)}")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _ceiling(row: Fields) -> str:
    """A peer's tools in words."""
    tools = row["tools"]
    if tools is None:
        return "those without effects"
    return "every tool" if "*" in tools else ", ".join(tools) or "none"


@peer.command("remove")
def peer_remove(name: NodeName, data: Data = None, as_json: AsJson = False) -> None:
    """Allow a node no longer.

    What waits for it becomes dead letters.
    """
    out = Output(as_json)
    with client(data) as running:
        answer = running.peers.remove(name)
    out.document(answer)
    out.line(f"{answer['name']} is no longer a peer")


@peer.command("list")
def peer_list(data: Data = None, as_json: AsJson = False) -> None:
    """List the allowed nodes."""
    out = Output(as_json)
    with client(data) as running:
        rows = running.peers.list()
    out.document(rows)
    if not rows:
        out.say("no peers; weftos peer add allows one, and so does a join token")
        return
    out.table(
        ("NODE", "ORIGIN", "MAY", "TOOLS", "ADDRESS"),
        ([r["name"], r["origin"], r["may"], _ceiling(r), r["address"]] for r in rows),
        keys=2,
    )


@peer.command("heads")
def peer_heads(data: Data = None, as_json: AsJson = False) -> None:
    """Show the newest head kept of each peer's ledger, and which of them it has contradicted since.

    --json gives both signed notes, which show it to anybody.
    """
    out = Output(as_json)
    with client(data) as running:
        rows = running.peers.heads()
    out.document(rows)
    if not rows:
        out.say("no head of a peer is kept yet")
        return
    out.table(
        ("NODE", "ORIGIN", "ENTRIES", "ROOT"),
        ([r["name"], r["origin"], r["size"], r["root"]] for r in rows),
        keys=2,
    )
    for row in rows:
        if (other := row["conflict"]) is not None:
            out.line(f"{row['name']} has shown a head that contradicts this one: {other['why']}")
            out.line(f"  shown {moment(other['at_us'])}: {other['size']} entries, root {other['root']}")
            out.line(f"  no further head of it is taken; decide: weftos peer decide {row['name']} kept|shown")


@peer.command("decide")
def peer_decide(
    name: NodeName,
    counts: Annotated[
        str,
        typer.Argument(metavar="kept|shown", help="The head that counts from now on: see weftos peer heads."),
    ],
    reason: Annotated[str, typer.Option(metavar="R", help="Why; the ledger keeps it, and who decided.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Decide which of two heads of a peer counts, so that its later ones are taken again.

    Both stay in mesh/heads/decided.
    """
    if counts not in ("kept", "shown"):
        raise typer.BadParameter(f"{counts} is neither kept nor shown", param_hint="'kept|shown'")
    out = Output(as_json)
    with client(data) as running:
        answer = running.peers.decide(name, counts, reason)
    out.document(answer)
    out.line(f"the head {counts} of {answer['name']} counts, with {answer['size']} entries")


@token.command("create")
def token_create(
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it to a new file only you can read.")
    ] = None,
    hours: Annotated[
        float, typer.Option(metavar="H", min=0.001, max=168, help="How long it is good.")
    ] = 24.0,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a join token. It lets one node in, once."""
    out = Output(as_json)
    with client(data) as running:
        made = running.tokens.create(lifetime_s=max(1, int(hours * 3600)))
    if file is None:
        out.document(made)
        out.say(made["token"])
        return
    _write_secret(file, made["token"] + "\n")
    out.document({**{name: value for name, value in made.items() if name != "token"}, "file": str(file)})
    out.say(
        f"token {made['id']} is in {file}: the other node joins with weftos up --join ADDR --token {file}"
    )


def _write_secret(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WeftosError(
            f"the token cannot be written to {path} ({reason(error)}): choose a new file in a directory of yours",
            "conflict",
        ) from error
    with os.fdopen(handle, "w") as target:
        target.write(text)


@token.command("list")
def token_list(data: Data = None, as_json: AsJson = False) -> None:
    """List join tokens; never their secrets."""
    out = Output(as_json)
    with client(data) as running:
        rows = running.tokens.list()
    out.document(rows)
    columns = ("ID", "STATUS", "EXPIRES", "USED BY")
    out.table(columns, ([r["id"], r["status"], moment(r["expires_us"]), r["used_by"]] for r in rows))


@token.command("revoke")
def token_revoke(id: TokenId, data: Data = None, as_json: AsJson = False) -> None:
    """Let nobody in by a token any more."""
    out = Output(as_json)
    with client(data) as running:
        answer = running.tokens.revoke(id)
    out.document(answer)
    out.line(f"token {answer['id']} is revoked")


COMMANDS: tuple[Command, ...] = (nodes, monitor)
