"""What the kernel needs of the mesh, and a node without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from chain.merkle.head import TreeHead
from kernel.errors import Unavailable
from mesh.gossip.events import MeshEvents
from mesh.identity.peers import Peer
from mesh.identity.tokens import JoinToken, TokenStore
from mesh.mesh import PeerView


class MeshPort(Protocol):
    """The part of :class:`mesh.mesh.Mesh` that the kernel uses; its docstrings hold here."""

    @property
    def origin(self) -> str: ...

    @property
    def tokens(self) -> TokenStore: ...

    async def open(self, events: MeshEvents, listen: str | None) -> str: ...

    def peer(self, name: str) -> Peer | None: ...

    def peers(self) -> tuple[PeerView, ...]: ...

    def check_change(self, add: Peer | None = None, remove: str = "") -> None: ...

    def add_peer(self, peer: Peer) -> None: ...

    def remove_peer(self, name: str) -> Peer: ...

    def join(self, address: str, token: JoinToken) -> None: ...

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None: ...

    def cut(self, origin: str, why: str) -> None: ...

    def processes_changed(self) -> None: ...

    def publish_head(self, note: bytes) -> None: ...

    def decide_head(self, name: str, take: bool, remarks: Mapping[str, object]) -> TreeHead: ...


class NoMesh:
    """A node that is alone."""

    def __init__(self, origin: str = "") -> None:
        self.origin = origin

    @property
    def tokens(self) -> TokenStore:
        raise Unavailable("this node has no mesh")

    async def open(self, events: MeshEvents, listen: str | None) -> str:
        return ""

    def peer(self, name: str) -> Peer | None:
        return None

    def peers(self) -> tuple[PeerView, ...]:
        return ()

    def check_change(self, add: Peer | None = None, remove: str = "") -> None:
        raise Unavailable("this node has no mesh")

    def add_peer(self, peer: Peer) -> None:
        raise Unavailable("this node has no mesh")

    def remove_peer(self, name: str) -> Peer:
        raise Unavailable("this node has no mesh")

    def join(self, address: str, token: JoinToken) -> None:
        raise Unavailable("this node has no mesh")

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None:
        """Nobody is there."""

    def cut(self, origin: str, why: str) -> None:
        """Nobody is there."""

    def processes_changed(self) -> None:
        """Nobody is shown anything."""

    def publish_head(self, note: bytes) -> None:
        """Nobody is shown anything."""

    def decide_head(self, name: str, take: bool, remarks: Mapping[str, object]) -> TreeHead:
        raise Unavailable("this node has no mesh")
