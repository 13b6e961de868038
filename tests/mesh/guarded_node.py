"""``guarded_node.py DIRECTORY [--open]``: a node's real mesh listening on loopback, with nothing above it.

Keys, allow list and tokens are those of DIRECTORY (``keys/``, ``mesh/``). Says on its first line where it
listens; when its standard input ends, a second line tells what got through: messages delivered, peers that came
up, refusals, and the most memory it ever had. Both lines are JSON. With ``--open`` it lets in everybody, so that a
test of its tests can see them fail.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from chain.keys import load_keys
from mesh.bounds import MeshBounds
from mesh.errors import TokenRefused
from mesh.identity import Identity, NoiseKey, PeerIdentity
from mesh.links import Links
from mesh.peers import Peer, PeerStore
from mesh.tokens import JoinClaim, TokenStore
from mesh.transport import Dial
from mesh.zmq_link import ZmqWire

BOUNDS = MeshBounds(handshake_timeout_s=1.0, heartbeat_s=0.5, lost_after_s=30.0)


class Guard:
    """Lets in who is listed or holds a good token, and keeps account."""

    def __init__(self, directory: Path, origin: str, open_house: bool) -> None:
        self._peers = PeerStore(directory / "mesh")
        self._tokens = TokenStore(directory / "mesh", origin)
        self._open_house = open_house
        self.seen: dict[str, list[Any]] = {"delivered": [], "up": [], "refused": []}

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        listed = self._peers.load()
        if self._open_house or listed.get(peer.origin) is not None:
            return ""
        if join is None:
            return "not in the allow list"
        try:
            self._tokens.redeem(join, handshake_hash, peer.origin, time.time_ns() // 1000)
        except TokenRefused as refused:
            return f"token {refused.rule}"
        self._peers.add(Peer(listed.petname(peer.name), peer.origin))
        return ""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        self.seen["up"].append(peer.origin)

    def on_down(self, origin: str, why: str) -> None:
        pass

    def on_message(self, origin: str, message: bytes) -> None:
        self.seen["delivered"].append(message[:40].decode(errors="replace"))

    def on_refused(self, who: str, why: str) -> None:
        self.seen["refused"].append(why)


async def serve(directory: Path, open_house: bool) -> None:
    keys = load_keys(directory / "keys")
    me = Identity(keys, NoiseKey.create_or_load(directory / "keys"), "guarded", "0" * 16)
    guard = Guard(directory, keys.origin, open_house)
    links = Links(me, ZmqWire(BOUNDS), BOUNDS)
    address = await links.open(guard, "tcp://127.0.0.1:*")
    print(json.dumps({"address": address, "origin": keys.origin}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await links.close()
    print(json.dumps(guard.seen | {"most_mib": most_mib()}), flush=True)


def most_mib() -> int:
    """The most memory this process ever had (``getrusage`` would count its parent's, from before exec)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2:] == ["--open"]))
