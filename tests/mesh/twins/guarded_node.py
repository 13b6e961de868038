"""``guarded_node.py DIRECTORY [--open] [--real]``: a node's real mesh listening on loopback, with nothing above it.

Keys, allow list and tokens are those of DIRECTORY (``keys/``, ``mesh/``). Says on its first line where it
listens; when its standard input ends, a second line tells what got through: messages delivered, peers that came
up, refusals, and the most memory it ever had. Both lines are JSON. With ``--open`` it lets in everybody, so that a
test of its tests can see them fail. With ``--real`` it is as strict as a real node: links wait no longer for a sign of
life, and an op that no kernel knows ends its link.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from chain.keys.keys import load_keys
from chain.merkle.head import TreeHead
from mesh.bounds import MeshBounds
from mesh.gossip.adverts import ProcessAdvert
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import Identity, NoiseKey, PeerIdentity
from mesh.identity.peers import Peer
from mesh.identity.tokens import JoinClaim
from mesh.links.link_table import LinkTable
from mesh.mesh import Mesh
from mesh.wire.zmq_wire import ZmqWire

BOUNDS = MeshBounds(handshake_timeout_s=1.0, heartbeat_s=0.5, lost_after_s=30.0)
REAL_BOUNDS = MeshBounds(handshake_timeout_s=2.0, heartbeat_s=0.4, lost_after_s=2.0)
"""Those of a node, in the same proportion and less than half as long."""
KNOWN = ("message", "ack", "refused")


class Account:
    """What the mesh tells a kernel, written down."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = {"delivered": [], "up": [], "refused": []}
        self.cut: Callable[[str, str], None] = lambda origin, why: None

    def processes(self) -> Iterable[ProcessAdvert]:
        return ()

    def process_count(self) -> int:
        return len(())

    def on_up(self, peer: Peer, identity: PeerIdentity) -> None:
        self.seen["up"].append(peer.name)

    def on_down(self, peer: Peer, why: str) -> None:
        pass

    def on_op(self, peer: Peer, op: dict[str, Any]) -> None:
        self.seen["delivered"].append(op["op"])
        if op["op"] not in KNOWN:
            self.cut(peer.origin, "no such operation")

    def on_refused(self, who: str, why: str) -> None:
        self.seen["refused"].append(why)

    def on_added(self, peer: Peer, how: str) -> None:
        pass

    def on_head(self, peer: Peer, head: TreeHead) -> None:
        pass

    def on_conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        pass

    async def prove(self, size1: int, size2: int) -> list[bytes]:
        raise ValueError("this node has no ledger")


class OpenHouse(Mesh):
    """Lets in whoever comes."""

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        if self.peer(peer.origin) is None:
            self.add_peer(Peer(f"guest-{len(self.peers())}", peer.origin))
        return ""


async def serve(directory: Path, options: Collection[str]) -> None:
    keys = load_keys(directory / "keys")
    me = Identity(keys, NoiseKey.create_or_load(directory / "keys"), "guarded", "0" * 16)
    account = Account()
    kind = OpenHouse if "--open" in options else Mesh
    bounds = REAL_BOUNDS if "--real" in options else BOUNDS
    mesh = kind(me, directory / "mesh", LinkTable(me, ZmqWire(bounds), bounds))
    if "--real" in options:
        account.cut = mesh.cut
    address = await mesh.open(account, "tcp://127.0.0.1:*")
    print(json.dumps({"address": address, "origin": keys.origin}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await mesh.close()
    print(json.dumps(account.seen | {"most_mib": most_mib()}), flush=True)


def most_mib() -> int:
    """The most memory this process ever had (``getrusage`` would count its parent's, from before exec)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2:]))
