"""The mesh's door cannot be kept shut: a peer gets in while strangers hold every place there is."""

from __future__ import annotations

import asyncio

import pytest

from mesh.bounds import MeshBounds
from mesh.links.session import Session
from mesh.wire import zmq_listener
from tests.mesh.links.test_transport import run
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY
from tests.mesh.twins.flood import flood
from tests.mesh.twins.link_nodes import LinkNode, running, until
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.tcp_land import TcpLand

BOUNDS = MeshBounds(
    handshake_timeout_s=60.0, half_open_sessions=8, half_open_per_address=4, heartbeat_s=0.2, lost_after_s=2.0
)


class Crowd:
    """Begins handshakes and ends none; begins another one for each that is dropped."""

    def __init__(self, network: MemoryNetwork, host: str, address: str) -> None:
        self._wire = network.wire(BOUNDS, host)
        self._address = address
        self.dropped = 0

    async def come(self, many: int) -> None:
        await self._wire.open(self, None)
        for _ in range(many):
            self._begin()

    def _begin(self) -> None:
        self._wire.send(self._wire.dial(self._address), Session(True, MALLORY).start())

    def on_frame(self, conn: int, frame: bytes) -> None:
        """The answer, which is not answered."""

    def on_gone(self, conn: int, why: str) -> None:
        self.dropped += 1
        asyncio.get_running_loop().call_later(0.001, self._begin)

    def on_writable(self, conn: int) -> None:
        """There is nothing to say."""


@pytest.mark.parametrize("hosts", [["elsewhere"], ["h1", "h2", "h3"]], ids=["one address", "three addresses"])
def test_a_peer_gets_in_while_others_hold_every_half_open_session(hosts: list[str]) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice = await LinkNode(ALICE, network.wire(BOUNDS), BOUNDS).open()
        bob = await LinkNode(BOB, network.wire(BOUNDS, "bobs"), BOUNDS).open(None)
        crowds = [Crowd(network, host, alice.address) for host in hosts]
        async with running(alice, bob):
            for crowd in crowds:
                await crowd.come(10)
            await until(lambda: all(crowd.dropped for crowd in crowds))
            bob.call(alice)
            assert await bob.event("up") == alice.origin

    run(main)


def test_a_peer_gets_in_while_another_address_holds_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq_listener, "STRANGERS", 8)
    monkeypatch.setattr(zmq_listener, "STRANGERS_PER_ADDRESS", 4, raising=False)

    async def main() -> None:
        land = TcpLand()
        alice = await LinkNode(ALICE, land.wire(BOUNDS), BOUNDS).open()
        bob = await LinkNode(BOB, land.wire(BOUNDS), BOUNDS).open(None)
        host, _, port = alice.address.removeprefix("tcp://").rpartition(":")
        async with running(alice, bob):
            source = ("127.0.0.2", 0)
            async with flood(lambda: asyncio.open_connection(host, int(port), local_addr=source), 24):
                bob.call(alice)
                assert await bob.event("up") == alice.origin

    run(main)
