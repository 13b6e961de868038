"""What a cluster of nodes on this machine is made of: its plan, kept in ``DIR/cluster.json``, and its introductions.

Below DIR are the data directories of the nodes, ``n1`` to ``nN``, and the launcher's own few files. The plan keeps
each node's port, so that a node that comes back is found where its peers look for it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from chain.keys.keys import load_keys
from mesh.identity.peers import ALL_TOOLS, RIGHTS, Peer, PeerStore
from weftos.errors import WeftosError, reason
from weftos.lifecycle.initialise import initialise
from weftos.named_file import read_named
from weftos.paths import has_data

PLAN_FILE = "cluster.json"
MAX_NODES = 32
_MAX_PLAN_BYTES = 64 * 1024
_HOST = "127.0.0.1"
_VERSION = 1

EngineName = Literal["ray", "local"]


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node and the port on loopback where its peers dial it."""

    name: str
    port: int

    @property
    def address(self) -> str:
        return f"tcp://{_HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class Plan:
    """``ray_port`` is that of the one Ray they share; ``ray_token`` the file with its token, empty before it runs.

    ``launcher`` is the OS process that has all of it running, 0 while none has.
    """

    directory: Path
    engine: EngineName
    ray_port: int
    nodes: tuple[PlannedNode, ...]
    ray_token: str = ""
    launcher: int = 0

    def place(self, node: PlannedNode) -> Path:
        """The node's data directory."""
        return self.directory / node.name

    def flags(self, node: PlannedNode) -> dict[str, str | None]:
        """The options the node is started with."""
        shared = self.engine == "ray"
        return {
            "--name": node.name,
            "--engine": self.engine,
            "--listen": node.address,
            "--ray-address": f"{_HOST}:{self.ray_port}" if shared else None,
            "--ray-token": self.ray_token if shared else None,
        }


def make_plan(directory: Path, count: int, engine: EngineName, before: Plan | None) -> Plan:
    """A plan for ``count`` nodes; ports of an earlier one are kept where they are free."""
    kept = {node.name: node.port for node in before.nodes} if before else {}
    names = [f"n{number}" for number in range(1, count + 1)]
    wanted = [before.ray_port if before else 0, *(kept.get(name, 0) for name in names)]
    ray_port, *ports = _free_ports(wanted)
    nodes = tuple(PlannedNode(name, port) for name, port in zip(names, ports, strict=True))
    return Plan(directory, engine, ray_port, nodes)


def _free_ports(wanted: Sequence[int]) -> list[int]:
    """For each wanted port that one, when it is free, else another."""
    held = []
    try:
        for port in wanted:
            try:
                held.append(socket.create_server((_HOST, port)))
            except OSError:
                held.append(socket.create_server((_HOST, 0)))
        return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()


def introduce(plan: Plan) -> dict[str, str]:
    """Make what data directories are missing, and put each node on the list of every other with all rights and tools.

    Returns the origins by name. Peers from outside the cluster stay as they are; so does what a person has changed of
    a peer's rights. Raises WeftosError, MeshError, KeyFileError, OSError.
    """
    origins = {node.name: _origin(plan.place(node)) for node in plan.nodes}
    for node in plan.nodes:
        store = PeerStore(plan.place(node) / "mesh")
        for other in plan.nodes:
            if other is not node:
                _list_peer(
                    store,
                    Peer(other.name, origins[other.name], other.address, RIGHTS, frozenset((ALL_TOOLS,))),
                )
    return origins


def _list_peer(store: PeerStore, peer: Peer) -> None:
    listed = store.load().get(peer.origin)
    if listed is None:
        store.add(peer)
    elif listed.address != peer.address:
        store.move(peer.origin, peer.address)


def _origin(place: Path) -> str:
    keys = load_keys(place / "keys") if has_data(place) else initialise(place)
    return keys.origin


def save_plan(plan: Plan) -> None:
    """Write ``cluster.json``. Raises OSError."""
    document = {
        "version": _VERSION,
        "engine": plan.engine,
        "ray_port": plan.ray_port,
        "ray_token": plan.ray_token,
        "launcher": plan.launcher,
        "nodes": [asdict(node) for node in plan.nodes],
    }
    part = plan.directory / f"{PLAN_FILE}.part"
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.chmod(0o600)
    part.replace(plan.directory / PLAN_FILE)


def load_plan(directory: Path) -> Plan | None:
    """The plan of ``directory``, None when no cluster was ever there. Raises WeftosError when it is damaged."""
    path = directory / PLAN_FILE
    try:
        document = json.loads(read_named(path, _MAX_PLAN_BYTES))
        if document["version"] != _VERSION or document["engine"] not in ("ray", "local"):
            raise ValueError("it is of another version")
        nodes = tuple(PlannedNode(str(row["name"]), int(row["port"])) for row in document["nodes"])
        if [node.name for node in nodes] != [f"n{number}" for number in range(1, len(nodes) + 1)]:
            raise ValueError("its nodes are not n1, n2 and so on")
        return Plan(
            directory,
            document["engine"],
            int(document["ray_port"]),
            nodes,
            str(document["ray_token"]),
            int(document.get("launcher", 0)),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WeftosError(
            f"{path} cannot be read ({reason(error)}): give the cluster's directory with --data", "not_found"
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WeftosError(
            f"{path} cannot be used ({error}): remove it, the nodes' data stays", "conflict"
        ) from error


def cluster_around(place: Path) -> Path | None:
    """The directory of the cluster that ``place`` is, or is a node of; None when it is neither. Raises OSError."""
    around = (place, place.parent) if _is_node_name(place.name) else (place,)
    return next((each for each in around if os.path.lexists(each / PLAN_FILE)), None)


def _is_node_name(name: str) -> bool:
    return name[:1] == "n" and name[1:].isdigit()


def node_places(directory: Path) -> list[Path]:
    """The data directories of all nodes that a cluster in ``directory`` has or had."""
    found = [path.parent for path in directory.glob("n*/format") if _is_node_name(path.parent.name)]
    return sorted(found, key=lambda place: int(place.name[1:]))
