"""The transport, over ZeroMQ and over its twin in memory: the same tests for both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgpack
import pytest

from mesh.bounds import MAX_MESSAGE_BYTES, MeshBounds
from mesh.delivery.delivery import (
    Again,
    Delivered,
    Effect,
    GivenUp,
    Inbox,
    New,
    Outbox,
    Parcel,
    Send,
    read_answer,
    read_envelope,
)
from mesh.errors import LinkDown, LinkFull, MessageTooLarge, TransportError
from mesh.links.link import QUEUE_BYTES
from mesh.links.link_table import TOO_OFTEN
from mesh.links.session import Session
from mesh.links.transport import Dial
from mesh.wire import zmq_listener
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY, identity
from tests.mesh.twins.leaping_loop import leap
from tests.mesh.twins.leaping_loop import run as run_on
from tests.mesh.twins.link_nodes import BOUNDS, SOON_LOST, LinkNode, running, until
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.tcp_land import TcpLand
from tests.patience import HANG_S

Land = MemoryNetwork | TcpLand
SIZES = (1, 200, 65_517, 65_518, 65_519, 65_535, 65_536, 200_000, MAX_MESSAGE_BYTES)


@pytest.fixture(params=[MemoryNetwork, TcpLand], ids=["memory", "zmq"])
def land(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Land:
    monkeypatch.setattr(zmq_listener, "GRACE_S", 2.0)  # the reason of an end goes out also when all is slow
    made: Land = request.param()
    return made


def run(main: Callable[[], Awaitable[None]], land: Land | None = None) -> None:
    run_on(main, leaping=isinstance(land, MemoryNetwork))


async def pair(land: Land, bounds: MeshBounds = BOUNDS) -> tuple[LinkNode, LinkNode]:
    alice, bob = LinkNode(ALICE, land.wire(bounds), bounds), LinkNode(BOB, land.wire(bounds), bounds)
    return await alice.open(), await bob.open()


def test_messages_of_every_size_arrive_whole_and_in_order_both_ways(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            bob.call(alice)
            assert await bob.event("up") == alice.origin
            assert await alice.event("up") == bob.origin
            sent = [random.Random(size).randbytes(size) for size in (*SIZES, 1, 1, 300_000, 2)]
            for message in sent:
                bob.links.send(alice.origin, message)
                async with asyncio.timeout(HANG_S):
                    while True:
                        try:
                            alice.links.send(bob.origin, message)
                            break
                        except LinkFull:
                            await asyncio.sleep(0.01)
            assert [await alice.message() for _ in sent] == sent
            assert [await bob.message() for _ in sent] == sent

    run(main, land)


def test_twenty_thousand_small_messages_keep_their_order(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            bob.call(alice)
            await bob.event("up")
            for number in range(20_000):
                bob.links.send(alice.origin, b"%d" % number)
            assert [int(await alice.message()) for _ in range(20_000)] == list(range(20_000))

    run(main, land)


def test_both_call_at_once_and_one_link_is_left(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            alice.call(bob)
            bob.call(alice)
            await alice.event("up")
            await bob.event("up")
            await until(lambda: alice.links.connections == bob.links.connections == 1)
            alice.links.send(bob.origin, b"ping")
            assert await bob.message() == b"ping"
            bob.links.send(alice.origin, b"pong")
            assert await alice.message() == b"pong"

    run(main, land)


def test_a_silent_peer_is_lost_and_comes_back(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land, SOON_LOST)
        proxy = await land.proxy(alice.address)
        async with running(alice, bob):
            bob.call(alice, proxy.address)
            await bob.event("up")
            await alice.event("up")
            proxy.freeze()
            assert "silent for 2 s" in await bob.event("down")
            assert "silent for 2 s" in await alice.event("down")
            with pytest.raises(LinkDown, match="no link"):
                bob.links.send(alice.origin, b"lost")
            proxy.thaw()
            await bob.event("up")
            await alice.event("up")
            bob.links.send(alice.origin, b"found")
            assert await alice.message() == b"found"
        await proxy.close()

    run(main, land)


def test_an_idle_link_stays(land: Land) -> None:
    async def main() -> None:
        bounds = MeshBounds(heartbeat_s=0.05, lost_after_s=1.0)
        alice, bob = await pair(land, bounds)
        async with running(alice, bob):
            bob.call(alice)
            await bob.event("up")
            began_s = asyncio.get_running_loop().time()
            await until(lambda: asyncio.get_running_loop().time() > began_s + 1.5)
            assert alice.up == {bob.origin} and bob.up == {alice.origin}
            assert alice.messages.empty() and bob.messages.empty()

    run(main, land)


@pytest.mark.parametrize("fault", ["cut", "garble"])
def test_a_link_that_is_cut_or_garbled_heals_by_a_new_session(land: Land, fault: str) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        proxy = await land.proxy(alice.address)
        async with running(alice, bob):
            bob.call(alice, proxy.address)
            await bob.event("up")
            for number in range(3):
                getattr(proxy, fault)()
                if fault == "garble":
                    bob.links.send(alice.origin, b"spoilt")
                await bob.event("down")
                await bob.event("up")
                bob.links.send(alice.origin, b"%d" % number)
                assert await alice.message() == b"%d" % number
        await proxy.close()

    run(main, land)


def test_a_stranger_is_told_why_it_may_not_come_in(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        alice.allow = {MALLORY.origin}
        async with running(alice, bob):
            bob.call(alice)
            assert "a stranger here" in await bob.event("refused")
            assert "a stranger here" in await alice.event("refused")
            assert not bob.up and not alice.up
            alice.allow.add(bob.origin)
            assert await bob.event("up") == alice.origin

    run(main, land)


def test_somebody_else_at_the_address_is_not_talked_to(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            bob.links.dial(Dial(alice.address, MALLORY.origin))
            assert f"{alice.origin}, expected was {MALLORY.origin}" in await bob.event("refused")
            assert not bob.up and not alice.up

    run(main, land)


def test_a_node_that_is_not_there_yet_is_called_until_it_is(land: Land) -> None:
    async def main() -> None:
        alice, bob = LinkNode(ALICE, land.wire()), LinkNode(BOB, land.wire())
        address = land.free_address()
        await bob.open(None)
        async with running(alice, bob):
            bob.call(alice, address)
            await bob.event("refused")
            await bob.event("refused")
            await alice.open(address)
            assert await bob.event("up") == alice.origin

    run(main, land)


def test_a_call_that_raises_is_made_again(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        alice, bob_wire = await LinkNode(ALICE, land.wire()).open(), land.wire()
        bob = await LinkNode(BOB, bob_wire).open()
        dial = bob_wire.dial

        def failing(address: str) -> int:
            monkeypatch.setattr(bob_wire, "dial", dial)
            raise MemoryError

        async with running(alice, bob):
            monkeypatch.setattr(bob_wire, "dial", failing)
            bob.call(alice)
            assert await bob.event("up") == alice.origin

    run(main, land)


def test_a_fault_at_the_end_of_a_link_keeps_nobody_from_being_looked_after(
    land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        alice, bob = await pair(land, SOON_LOST)
        carol = await LinkNode(identity(9), land.wire(SOON_LOST), SOON_LOST).open()
        proxies = [await land.proxy(alice.address), await land.proxy(carol.address)]
        told = bob.on_down

        def failing(origin: str, why: str) -> None:
            monkeypatch.setattr(bob, "on_down", told)
            told(origin, why)
            raise MemoryError

        async with running(alice, bob, carol):
            for other, proxy in zip((alice, carol), proxies, strict=True):
                bob.call(other, proxy.address)
                await bob.event("up")
            monkeypatch.setattr(bob, "on_down", failing)
            for proxy in proxies:
                proxy.freeze()
            await bob.event("down")
            await bob.event("down")
            for proxy in proxies:
                proxy.thaw()
            await until(lambda: bob.up == {alice.origin, carol.origin})
        for proxy in proxies:
            await proxy.close()

    run(main, land)


def test_an_address_in_use_or_that_is_none_is_an_error(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            other = LinkNode(MALLORY, land.wire())
            with pytest.raises(TransportError, match="cannot listen on"):
                await other.open(alice.address)
            bob.call(alice, "nonsense")
            assert "cannot dial nonsense" in await bob.event("refused")

    run(main, land)


def test_a_dropped_peer_is_cut_and_not_called_again(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            bob.call(alice)
            await bob.event("up")
            await alice.event("up")
            alice.allow = set()
            alice.links.drop(bob.origin, "no longer a peer")
            assert await alice.event("down") == "no longer a peer"
            assert "no longer a peer" in await bob.event("down")
            assert "a stranger here" in await bob.event("refused")
            bob.links.drop(alice.origin, "given up")
            await until(lambda: not bob.links.connections and not alice.links.connections)

    run(main, land)


def test_a_node_without_links_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        later, ticks = loop.call_later, 0

        def counted(delay_s: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
            nonlocal ticks
            ticks += getattr(call, "__self__", None) is alice.links
            return later(delay_s, call, *args)

        alice, bob = await pair(MemoryNetwork())
        monkeypatch.setattr(loop, "call_later", counted)
        async with running(alice, bob):
            await asyncio.sleep(2 * BOUNDS.heartbeat_s)
            assert ticks == 0
            bob.call(alice)
            await alice.event("up")
            await until(lambda: ticks > 2)
            bob.links.drop(alice.origin, "given up")
            await until(lambda: not alice.links.connections)
            before = ticks
            await asyncio.sleep(2 * BOUNDS.heartbeat_s)
            assert ticks == before

    run_on(main, leaping=True)


def test_a_node_that_stops_says_so(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            bob.call(alice)
            await bob.event("up")
            await alice.links.close()
            assert "the node stops" in await bob.event("down")

    run(main, land)


def test_what_a_peer_does_not_take_is_bounded_here(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land, MeshBounds(heartbeat_s=0.2, lost_after_s=20.0))
        proxy = await land.proxy(alice.address)
        async with running(alice, bob):
            bob.call(alice, proxy.address)
            await bob.event("up")
            proxy.freeze()
            queued, message = 0, bytes(1024 * 1024)
            with pytest.raises(LinkFull, match="wait for"):
                while True:
                    bob.links.send(alice.origin, message)
                    queued += 1
                    await asyncio.sleep(0)
            assert queued < 100
            with pytest.raises(MessageTooLarge):
                bob.links.send(alice.origin, bytes(MAX_MESSAGE_BYTES + 1))
            proxy.thaw()
            for _ in range(queued):
                assert await alice.message() == message
        await proxy.close()

    run(main, land)


def test_half_open_sessions_are_few_and_short_and_then_a_peer_comes_in(land: Land) -> None:
    async def main() -> None:
        bounds = MeshBounds(handshake_timeout_s=40.0, half_open_sessions=16, heartbeat_s=0.2)
        alice, bob = await pair(land, bounds)
        crowd = land.wire(bounds)
        async with running(alice, bob):
            await crowd.open(Deaf(), None)
            for number in range(200):
                crowd.send(crowd.dial(alice.address), Session(True, identity(number % 50 + 4)).start())
            await until(lambda: alice.links.connections == 16)
            leap(40.0)
            assert "no handshake within 40 s" in await alice.event("refused")
            await until(lambda: alice.links.connections == 0)
            bob.call(alice)
            assert await bob.event("up") == alice.origin
            await crowd.shut()

    run(main, land)


class Deaf:
    """Somebody who opens connections and never answers."""

    def on_frame(self, conn: int, frame: bytes) -> None:
        pass

    def on_gone(self, conn: int, why: str) -> None:
        pass

    def on_writable(self, conn: int) -> None:
        pass


def test_a_frame_out_of_nowhere_is_answered_with_a_reset_and_no_session(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        frames: asyncio.Queue[bytes] = asyncio.Queue()

        class Listening(Deaf):
            def on_frame(self, conn: int, frame: bytes) -> None:
                frames.put_nowait(frame)

        wire = land.wire()
        async with running(alice, bob):
            await wire.open(Listening(), None)
            for junk in (b"", b"junk", bytes(65_000), b"\x01\x02" + bytes(30)):
                wire.send(wire.dial(alice.address), junk)
                async with asyncio.timeout(HANG_S):
                    assert await frames.get() == b"\x01\x03" + bytes(8)
            assert alice.links.connections == 0
            await wire.shut()

    run(main, land)


class Post:
    """A node's outbox and inbox for one peer, over a link."""

    def __init__(self, node: LinkNode, peer: str) -> None:
        self.node, self.peer = node, peer
        self.outbox, self.inbox = Outbox(peer), Inbox(peer)
        self.effects: list[bytes] = []
        self.delivered: list[int] = []
        node.on_open = lambda origin: self.apply(self.outbox.up())
        node.take = self.take

    def send(self, op: dict[str, Any]) -> None:
        try:
            self.node.links.send(self.peer, msgpack.packb(op))
        except LinkDown:
            self.outbox.down()

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(op):
                    self.send(op)
                case Delivered(parcel):
                    self.delivered.append(parcel.number)
                case GivenUp():
                    raise AssertionError(effect)

    def take(self, origin: str, data: bytes) -> None:
        op = msgpack.unpackb(data)
        if op["op"] != "message":
            self.apply(self.outbox.answer(read_answer(op)))
            return
        message = read_envelope(op)
        match self.inbox.receive(message):
            case New():
                self.inbox.decide(message.number)
                self.effects.append(message.body)
                asyncio.get_running_loop().call_later(
                    0.002, lambda: self.send(self.inbox.stored(message.number).op())
                )
            case Again(answer):
                self.send(answer.op())


