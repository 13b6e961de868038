"""The other end of the mesh's measurements: ``python -m benchmarks.mesh_peer bare|curve|mesh``.

It prints its address. A message that begins with ``e`` comes back, one with ``c`` is counted, and ``?`` is answered
with the count. ``bare`` and ``curve`` are ZeroMQ alone, with a blocking loop; ``mesh`` is a node's own links.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import zmq

from chain.keys.keys import Keys
from mesh.identity.identity import Identity, NoiseKey, PeerIdentity
from mesh.identity.tokens import JoinClaim
from mesh.links.link_table import LinkTable
from mesh.links.transport import Dial
from mesh.wire.zmq_wire import ZmqWire

SERVER_KEYS = (b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")
CLIENT_KEYS = SERVER_KEYS
"""CURVE's example keys; which keys they are changes no time."""
_NO_ROOM_S = 0.0005


def identity(number: int) -> Identity:
    """A node for measurements; the same one for the same number."""
    keys = Keys(bytes([number] * 32), bytes([number + 1] * 32))
    return Identity(keys, NoiseKey.from_secret(bytes([number + 2] * 32)), f"bench{number}", f"{number:016x}")


class Answers:
    """What both kinds of peer do with a message."""

    def __init__(self) -> None:
        self.count = 0

    def to(self, message: bytes) -> bytes | None:
        if message[:1] == b"e":
            return message
        if message[:1] == b"?":
            return b"%d" % self.count
        self.count += 1
        return None


class MeshEnd:
    """A node's links with everybody let in; ``take`` gets each message."""

    def __init__(self, number: int) -> None:
        self.me = identity(number)
        self.links = LinkTable(self.me, ZmqWire())
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.take: Callable[[str, bytes], None] = lambda origin, message: None

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        return ""

    def recognise(self, peer: PeerIdentity) -> str:
        return ""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        self.up.set()

    def on_down(self, origin: str, why: str) -> None:
        self.down.set()

    def on_message(self, origin: str, message: bytes) -> None:
        self.take(origin, message)

    def on_refused(self, who: str, why: str) -> None:
        raise RuntimeError(f"{who}: {why}")


def bare(*, curve: bool) -> None:
    """A ROUTER that answers until its process is killed."""
    router: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    if curve:
        router.curve_publickey, router.curve_secretkey = SERVER_KEYS
        router.curve_server = True
    port = router.bind_to_random_port("tcp://127.0.0.1")
    print(f"tcp://127.0.0.1:{port}", flush=True)
    answers = Answers()
    while True:
        route, message = router.recv_multipart()
        answer = answers.to(message)
        if answer is not None:
            router.send_multipart((route, answer))


async def mesh() -> None:
    """A node that answers until its process is killed."""
    end, answers = MeshEnd(2), Answers()

    def take(origin: str, message: bytes) -> None:
        answer = answers.to(message)
        if answer is not None:
            end.links.send(origin, answer)

    end.take = take
    print(await end.links.open(end, "tcp://127.0.0.1:*"), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "mesh":
        asyncio.run(mesh())
    else:
        bare(curve=sys.argv[1] == "curve")
