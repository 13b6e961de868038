"""What listens over ZeroMQ: a ROUTER, whose routing ids are numbers of connections here and nothing more.

The ROUTER gives each connection a random routing id, or takes the one the other side asks for if it is free; who
asks for one gains nothing, since only a session says who somebody is.

ZeroMQ gives also what a connection had sent before its end, when its descriptor is nobody's any more or another one's.
So a first frame counts only when it can be of the connection that has the descriptor now; any other is thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from mesh.errors import TransportError
from mesh.links.strangers import Strangers, neighbourhood
from mesh.links.transport import WireEvents
from mesh.wire.tcp import Meter, TcpConnection
from mesh.wire.zmq_socket import LoopSocket, new_socket

GRACE_S = 0.2
STRANGERS, STRANGERS_PER_ADDRESS = 512, 128
"""Connections that may be open and not trusted; with one more, the oldest of the greediest address is cut."""
_WATCHED = zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED


class AcceptedConnection:
    """A connection that somebody else has opened. ``number`` is 0, and ``route`` empty, before its first frame."""

    def __init__(self, listener: Listener, tcp: TcpConnection | None, now_s: float) -> None:
        self.number = 0
        self.route = b""
        self.meter = Meter(tcp, now_s)
        self.address = neighbourhood(tcp.host) if tcp is not None else ""
        self.full = False
        self.closing = False
        self._listener = listener

    def send(self, frame: bytes) -> bool:
        """Whether there was room."""
        return self._listener.send(self, frame)

    def trust(self) -> None:
        """The other side is a peer: the limits for strangers no longer hold."""
        self._listener.trust(self)

    def cut(self) -> None:
        """End it at once."""
        self.closing = True
        if self.meter.tcp is not None:
            self.meter.tcp.cut()

    def close(self) -> None:
        """End it, with time for what was sent to go out."""
        self.closing = True
        asyncio.get_running_loop().call_later(GRACE_S, self.cut)


class Listener:
    """The ROUTER of a node; ``numbered`` gives each connection its number at its first frame, ``entered`` is told of
    each before that.

    Raises :class:`TransportError` when the address cannot be listened on.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        address: str,
        events: WireEvents,
        numbered: Callable[[AcceptedConnection], int],
        entered: Callable[[], None],
    ) -> None:
        self._events = events
        self._entered = entered
        self._numbered = numbered
        self._loop = asyncio.get_running_loop()
        self._by_route: dict[bytes, AcceptedConnection] = {}
        self._by_fd: dict[int, AcceptedConnection] = {}
        self._ended: list[AcceptedConnection] = []
        self._strangers: Strangers[AcceptedConnection] = Strangers(STRANGERS, STRANGERS_PER_ADDRESS)
        socket = new_socket(context, zmq.ROUTER, address)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        monitor = socket.get_monitor_socket(_WATCHED)
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            socket.disable_monitor()
            socket.close(0)
            raise TransportError(
                f"cannot listen on {address}: {error}; use tcp://HOST:PORT of this machine and a free port"
            ) from error
        self.address = bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._zmq = socket
        self._socket = LoopSocket(socket, self._take, self._idle)
        self._monitor = LoopSocket(monitor, self._event, lambda: None)

    @property
    def connections(self) -> list[AcceptedConnection]:
        """All that are open, those included that have brought no frame."""
        return list(self._by_fd.values())

    def send(self, connection: AcceptedConnection, frame: bytes) -> bool:
        try:
            taken = self._socket.send(connection.route, frame)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            taken = True
        connection.full = not taken
        return taken

    def trust(self, connection: AcceptedConnection) -> None:
        """It is a peer's."""
        connection.meter.trusted = True
        self._strangers.leave(connection)

    def _enter(self, fd: int) -> None:
        """A connection from anywhere; another one that nobody trusts may have to go for it."""
        port = int(self.address.rpartition(":")[2])
        connection = AcceptedConnection(self, TcpConnection.of(fd, port), self._loop.time())
        self._by_fd[fd] = connection
        self._entered()
        if (pushed := self._strangers.enter(connection, connection.address)) is not None:
            pushed.cut()
            self._events.on_gone(pushed.number, "it was not known yet when another one came")

    def _leave(self, fd: int) -> None:
        """Whoever had the descriptor has ended; what it had sent may yet come."""
        if (ended := self._by_fd.pop(fd, None)) is not None:
            self._strangers.leave(ended)
            self._ended.append(ended)
            self._socket.look_again()

    def close(self, linger_ms: int) -> None:
        self._zmq.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger_ms)

    def _take(self) -> None:
        route = self._socket.receive()
        connection = self._by_route.get(route)
        if connection is None:
            frame, fd, host = self._socket.receive_from()
            connection = self._first_frame(route, fd, host)
        else:
            frame = self._socket.receive()
        more = self._socket.rest()
        if connection is None:
            return
        connection.meter.take(len(frame))
        if connection.closing:
            return
        if more:
            connection.cut()
            self._events.on_gone(connection.number, f"a message of {more + 1} parts, each has 1")
        else:
            self._events.on_frame(connection.number, frame)

    def _first_frame(self, route: bytes, fd: int, host: str) -> AcceptedConnection | None:
        """The connection that now has a routing id; None when that is one that has ended.

        What the monitor said before comes first: it may say that the descriptor is a new connection's now.
        """
        self._monitor.read_all()
        connection = self._by_fd.get(fd)
        if connection is None or connection.number or connection.address != neighbourhood(host):
            return None
        connection.route = route
        connection.number = self._numbered(connection)
        self._by_route[route] = connection
        return connection

    def _idle(self) -> None:
        ended, self._ended = self._ended, []
        for connection in ended:
            self._by_route.pop(connection.route, None)
            if connection.number and not connection.closing:
                self._events.on_gone(connection.number, "the connection ended")
        for connection in [found for found in self._by_route.values() if found.full]:
            connection.full = False
            self._events.on_writable(connection.number)

    def _event(self) -> None:
        event = parse_monitor_message([self._monitor.receive(), self._monitor.receive()])
        self._leave(event["value"])
        if event["event"] == zmq.Event.ACCEPTED:
            self._enter(event["value"])