@pytest.mark.parametrize("strict", ["who is called", "who calls"])
def test_a_peer_whose_links_open_too_often_is_refused_for_a_while(land: Land, strict: str) -> None:
    async def main() -> None:
        few = MeshBounds(heartbeat_s=0.2, lost_after_s=2.0, links=3, links_per_s=1e-9)
        alice = LinkNode(ALICE, land.wire(BOUNDS), few if strict == "who is called" else BOUNDS)
        bob = LinkNode(BOB, land.wire(BOUNDS), few if strict == "who calls" else BOUNDS)
        async with running(await alice.open(), await bob.open()):
            bob.call(alice)
            for _ in range(3):
                await alice.event("up")
                alice.links.cut(bob.origin, "enough")
            judge = alice if strict == "who is called" else bob
            assert TOO_OFTEN in await judge.event("refused")
            assert TOO_OFTEN in await judge.event("refused")
            assert not alice.up

    run(main, land)


def test_a_peer_whose_links_open_too_often_comes_in_again_later(land: Land) -> None:
    async def main() -> None:
        few = MeshBounds(heartbeat_s=0.2, lost_after_s=2.0, links=1, links_per_s=2.0)
        alice, bob = LinkNode(ALICE, land.wire(few), few), LinkNode(BOB, land.wire(BOUNDS))
        async with running(await alice.open(), await bob.open()):
            bob.call(alice)
            seen = ""
            while seen != "refused":  # on a slow machine one may have come to be due meanwhile
                seen, text = await alice.events.get()
                if seen == "up":
                    alice.links.cut(bob.origin, "enough")
            assert TOO_OFTEN in text
            await alice.event("up")

    run(main, land)


