"""Every frame that a peer of the allow list can send, true and false, against the node's own links, mesh and kernel.

The peer is real as far as its keys go: each link is a true handshake, and what it then says is sealed as it should be,
unless the frame itself is what is wrong. Behind the links are a real mesh, a real kernel and a real ledger.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from chain.notes.note import join_note
from mesh.bounds import MeshBounds
from mesh.errors import NoiseError
from mesh.gossip.adverts import ProcessAdvert, make_advert
from mesh.identity.identity import Identity, NoiseKey
from mesh.identity.peers import DEFAULT_MAY, Peer
from mesh.links.frames import CONTROL, END, HANDSHAKE, PART, PART_BYTES, RESET, SEALED, WHOLE, pack_frame
from mesh.links.link_table import LinkTable
from mesh.mesh import Mesh
from tests.kernel.control.test_control import control_of
from tests.kernel.twins.kernel_twin import Twin, kernel_twin
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.rogue import Rogue
from tests.patience import HANG_S
from tests.prove.fuzz_watch import Fuzzed, Watch
from tests.prove.hostile_values import HostileValues

FRAMES_PER_LINK = 24
ENOUGH_LINKS = 10**9  # how often a peer may come is not what is tried here
EVERY_RIGHT = frozenset(("send", "ps", "spawn", "kill"))


def node_identity(number: int, name: str) -> Identity:
    keys = Keys(bytes([number] * 32), bytes([number + 100] * 32))
    return Identity(keys, NoiseKey.from_secret(bytes([number + 50] * 32)), name, f"{number:016x}")


def head_note(me: Identity, size: int) -> bytes:
    """A head under both of its node's signatures, of a ledger that never was."""
    text = TreeHead(me.origin, size, bytes(32)).text()
    return join_note(text, me.keys.ed25519_line(text), me.keys.mldsa_line(text))


class HostileEnd:
    """The other end of one connection after the other, on the wire itself."""

    def __init__(self, network: MemoryNetwork, me: Identity) -> None:
        self.me = me
        self._wire = network.wire()
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._conn = 0
        self._rogue = Rogue(me)

    async def open(self) -> None:
        await self._wire.open(self, None)

    def on_frame(self, conn: int, frame: bytes) -> None:
        if conn == self._conn:
            self._frames.put_nowait(frame)

    def on_gone(self, conn: int, why: str) -> None:
        if conn == self._conn:
            self._frames.put_nowait(None)

    def on_writable(self, conn: int) -> None:
        """What was not taken is not sent again: the wire of a hostile peer need not be whole."""

    async def dial(self, address: str) -> None:
        """A link that is open, as any other peer gets it."""
        if self._conn:
            self._wire.close(self._conn)
        self._frames = asyncio.Queue()
        self._rogue = Rogue(self.me)
        self._conn = self._wire.dial(address)
        self.say_frame(self._rogue.first())
        second = await self._next()
        assert second is not None, "the node does not answer a peer"
        self.say_frame(self._rogue.third(second))
        self.say_frame(self._rogue.control({"op": "enter"}))
        welcome = await self._next()
        assert welcome is not None, "the node does not let a peer in"
        assert msgpack.unpackb(self._rogue.opened(welcome)[1:]) == {"op": "welcome"}

    def say_frame(self, frame: bytes) -> None:
        self._wire.send(self._conn, frame)

    def say(self, plaintext: bytes, number: int | None = None) -> None:
        self.say_frame(self._rogue.sealed(plaintext, number))

    def say_message(self, message: bytes) -> None:
        """Whole, or in parts, as a good peer would."""
        last = (len(message) - 1) // PART_BYTES * PART_BYTES
        for at in range(0, last, PART_BYTES):
            self.say(bytes((PART,)) + message[at : at + PART_BYTES])
        self.say(bytes((END if last > 0 else WHOLE,)) + message[max(last, 0) :])

    async def answered(self, ref: int) -> bool:
        """Whether the node answered the question ``ref``; False when it ended the link first."""
        while (frame := await self._next()) is not None:
            try:
                plain = self._rogue.opened(frame)
            except NoiseError:
                continue
            if plain[:1] == bytes((WHOLE,)) and len(plain) > 1:
                op = msgpack.unpackb(plain[1:])
                if op["op"] == "down" and op["ref"] == ref:
                    return True
        return False

    async def _next(self) -> bytes | None:
        return await asyncio.wait_for(self._frames.get(), HANG_S)


