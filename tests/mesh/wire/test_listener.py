"""Connections that end before the node has looked: ZeroMQ gives what they sent after their end, and their descriptors
are free, or another one's, by then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable

import pytest
import zmq

from mesh.wire.tcp import TcpConnection
from mesh.wire.zmq_listener import AcceptedConnection, Listener
from tests.mesh.links.test_transport import run
from tests.mesh.twins.link_nodes import until
from tests.mesh.twins.zmtp import RawDealer


class Door:
    """A listener, and what it tells."""

    def __init__(self) -> None:
        self.numbered: list[AcceptedConnection] = []
        self.frames: list[tuple[int, bytes]] = []
        self.gone: list[int] = []
        self.entered = 0
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self.listener = Listener(context, "tcp://127.0.0.1:*", self, self._number, self._enter)
        self.address = self.listener.address

    def _number(self, connection: AcceptedConnection) -> int:
        self.numbered.append(connection)
        return len(self.numbered)

    def _enter(self) -> None:
        self.entered += 1

    def on_frame(self, conn: int, frame: bytes) -> None:
        self.frames.append((conn, frame))

    def on_gone(self, conn: int, why: str) -> None:
        self.gone.append(conn)

    def on_writable(self, conn: int) -> None:
        """Nothing is said."""


def at_door(body: Callable[[Door], Awaitable[None]]) -> None:
    async def main() -> None:
        door = Door()
        try:
            await body(door)
        finally:
            door.listener.close(0)

    run(main)


def elsewhere() -> socket.socket:
    """A socket of another host than those of other dealers."""
    tcp = socket.socket()
    tcp.bind(("127.0.0.2", 0))
    return tcp


def heard(door: Door) -> Callable[[], bool]:
    return lambda: bool(door.frames)


def test_what_a_connection_had_sent_that_has_ended_is_no_connection() -> None:
    async def body(door: Door) -> None:
        for _ in range(20):
            dealer = RawDealer(door.address)
            dealer.send(b"first")
            dealer.end()
        honest = RawDealer(door.address, tcp=elsewhere())
        honest.send(b"hello")
        await until(heard(door))
        assert door.frames == [(1, b"hello")] and len(door.numbered) == 1 and door.gone == []
        honest.end()
        await until(lambda: door.gone == [1])
        assert door.listener.connections == [] and door.entered == 21

    at_door(body)


def test_a_socket_of_somebody_else_at_the_descriptor_of_one_that_has_ended_is_left_alone() -> None:
    async def body(door: Door) -> None:
        dealer = RawDealer(door.address)
        dealer.send(b"first")
        dealer.end()
        others = [end for _ in range(8) for end in socket.socketpair()]
        honest = RawDealer(door.address, tcp=elsewhere())
        honest.send(b"hello")
        await until(heard(door))
        assert door.frames == [(1, b"hello")]
        for one, two in zip(others[::2], others[1::2], strict=True):
            one.sendall(b"whole")
            assert two.recv(16) == b"whole"
        for tcp in (*others, honest.tcp):
            tcp.close()

    at_door(body)


def test_what_another_host_had_sent_is_not_taken_for_the_first_frame_of_who_has_its_descriptor_now() -> None:
    async def body(door: Door) -> None:
        later = socket.socket()
        stranger = RawDealer(door.address, tcp=elsewhere())
        stranger.send(b"of a stranger")
        stranger.end()
        honest = RawDealer(door.address, tcp=later)
        await until(lambda: door.entered == 2)
        honest.send(b"hello")
        await until(heard(door))
        assert [frame for _, frame in door.frames] == [b"hello"]
        later.close()

    at_door(body)


def test_only_a_tcp_connection_of_the_port_is_one_that_was_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller, server.accept()[0] as accepted:
            found = TcpConnection.of(accepted.fileno(), port)
            assert found is not None and found.host == "127.0.0.1"
            assert TcpConnection.of(caller.fileno()) is not None
            assert TcpConnection.of(caller.fileno(), port) is None
            accepted.sendall(b"whole")
            assert caller.recv(16) == b"whole"


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (socket.AF_UNIX, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_INET, socket.SOCK_STREAM),
    ],
)
def test_a_socket_that_is_not_connected_or_of_another_kind_is_no_connection(
    family: socket.AddressFamily, kind: socket.SocketKind
) -> None:
    with socket.socket(family, kind) as other:
        assert TcpConnection.of(other.fileno()) is None
        assert os.fstat(other.fileno())


def test_what_is_no_socket_or_closed_is_no_connection() -> None:
    read, write = os.pipe()
    assert TcpConnection.of(read) is None
    os.close(read)
    os.close(write)
    assert TcpConnection.of(read) is None
