"""Nodes for the tests of links: a transport over some wire, and a record of all that it told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mesh.bounds import MeshBounds
from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.tokens import JoinClaim
from mesh.links.link_table import LinkTable
from mesh.links.transport import Dial, Wire
from mesh.membership.membership import Backoff
from tests.patience import HANG_S

LIMIT_S = HANG_S
BOUNDS = MeshBounds(heartbeat_s=0.2, lost_after_s=HANG_S)
SOON_LOST = MeshBounds(heartbeat_s=0.2, lost_after_s=2.0)
"""For what is about silence; nothing else is to lose a link because its machine stood still."""
QUICK = Backoff(base_s=0.02, max_s=0.2)


class LinkNode:
    """A node with links. ``allow``: who may come in, everybody when None."""

    def __init__(self, me: Identity, wire: Wire, bounds: MeshBounds = BOUNDS) -> None:
        self.me = me
        self.origin = me.origin
        self.links = LinkTable(me, wire, bounds, QUICK)
        self.address = ""
        self.allow: set[str] | None = None
        self.messages: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.up: set[str] = set()
        self.on_open: Callable[[str], None] = lambda origin: None
        self.take: Callable[[str, bytes], None] = lambda origin, data: self.messages.put_nowait(
            (origin, data)
        )

    async def open(self, listen: str | None = "tcp://127.0.0.1:*") -> LinkNode:
        self.address = await self.links.open(self, listen)
        return self

    def call(self, other: LinkNode, address: str = "") -> None:
        self.links.dial(Dial(address or other.address, other.origin))

    async def event(self, kind: str) -> str:
        """The text of the next event of that kind (up, down, refused); others before it are passed over."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                seen, text = await self.events.get()
                if seen == kind:
                    return text

    async def message(self) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            return (await self.messages.get())[1]

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        return "" if self.allow is None or peer.origin in self.allow else "a stranger here"

    def recognise(self, peer: PeerIdentity) -> str:
        return ""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        self.up.add(peer.origin)
        self.events.put_nowait(("up", peer.origin))
        self.on_open(peer.origin)

    def on_down(self, origin: str, why: str) -> None:
        self.up.discard(origin)
        self.events.put_nowait(("down", why))

    def on_message(self, origin: str, message: bytes) -> None:
        self.take(origin, message)

    def on_refused(self, who: str, why: str) -> None:
        self.events.put_nowait(("refused", why))


@asynccontextmanager
async def running(*nodes: LinkNode) -> AsyncIterator[None]:
    """Nodes that are closed in the end, whatever happens."""
    try:
        yield
    finally:
        for node in nodes:
            await node.links.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells, a turn of the loop at a time."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)