class PeerFuzz:
    """The node under fuzz, and one link after the other."""

    def __init__(self, twin: Twin, mesh: Mesh, end: HostileEnd, address: str, seed: str) -> None:
        self._twin = twin
        self._mesh = mesh
        self._end = end
        self._address = address
        self._rng = random.Random(seed)
        self._values = HostileValues(self._rng)
        self._number = self._version = 0
        self.frames = self.links = 0

    async def link(self) -> None:
        """One link: frames one after the other, each followed by a question that a good node answers."""
        await self._end.dial(self._address)
        self.links += 1
        for _ in range(FRAMES_PER_LINK):
            self.frames += 1
            if self._rng.random() < 0.1:
                self._false_frame()
            else:
                self._end.say_message(self._values.payload(self._true_op()))
            self._end.say_message(msgpack.packb({"op": "monitor", "ref": self.frames, "target": "nobody"}))
            if not await self._end.answered(self.frames):
                return

    async def healthy(self) -> None:
        """A message of a good peer is still taken."""
        await self._end.dial(self._address)
        before = self._twin.kernel.state.tally.accepted
        self._end.say_message(msgpack.packb(self._message()))
        self._end.say_message(msgpack.packb({"op": "monitor", "ref": 1, "target": "nobody"}))
        assert await self._end.answered(1)
        assert self._twin.kernel.state.tally.accepted == before + 1

    def _false_frame(self) -> None:
        """A frame that is no message of a session, or a message in a wrong place."""
        rng, end = self._rng, self._end
        word = {"op": rng.choice(("close", "enter", "welcome", "refused", "x")), "why": self._values.junk()}
        kinds: tuple[Callable[[], None], ...] = (
            lambda: end.say_frame(pack_frame(RESET, 0, b"")),
            lambda: end.say_frame(pack_frame(HANDSHAKE, rng.randrange(3), rng.randbytes(rng.randrange(200)))),
            lambda: end.say_frame(pack_frame(SEALED, rng.getrandbits(64), rng.randbytes(rng.randrange(200)))),
            lambda: end.say_frame(rng.randbytes(rng.randrange(300))),
            lambda: end.say(bytes((CONTROL,)) + self._values.payload(word)[:60_000]),
            lambda: end.say(bytes((PART,)) + bytes(rng.choice((0, 5, PART_BYTES)))),
            lambda: end.say(bytes((END,)) + bytes(rng.choice((0, 5, PART_BYTES)))),
            lambda: end.say(rng.randbytes(rng.randrange(40))),
            lambda: end.say(b""),
            lambda: end.say(bytes((WHOLE,)) + b"x", number=rng.getrandbits(64)),
        )
        rng.choice(kinds)()

    def _true_op(self) -> dict[str, Any]:
        """An op that a peer may send, of any kind; what is packed within it is now and then garbled there."""
        rng, ref = self._rng, self._rng.randrange(2**20)
        target = rng.choice(("ada", "/user/ada", "2", "nobody"))
        request = {"name": f"c{ref}", "behaviour": "agent", "tools": ["calculator"], "restart": "temporary"}
        kinds: tuple[Callable[[], dict[str, Any]], ...] = (
            self._message,
            self._advert,
            lambda: {"op": "head", "note": self._inner(head_note(self._end.me, rng.randrange(1, 2**20)))},
            lambda: {"op": "hello", "hello": self._inner(self._end.me.hello)},
            lambda: {"op": "ack", "n": ref, "id": "m1"},
            lambda: {"op": "refused", "n": ref, "id": "m1", "why": "because"},
            lambda: {"op": "result", "ref": rng.randrange(4), "ok": {"address": "/user/x", "pid": 7}},
            lambda: {"op": "result", "ref": rng.randrange(4), "code": "not_found", "why": "because"},
            lambda: {"op": "monitor", "ref": ref, "target": target},
            lambda: {"op": "demonitor", "ref": ref},
            lambda: {"op": "down", "ref": ref, "reason": "normal"},
            lambda: {"op": "spawn", "ref": ref, "request": request},
            lambda: {"op": "kill", "ref": ref, "target": f"c{ref}", "signal": "kill"},
        )
        return rng.choices(kinds, (8, 2, 2, *[1] * (len(kinds) - 3)))[0]()

    def _inner(self, data: bytes) -> bytes:
        return data if self._rng.random() < 0.5 else self._values.garbled(data)

    def _message(self) -> dict[str, Any]:
        self._number += 1
        letter = {
            "to": "ada", "sender": "/user/eve", "text": "hi", "session": f"s{self._number % 7}", "wants_reply": False,
            "ttl_us": 0, "waiting": [], "trace": bytes(16), "answers": "", "status": "", "rights": None,
        }  # fmt: skip
        body = self._values.payload(letter) if self._rng.random() < 0.5 else msgpack.packb(letter)
        n = self._number
        return {"op": "message", "n": n, "id": f"m{n}", "settled": n - 1, "body": body}

    def _advert(self) -> dict[str, Any]:
        self._version += 1
        me = self._end.me
        rows = [ProcessAdvert(pid, f"/user/p{pid}", f"p{pid}", "running", "agent") for pid in range(30)]
        data = make_advert(me.keys, me.boot, self._version, me.name, rows)
        if self._rng.random() < 0.5:  # signed by the peer's own key, whatever it says
            body = self._values.payload(msgpack.unpackb(data[64:]))
            data = me.keys.sign_ed25519(b"weftos/mesh/advert/1\n" + body) + body
        return {"op": "advert", "advert": data}


