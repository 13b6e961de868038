"""Whole meshes for tests, over a wire in memory: nodes with their files, and a record of what each was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chain.merkle.head import TreeHead
from chain.merkle.merkle import consistency_path
from mesh.gossip.adverts import ProcessAdvert
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.peers import Peer
from mesh.links.link_table import LinkTable
from mesh.mesh import Mesh
from tests.mesh.twins.link_nodes import BOUNDS, LIMIT_S, QUICK
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.tcp_land import TcpLand


class MeshNode:
    """A node's mesh. ``seen``: what it was told, as (what, of whom, the value)."""

    def __init__(
        self,
        me: Identity,
        place: Path,
        network: MemoryNetwork | TcpLand,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.me = me
        self.origin = me.origin
        self.place = place / me.name
        self.place.mkdir(exist_ok=True)
        self.now_us = 1_000_000
        self.rows: list[ProcessAdvert] = []
        self.leaves: list[bytes] = []
        self.seen: asyncio.Queue[tuple[str, str, Any]] = asyncio.Queue()
        self.links = LinkTable(me, network.wire(BOUNDS), BOUNDS, QUICK)
        self.mesh = Mesh(me, self.place, self.links, tables, lambda: self.now_us)
        self.address = ""

    async def told(self, what: str) -> tuple[str, Any]:
        """The next of that kind; others before it are passed over."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                kind, who, value = await self.seen.get()
                if kind == what:
                    return who, value

    def peer(self, address: str = "", name: str = "", may: frozenset[str] | None = None) -> Peer:
        """This node, as another lists it."""
        peer = Peer(name or self.me.name, self.origin, address)
        return peer if may is None else Peer(peer.name, peer.origin, address, may)

    def processes(self) -> Iterable[ProcessAdvert]:
        return self.rows

    def process_count(self) -> int:
        return len(self.rows)

    def on_up(self, peer: Peer, identity: PeerIdentity) -> None:
        self.seen.put_nowait(("up", peer.name, identity))

    def on_down(self, peer: Peer, why: str) -> None:
        self.seen.put_nowait(("down", peer.name, why))

    def on_op(self, peer: Peer, op: dict[str, Any]) -> None:
        self.seen.put_nowait(("op", peer.name, op))

    def on_refused(self, who: str, why: str) -> None:
        self.seen.put_nowait(("refused", who, why))

    def on_added(self, peer: Peer, how: str) -> None:
        self.seen.put_nowait(("added", peer.name, how))

    def on_head(self, peer: Peer, head: TreeHead) -> None:
        self.seen.put_nowait(("head", peer.name, head))

    def on_conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        self.seen.put_nowait(("conflict", peer.name, conflict))

    async def prove(self, size1: int, size2: int) -> list[bytes]:
        if size2 > len(self.leaves):
            raise ValueError(f"there are {len(self.leaves)} entries")
        return consistency_path(size1, self.leaves[:size2])


@asynccontextmanager
async def opened(*nodes: MeshNode) -> AsyncIterator[None]:
    """Listening nodes, closed in the end."""
    try:
        for node in nodes:
            node.address = await node.mesh.open(node, "tcp://127.0.0.1:*")
        yield
    finally:
        for node in nodes:
            await node.mesh.close()