def test_more_than_a_link_queues_goes_over_one_link(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        async with running(alice, bob):
            sender, receiver = Post(bob, alice.origin), Post(alice, bob.origin)
            body = bytes(512 * 1024)
            many = QUEUE_BYTES // len(body) + 1
            for number in range(many):
                sender.apply(sender.outbox.put(Parcel(number, f"m{number}", 2**62, body)))
            bob.call(alice)
            await until(lambda: len(sender.delivered) == many)
            assert sender.delivered == list(range(many)) and len(receiver.effects) == many

    run(main, land)


def test_over_a_link_that_breaks_again_and_again_nothing_is_lost_doubled_or_out_of_order(land: Land) -> None:
    async def main() -> None:
        alice, bob = await pair(land)
        proxy = await land.proxy(alice.address)
        chance = random.Random(7)
        async with running(alice, bob):
            sender, receiver = Post(bob, alice.origin), Post(alice, bob.origin)
            bob.call(alice, proxy.address)

            def has_more_than(count: int) -> bool:
                return len(receiver.effects) > count

            for number in range(600):
                sender.apply(sender.outbox.put(Parcel(number, f"m{number}", 2**62, b"%d" % number)))
                if number % 60 == 59:
                    await until(partial(has_more_than, number - 60))
                    chance.choice([proxy.cut, proxy.garble])()
                await asyncio.sleep(0.001)
            await until(lambda: len(sender.delivered) == 600)
            assert receiver.effects == [b"%d" % number for number in range(600)]
            assert sorted(sender.delivered) == list(range(600))
        await proxy.close()

    run(main, land)
