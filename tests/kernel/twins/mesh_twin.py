"""Kernels joined by a mesh in memory: links that come and go, and lose what is on the way when they go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgpack

from chain.disk import Disk
from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from kernel.bounds import Bounds
from kernel.peer.mesh_port import NoMesh
from kernel.policy.proposal import Gate
from mesh.errors import LinkDown, PeersError
from mesh.gossip.adverts import AdvertTable, make_advert, read_advert
from mesh.gossip.events import MeshEvents
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import DEFAULT_MAY, AllowList, Peer
from mesh.membership.membership import Member, PeerEvent, advance
from mesh.mesh import PeerView
from tests.kernel.control.test_control import control_of
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin, kernel_twin
from weftos.node.gates import GATES

Op = dict[str, Any]


class TwinMesh(NoMesh):
    """The mesh of one node. ``lose(op)``: which of its ops never arrive; ``said`` and ``cuts``: what was done."""

    def __init__(self, name: str, number: int) -> None:
        keys = _keys(number)
        super().__init__(keys.origin)
        self.name = name
        self.keys = keys
        self.identity = PeerIdentity(keys.origin, keys.ed25519, keys.mldsa, name, f"{number:016x}")
        self.list = AllowList()
        self.remote: MeshEvents
        self.links: dict[str, TwinMesh] = {}
        self.number = 0
        self.members: dict[str, Member] = {}
        self.adverts = AdvertTable()
        self.version = 0
        self.heads: list[bytes] = []
        self.conflicts: dict[str, HeadConflict] = {}
        self.lose: Callable[[Op], bool] = lambda op: False
        self.said: list[Op] = []
        self.cuts: list[str] = []

    async def open(self, events: MeshEvents, listen: str | None) -> str:
        self.remote = events
        return ""

    def peer(self, name: str) -> Peer | None:
        return self.list.named(name)

    def peers(self) -> tuple[PeerView, ...]:
        return tuple(
            PeerView(
                peer,
                self._member(peer.origin),
                self.adverts.of(peer.origin),
                None,
                None,
                self.conflicts.get(peer.origin),
            )
            for peer in self.list
        )

    def check_change(self, add: Peer | None = None, remove: str = "") -> None:
        if add is not None:
            self.list.with_peer(add)

    def add_peer(self, peer: Peer) -> None:
        self.list = self.list.with_peer(peer)

    def remove_peer(self, name: str) -> Peer:
        peer = self.list.named(name)
        if peer is None:
            raise PeersError(f"no peer {name}")
        self.list = self.list.without(name)
        return peer

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None:
        other = self.links.get(origin)
        if other is None:
            raise LinkDown(f"there is no link to {origin}")
        self.said.append(dict(op))
        if not self.lose(dict(op)):
            arrived = msgpack.unpackb(msgpack.packb(op))
            asyncio.get_running_loop().call_soon(self._arrive, other, self.number, arrived)

    def _arrive(self, other: TwinMesh, number: int, op: Op) -> None:
        peer = other.list.get(self.origin)
        if self.number == number and peer is not None and self.origin in other.links:
            other.remote.on_op(peer, op)

    def cut(self, origin: str, why: str) -> None:
        self.cuts.append(why)
        other = self.links.get(origin)
        if other is not None:
            unlink(self, other, why)

    def processes_changed(self) -> None:
        self.version += 1
        for other in self.links.values():
            peer = other.list.get(self.origin)
            if peer is not None and "ps" in self.list.named(other.origin).may:  # type: ignore[union-attr]  # linked
                data = make_advert(
                    self.keys, self.identity.boot, self.version, self.name, self.remote.processes()
                )
                advert = read_advert(data, self.origin, self.keys.ed25519.public_key)
                other.adverts.take(advert, self.identity.boot)

    def publish_head(self, note: bytes) -> None:
        self.heads.append(note)

    def decide_head(self, name: str, take: bool, remarks: Mapping[str, object]) -> TreeHead:
        conflict = self.conflicts.pop(name)
        return conflict.shown_head if take else conflict.kept_head

    def _member(self, origin: str) -> Member:
        return self.members.get(origin) or Member(origin)

    def advance(self, origin: str, event: PeerEvent, why: str = "") -> None:
        self.members[origin] = advance(
            self._member(origin), event, self.now_s(), boot=self.identity.boot, why=why
        )

    def hear(self, call: Callable[..., None], *words: object) -> None:
        """Its kernel is told of a link."""
        call(*words)

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()


@cache
def _keys(number: int) -> Keys:
    return Keys(bytes([number] * 32), bytes([number + 100] * 32))


def link(one: TwinMesh, other: TwinMesh) -> None:
    """A link between two nodes; a new one when there was one."""
    for here, there in ((one, other), (other, one)):
        here.number += 1
        here.links[there.origin] = there
        here.advance(there.origin, PeerEvent.OPENED)
    for here, there in ((one, other), (other, one)):
        peer = here.list.get(there.origin)
        assert peer is not None
        here.processes_changed()
        here.hear(here.remote.on_up, peer, there.identity)


def unlink(one: TwinMesh, other: TwinMesh, why: str = "the wire was cut") -> None:
    """The link is lost, with everything on its way."""
    for here, there in ((one, other), (other, one)):
        here.number += 1
        del here.links[there.origin]
        here.advance(there.origin, PeerEvent.CLOSED, why)
    for here, there in ((one, other), (other, one)):
        peer = here.list.get(there.origin)
        if peer is not None:
            here.hear(here.remote.on_down, peer, why)


@dataclass
class NodeTwin:
    """A kernel, its mesh, and its doors."""

    twin: Twin
    mesh: TwinMesh
    control: Doors
    log: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.mesh.origin

    def op(self, sender: NodeTwin, op: Op) -> None:
        """What a hostile ``sender`` says, past its own kernel."""
        peer = self.mesh.list.get(sender.origin)
        assert peer is not None
        self.twin.kernel.remote.on_op(peer, op)


@asynccontextmanager
async def node_twin(
    directory: Path,
    name: str,
    number: int,
    bounds: Bounds | None = None,
    disk: Disk | None = None,
    gates: Sequence[Gate] = GATES,
    **options: Any,
) -> AsyncIterator[NodeTwin]:
    """One node without peers; a second time on the same directory it has rebooted."""
    directory.mkdir(exist_ok=True)
    mesh = TwinMesh(name, number)
    async with kernel_twin(directory, bounds, disk, gates=gates, mesh=mesh, name=name, **options) as twin:
        await twin.kernel.remote.open(None)
        yield NodeTwin(twin, mesh, control_of(twin))


def befriend(
    one: NodeTwin, other: NodeTwin, may: frozenset[str] = DEFAULT_MAY, tools: frozenset[str] | None = None
) -> None:
    """Each in the allow list of the other, with the same rights and ceiling, and linked."""
    for here, there in ((one, other), (other, one)):
        here.mesh.add_peer(Peer(there.mesh.name, there.origin, "", may, tools))
    link(one.mesh, other.mesh)


def on_pair(
    tmp_path: Path,
    body: Callable[[NodeTwin, NodeTwin], Awaitable[None]],
    may: frozenset[str] = DEFAULT_MAY,
    bounds: Bounds | None = None,
    tools: frozenset[str] | None = None,
    disk: Disk | None = None,
    gates: Sequence[Gate] = GATES,
    **options: Any,
) -> None:
    """``body`` with two linked nodes, called a and b; ``disk`` and ``options`` are of a, and ``gates`` of b."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(node_twin(tmp_path / "a", "a", 1, bounds, disk, **options))
            b = await stack.enter_async_context(node_twin(tmp_path / "b", "b", 2, bounds, gates=gates))
            befriend(a, b, may, tools)
            await body(a, b)

    asyncio.run(run())


async def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait for something that no event tells of, a round of the loop at a time."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


def balance(node: NodeTwin) -> tuple[int, int, int, int, int]:
    """accepted, acknowledged, dead, dropped, in flight; the first is always the sum of the others."""
    state = node.twin.kernel.state
    tally = state.tally
    found = (tally.accepted, tally.acknowledged, tally.dead, tally.dropped, state.in_flight)
    assert found[0] == sum(found[1:])
    return found
