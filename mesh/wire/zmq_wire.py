"""The wire over ZeroMQ: one ROUTER that listens, one DEALER for each call, over ``tcp://``.

ZeroMQ carries frames and is trusted with nothing else: not with who somebody is (that is the session's), not with
reconnecting (off: a connection that ends has ended, the next is another), and not with the limits for strangers.
Those are kept here, from outside (:mod:`mesh.wire.tcp`): who brings no frame in time, more bytes than a handshake has
before being trusted, or an endless message afterwards, is cut.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import zmq

from mesh.bounds import DEFAULT_BOUNDS, MeshBounds
from mesh.links.transport import WireEvents
from mesh.wire.lookups import Lookups
from mesh.wire.zmq_dialer import LINGER_MS, DialledConnection
from mesh.wire.zmq_listener import AcceptedConnection, Listener

WATCH_S = 0.05

Connection = DialledConnection | AcceptedConnection


class ZmqWire:
    """The :class:`Wire` of a node."""

    def __init__(self, bounds: MeshBounds = DEFAULT_BOUNDS, context: zmq.Context[Any] | None = None) -> None:
        self._bounds = bounds
        self._context = context or zmq.Context.instance()
        self._events: WireEvents
        self._loop: asyncio.AbstractEventLoop
        self._lookups = Lookups()
        self._numbers = itertools.count(1)
        self._listener: Listener | None = None
        self._connections: dict[int, Connection] = {}
        self._watcher: asyncio.TimerHandle | None = None

    async def open(self, events: WireEvents, listen: str | None) -> str:
        self._events = events
        self._loop = asyncio.get_running_loop()
        if listen is not None:
            self._listener = Listener(self._context, listen, self, self._number, self._watch_soon)
        return self._listener.address if self._listener is not None else ""

    def dial(self, address: str) -> int:
        number = next(self._numbers)
        self._connections[number] = DialledConnection(self._context, number, address, self, self._lookups)
        self._watch_soon()
        return number

    def send(self, conn: int, frame: bytes) -> bool:
        connection = self._connections.get(conn)
        return connection is None or connection.send(frame)

    def address(self, conn: int) -> str:
        connection = self._connections.get(conn)
        return connection.address if isinstance(connection, AcceptedConnection) else ""

    def trust(self, conn: int) -> None:
        connection = self._connections.get(conn)
        if isinstance(connection, AcceptedConnection):
            connection.trust()
        elif connection is not None:
            connection.meter.trusted = True

    def close(self, conn: int) -> None:
        connection = self._connections.pop(conn, None)
        if connection is not None:
            connection.close()

    async def shut(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        for conn in list(self._connections):
            self.close(conn)
        if self._listener is not None:
            self._listener.close(LINGER_MS)

    # What the connections tell.

    def on_frame(self, conn: int, frame: bytes) -> None:
        if conn in self._connections:
            self._events.on_frame(conn, frame)

    def on_gone(self, conn: int, why: str) -> None:
        if self._connections.pop(conn, None) is not None:
            self._events.on_gone(conn, why)

    def on_writable(self, conn: int) -> None:
        if conn in self._connections:
            self._events.on_writable(conn)

    def _number(self, connection: AcceptedConnection) -> int:
        number = next(self._numbers)
        self._connections[number] = connection
        return number

    def _watch_soon(self) -> None:
        """There is a connection to be watched."""
        if self._watcher is None:
            self._watcher = self._loop.call_later(WATCH_S, self._watch)

    def _watch(self) -> None:
        """Cut what breaks its limits, as long as there is anything to watch."""
        self._watcher = None
        now_s, timeout_s = self._loop.time(), self._bounds.handshake_timeout_s
        watched: list[Connection] = [*self._listener.connections] if self._listener is not None else []
        watched += [each for each in self._connections.values() if isinstance(each, DialledConnection)]
        try:
            for connection in watched:
                why = connection.meter.fault(now_s, timeout_s)
                if why:
                    connection.cut()
                    self.on_gone(connection.number, why)
        finally:
            if watched:
                self._watch_soon()
