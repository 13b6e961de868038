"""One call over ZeroMQ: a DEALER that connects once, and never again by itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from mesh.errors import TransportError
from mesh.links.transport import WireEvents
from mesh.wire.tcp import Meter, TcpConnection
from mesh.wire.zmq_socket import LoopSocket, new_socket

LINGER_MS = 200
# Off (-1) would let ZeroMQ throw away, at the connection's end, what came in and was not yet read.
_NEVER_MS = 24 * 3600 * 1000
_WATCHED = zmq.Event.CONNECTED | zmq.Event.DISCONNECTED | zmq.Event.CLOSED


class DialledConnection:
    """A connection that this node has opened.

    Raises :class:`TransportError` for an address that is none, and when the machine has no room for a socket.
    """

    def __init__(self, context: zmq.Context[Any], number: int, address: str, events: WireEvents) -> None:
        self.number = number
        self.meter = Meter(None, asyncio.get_running_loop().time())
        self._events = events
        self._full = self._closed = False
        try:
            with contextlib.ExitStack() as undo:
                self._begin(context, address, undo)
                undo.pop_all()
        except (zmq.ZMQError, OSError) as error:
            raise TransportError(f"cannot dial {address}: {error}") from error

    def _begin(self, context: zmq.Context[Any], address: str, undo: contextlib.ExitStack) -> None:
        self._zmq = socket = new_socket(context, zmq.DEALER, address)
        undo.callback(socket.close, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
        self._socket = LoopSocket(socket, self._take, self._idle)
        undo.callback(self._socket.close, 0)
        monitor = socket.get_monitor_socket(_WATCHED)
        undo.callback(monitor.close, 0)
        self._monitor = LoopSocket(monitor, self._event, lambda: None)
        undo.callback(self._monitor.close, 0)
        undo.callback(socket.disable_monitor)  # first: ZeroMQ waits for ever for room in a monitor nobody has
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise TransportError(
                f"cannot dial {address}: {error}; it has the form tcp://HOST:PORT"
            ) from error

    def send(self, frame: bytes) -> bool:
        """Whether there was room."""
        taken = self._closed or self._socket.send(frame)
        self._full = not taken
        return taken

    def cut(self) -> None:
        """End it at once."""
        self._close(0)

    def close(self) -> None:
        """End it, with time for what was sent to go out."""
        self._close(LINGER_MS)

    def _close(self, linger_ms: int) -> None:
        if not self._closed:
            self._closed = True
            self._zmq.disable_monitor()
            self._monitor.close(0)
            self._socket.close(linger_ms)

    def _take(self) -> None:
        frame = self._socket.receive()
        self.meter.take(len(frame))
        if more := self._socket.rest():
            self._gone(f"a message of {more + 1} parts, each has 1")
        else:
            self._events.on_frame(self.number, frame)

    def _idle(self) -> None:
        if self._full:
            self._full = False
            self._events.on_writable(self.number)

    def _event(self) -> None:
        event = parse_monitor_message([self._monitor.receive(), self._monitor.receive()])
        if event["event"] == zmq.Event.CONNECTED:
            self.meter.tcp = TcpConnection.of(event["value"])
            return
        self._socket.read_all()
        ended = event["event"] == zmq.Event.DISCONNECTED
        self._gone("the connection ended" if ended else "nobody answers at the address")

    def _gone(self, why: str) -> None:
        if not self._closed:
            self._close(0)
            self._events.on_gone(self.number, why)
