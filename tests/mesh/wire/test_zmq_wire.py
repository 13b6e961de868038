"""The real wire: other processes that are killed and stopped, and connections that ZeroMQ would not guard against."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import zmq

from mesh.bounds import MeshBounds
from mesh.errors import TransportError
from mesh.links.frames import WHOLE
from mesh.links.transport import Dial
from mesh.wire.lookups import Lookups
from mesh.wire.tcp import Meter
from mesh.wire.zmq_listener import STRANGERS_PER_ADDRESS
from tests.mesh.links.test_transport import run
from tests.mesh.twins.core_nodes import ALICE, BOB, identity
from tests.mesh.twins.link_nodes import BOUNDS, SOON_LOST, LinkNode, running, until
from tests.mesh.twins.rogue import Rogue
from tests.mesh.twins.tcp_land import TcpLand
from tests.mesh.twins.zmtp import GREETING, MORE, RawDealer
from tests.patience import HANG_S
from tests.places import ROOT

LAND = TcpLand()


class Child:
    """A node in another process."""

    def __init__(self, number: int, listen: str) -> None:
        argv = [sys.executable, "-m", "tests.mesh.twins.link_child", str(number), listen]
        self.process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.origin = identity(number).origin

    async def address(self) -> str:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        return line.decode().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


async def node(bounds: MeshBounds = BOUNDS) -> LinkNode:
    return await LinkNode(BOB, LAND.wire(bounds), bounds).open()


def test_a_killed_process_is_lost_and_found_again_when_it_returns() -> None:
    async def main() -> None:
        bob = await node()
        child = Child(9, "tcp://127.0.0.1:*")
        try:
            async with running(bob):
                address = await child.address()
                peer = LinkNode(identity(9), LAND.wire())
                bob.call(peer, address)
                await bob.event("up")
                for size in (1, 70_000, 16 * 2**20):
                    bob.links.send(child.origin, bytes(size))
                    assert await bob.message() == bytes(size)
                os.kill(child.process.pid, signal.SIGKILL)
                await bob.event("down")
                child.end()
                child = Child(9, address)
                assert await bob.event("up") == child.origin
                bob.links.send(child.origin, b"again")
                assert await bob.message() == b"again"
        finally:
            child.end()

    run(main)


def test_a_stopped_process_is_lost_by_its_silence_and_found_again_when_it_goes_on() -> None:
    async def main() -> None:
        bob = await node(SOON_LOST)
        child = Child(9, "tcp://127.0.0.1:*")
        try:
            async with running(bob):
                bob.call(LinkNode(identity(9), LAND.wire()), await child.address())
                await bob.event("up")
                os.kill(child.process.pid, signal.SIGSTOP)
                assert "silent for 2 s" in await bob.event("down")
                os.kill(child.process.pid, signal.SIGCONT)
                await bob.event("up")
                bob.links.send(child.origin, b"again")
                assert await bob.message() == b"again"
        finally:
            child.end()

    run(main)


def test_two_other_processes_at_once() -> None:
    async def main() -> None:
        bob = await node()
        children = [Child(number, "tcp://127.0.0.1:*") for number in (9, 10)]
        try:
            async with running(bob):
                for child, number in zip(children, (9, 10), strict=True):
                    bob.call(LinkNode(identity(number), LAND.wire()), await child.address())
                await until(lambda: len(bob.up) == 2)
                for number in range(2_000):
                    for child in children:
                        bob.links.send(child.origin, b"%d" % number)
                heard: dict[str, list[int]] = {child.origin: [] for child in children}
                async with asyncio.timeout(HANG_S):
                    while any(len(numbers) < 2_000 for numbers in heard.values()):
                        origin, data = await bob.messages.get()
                        heard[origin].append(int(data))
                assert all(numbers == list(range(2_000)) for numbers in heard.values())
        finally:
            for child in children:
                child.end()

    run(main)


async def still_works(bob: LinkNode) -> None:
    """A peer comes in as ever."""
    alice = await LinkNode(ALICE, LAND.wire()).open(None)
    async with running(alice):
        alice.call(bob)
        await alice.event("up")
        alice.links.send(bob.origin, b"hello")
        assert await bob.message() == b"hello"


def attack(work: Callable[[str], object], bounds: MeshBounds = BOUNDS) -> None:
    """Do ``work`` to a node's address in a thread; the node must go on."""

    async def main() -> None:
        bob = await node(bounds)
        async with running(bob):
            await asyncio.to_thread(work, bob.address)
            await still_works(bob)
            assert not bob.messages.qsize()

    run(main)


def test_connections_that_say_nothing_are_cut_in_time() -> None:
    def work(address: str) -> None:
        silent = [RawDealer(address) for _ in range(100)]
        assert all(dealer.is_cut() for dealer in silent)

    attack(work, MeshBounds(handshake_timeout_s=1.0, heartbeat_s=0.2))


def test_a_fault_in_a_look_at_the_connections_is_not_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Meter.fault

    def failing(meter: Meter, now_s: float, timeout_s: float) -> str:
        monkeypatch.setattr(Meter, "fault", fault)
        raise MemoryError

    def work(address: str) -> None:
        assert RawDealer(address).is_cut()

    monkeypatch.setattr(Meter, "fault", failing)
    attack(work, MeshBounds(handshake_timeout_s=1.0, heartbeat_s=0.2))


