"""The mesh of a node: made of its keys and its configuration, opened for the kernel, and joined."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from chain.keys.keys import Keys
from kernel.peer.mesh_port import MeshPort
from kernel.peer.remote import Remote
from mesh.errors import MeshError
from mesh.identity.identity import NAME_PATTERN, Identity, NoiseKey
from mesh.identity.tokens import JoinToken
from mesh.links.link_table import LinkTable
from mesh.mesh import Mesh
from mesh.wire.zmq_wire import ZmqWire
from weftos.config.settings import Settings
from weftos.errors import WeftosError
from weftos.named_file import read_named

_MAX_TOKEN_BYTES = 1024


def make_mesh(
    data: Path, keys: Keys, name: str, boot: int, settings: Settings, now_us: Callable[[], int]
) -> Mesh:
    """The node's mesh, not open yet. Raises WeftosError for files or tables that cannot be used."""
    hint = name if re.fullmatch(NAME_PATTERN, name) else "node"
    if name in settings.peers:
        why = f"[peers.{name}]: this node itself is called {name}: give it another name (node.name), or the peer"
        raise WeftosError(why, "invalid")
    tables = {
        peer: {key: value for key, value in table.model_dump().items() if value is not None}
        for peer, table in settings.peers.items()
    }
    try:
        me = Identity(keys, NoiseKey.create_or_load(data / "keys"), hint, f"{boot:016x}")
        return Mesh(me, data / "mesh", LinkTable(me, ZmqWire()), tables, now_us)
    except MeshError as error:
        raise WeftosError(f"the mesh cannot be set up: {error}", "conflict") from error


def called_the_same(mesh: MeshPort, name: str) -> str:
    """What to do about a peer that is called as this node is; empty when there is none."""
    peer = mesh.peer(name)
    if peer is None:
        return ""
    return (
        f"peer {name} ({peer.origin}) is called as this node is: NAME@{name} is refused until this node has another "
        f"name (node.name), or the peer (`weftos peer remove {peer.origin}`, then add it)"
    )


async def open_mesh(remote: Remote, settings: Settings, token: Path | None) -> None:
    """Listen where the configuration says, call the peers, and join. Raises WeftosError."""
    mesh, listen, join = remote.mesh, settings.mesh.listen or None, settings.mesh.join
    joining = _token(token) if token is not None else None
    if join and joining is None and all(view.peer.address != join for view in mesh.peers()):
        raise WeftosError(
            f"{join} is no peer's address: give the join token of that node too (--token FILE), or add it with "
            "weftos peer add",
            "invalid",
        )
    try:
        await remote.open(listen)
    except MeshError as error:
        raise WeftosError(f"the mesh cannot listen: {error}", "conflict") from error
    if join and joining is not None:
        mesh.join(join, joining)


def _token(path: Path) -> JoinToken:
    try:
        return JoinToken.parse(read_named(path, _MAX_TOKEN_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise WeftosError(f"the join token cannot be read: {error}", "not_found") from error
    except MeshError as error:
        raise WeftosError(f"{path}: {error}", "invalid") from error