async def fuzz_peer(place: Path, frames: int, seed: str, tell: Callable[[int], None]) -> Fuzzed:
    """Half of them from a peer with the default rights, half from one with every right."""
    network = MemoryNetwork()
    me, eve = node_identity(1, "a"), node_identity(2, "eve")
    mesh = Mesh(me, place / "mesh-files", LinkTable(me, network.wire(), MeshBounds(links=ENOUGH_LINKS)))
    async with kernel_twin(place, mesh=mesh, name="a") as twin:
        remote = twin.kernel.remote
        control_of(twin)  # which gives the peers' services what serves them
        await remote.open("tcp://memory:*")
        address = remote.address
        end = HostileEnd(network, eve)
        await end.open()
        await twin.spawn("ada")
        handled = asyncio.ensure_future(_handle(twin))
        try:
            with Watch() as watch:
                fuzz = PeerFuzz(twin, mesh, end, address, seed)
                for half, may in ((frames // 2, DEFAULT_MAY), (frames, EVERY_RIGHT)):
                    mesh.add_peer(Peer("eve", eve.origin, "", may))
                    warm = may == DEFAULT_MAY
                    while fuzz.frames < half:
                        await fuzz.link()
                        if warm and fuzz.frames >= min(half // 2, 5_000):
                            warm = False
                            watch.warm()
                        tell(min(fuzz.frames, frames))
                    mesh.remove_peer("eve")
                return watch.result(fuzz.frames, fuzz.links)
        finally:
            handled.cancel()
            await mesh.close()


async def _handle(twin: Twin) -> None:
    """Answer each message at once, as an agent with nothing to do."""
    while True:
        twin.finish(await twin.cells.deliveries.get())