@pytest.mark.parametrize("room", range(4))
def test_a_call_without_room_for_a_socket_or_a_reader_of_it_fails_and_leaves_nothing(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sockets and two readers there are to a call; ``room`` of these can be had."""
    made: list[zmq.Socket[bytes]] = []
    new_socket, left = zmq.Context.socket, iter(range(room))

    def socket_of(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
        if next(left, None) is None:
            raise zmq.ZMQError(errno.EMFILE)
        made.append(new_socket(context, kind))
        return made[-1]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        add_reader, remove_reader = loop.add_reader, loop.remove_reader
        reading: set[int] = set()

        def add(fd: int, read: Callable[[], None]) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, "no space")
            add_reader(fd, read)
            reading.add(fd)

        def remove(fd: int) -> bool:
            reading.discard(fd)
            return remove_reader(fd)

        monkeypatch.setattr(loop, "add_reader", add)
        monkeypatch.setattr(loop, "remove_reader", remove)
        monkeypatch.setattr(zmq.Context, "socket", socket_of)
        wire = LAND.wire()
        with pytest.raises(TransportError, match="cannot dial"):
            wire.dial(LAND.free_address())
        assert len(made) == (room + 1) // 2 and all(each.closed for each in made) and not reading

    run(main)


def test_a_name_that_nobody_answers_for_keeps_no_other_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZeroMQ would look it up in the thread of all links."""
    real, answered, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def look_up(host: str, *rest: object, **more: object) -> object:
        if host == "near.example":  # as most systems say it of localhost
            [found] = real("127.0.0.1", *rest, **more)  # type: ignore[arg-type]
            return [(socket.AF_INET6, *found[1:4], ("::1", 7400, 0, 0)), found]
        if host == "far.example":
            asked.append(host)
            assert answered.wait(HANG_S)
            raise socket.gaierror
        return real(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def main() -> None:
        bob = await node()
        alice = await LinkNode(ALICE, LAND.wire()).open(None)
        async with running(bob, alice):
            alice.links.dial(Dial("tcp://far.example:7400", identity(9).origin))
            await until(lambda: bool(asked))
            alice.call(bob, bob.address.replace("127.0.0.1", "near.example"))
            assert await alice.event("up") == bob.origin
            alice.links.send(bob.origin, b"hello")
            assert await bob.message() == b"hello"
            answered.set()
            assert await alice.event("refused") == "its host's name cannot be looked up"

    run(main)


def test_what_is_found_too_late_for_a_call_is_there_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = socket.getaddrinfo, list[str]()

    def look_up(host: str, *rest: object, **more: object) -> object:
        asked.append(host)
        return real("127.0.0.1", *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def main() -> None:
        lookups, found = Lookups(), asyncio.Queue[str]()
        for _ in range(2):
            lookups.find("tcp://slow.example:7400", found.put_nowait)
            assert await found.get() == "tcp://127.0.0.1:7400"
        assert asked == ["slow.example"]

    run(main)


def test_without_a_thread_to_look_in_a_call_by_name_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        alice = await LinkNode(ALICE, LAND.wire()).open(None)
        async with running(alice):
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                alice.links.dial(Dial("tcp://far.example:7400", identity(9).origin))
                assert await alice.event("refused") == "its host's name cannot be looked up"

    run(main)


def test_no_more_than_some_strangers_are_connected_at_once() -> None:
    def work(address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        crowd: list[socket.socket] = []
        for _ in range(400):
            with contextlib.suppress(ConnectionError):  # ended while it was being made
                crowd.append(socket.create_connection((host, int(port)), timeout=HANG_S))
        pushed = crowd[:-STRANGERS_PER_ADDRESS]  # each by one that came behind it
        assert pushed and all(_ended(tcp) for tcp in pushed)
        for tcp in crowd:
            tcp.close()

    attack(work, replace(BOUNDS, handshake_timeout_s=10 * HANG_S))


def _ended(tcp: socket.socket) -> bool:
    try:
        while tcp.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", bytes(4096), GREETING[:30], GREETING + b"\x04\x05junk!"]
)
def test_what_is_not_zeromq_at_all_does_no_harm(junk: bytes) -> None:
    def work(address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=HANG_S) as tcp:
            tcp.sendall(junk)

    attack(work)


def test_a_frame_that_announces_too_much_ends_its_connection() -> None:
    def work(address: str) -> None:
        dealer = RawDealer(address)
        dealer.tcp.sendall(b"\x02" + (2**40).to_bytes(8, "big"))
        assert dealer.is_cut()

    attack(work)


def test_a_message_of_endless_parts_is_cut_from_a_stranger() -> None:
    def work(address: str) -> None:
        dealer = RawDealer(address)
        with pytest.raises(ConnectionError):
            for _ in range(100_000):
                dealer.send(bytes(60_000), MORE)

    attack(work)


def test_a_message_of_endless_parts_is_cut_from_a_peer_too() -> None:
    def work(address: str) -> None:
        dealer = enter(address)
        with pytest.raises(ConnectionError):
            for _ in range(100_000):
                dealer.send(bytes(60_000), MORE)

    attack(work)


def test_a_message_of_two_parts_ends_its_connection() -> None:
    def work(address: str) -> None:
        dealer = RawDealer(address)
        dealer.send(Rogue(ALICE).first(), MORE)
        dealer.send(b"more")
        assert dealer.is_cut()

    attack(work)


def test_a_routing_id_that_another_connection_has_gives_nothing() -> None:
    def work(address: str) -> None:
        first = enter(address, route=b"mine")
        thief = RawDealer(address, route=b"mine")
        thief.send(b"into a session that is not its own")
        thief.tcp.close()
        assert first.receive()
        first.tcp.close()

    attack(work)


def enter(address: str, route: bytes = b"") -> RawDealer:
    """Come in as a true peer, by hand."""
    rogue, dealer = Rogue(identity(20)), RawDealer(address, route)
    dealer.send(rogue.first())
    dealer.send(rogue.third(dealer.receive()))
    dealer.send(rogue.control({"op": "enter"}))
    assert b"welcome" in rogue.opened(dealer.receive())
    dealer.send(rogue.sealed(bytes((WHOLE,))))
    return dealer
