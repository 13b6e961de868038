"""One call over ZeroMQ: a DEALER that connects once, and never again by itself."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from mesh.errors import TransportError
from mesh.links.transport import WireEvents
from mesh.wire.lookups import Lookups, numeric
from mesh.wire.tcp import Meter, TcpConnection
from mesh.wire.zmq_socket import LoopSocket, new_socket

LINGER_MS = 200
# Off (-1) would let ZeroMQ throw away, at the connection's end, what came in and was not yet read.
_NEVER_MS = 24 * 3600 * 1000
_WATCHED = zmq.Event.CONNECTED | zmq.Event.DISCONNECTED | zmq.Event.CLOSED


@dataclass(frozen=True, slots=True)
class _Sockets:
    """``monitor`` tells what becomes of the connection of ``dealer``, whose frames are those of ``frames``."""

    dealer: zmq.Socket[Any]
    frames: LoopSocket
    monitor: LoopSocket

    def close(self, linger_ms: int) -> None:
        self.dealer.disable_monitor()
        self.monitor.close(0)
        self.frames.close(linger_ms)


class DialledConnection:
    """A connection that this node opens: at once, or when its host is found, which ``lookups`` does.

    Raises :class:`TransportError` for an address that is none, and when the machine has no room for a socket.
    """

    def __init__(
        self, context: zmq.Context[Any], number: int, address: str, events: WireEvents, lookups: Lookups
    ) -> None:
        self.number = number
        self.meter = Meter(None, asyncio.get_running_loop().time())
        self._context = context
        self._events = events
        self._full = self._closed = False
        self._sockets: _Sockets | None = None
        if numeric(address):
            self._open(address)
        else:
            lookups.find(address, self._found)

    def _found(self, address: str) -> None:
        """The host was looked up."""
        if self._closed:
            return
        if not address:
            self._gone("its host's name cannot be looked up")
            return
        try:
            self._open(address)
        except TransportError as error:
            self._gone(str(error))
            return
        self._idle()

    def _open(self, address: str) -> None:
        try:
            with contextlib.ExitStack() as undo:
                self._sockets = self._begin(address, undo)
                undo.pop_all()
        except (zmq.ZMQError, OSError) as error:
            raise TransportError(f"cannot dial {address}: {error}") from error

    def _begin(self, address: str, undo: contextlib.ExitStack) -> _Sockets:
        socket = new_socket(self._context, zmq.DEALER, address)
        undo.callback(socket.close, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
        frames = LoopSocket(socket, self._take, self._idle)
        undo.callback(frames.close, 0)
        watched = socket.get_monitor_socket(_WATCHED)
        undo.callback(watched.close, 0)
        monitor = LoopSocket(watched, self._event, lambda: None)
        undo.callback(monitor.close, 0)
        undo.callback(socket.disable_monitor)  # first: ZeroMQ waits for ever for room in a monitor nobody has
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise TransportError(
                f"cannot dial {address}: {error}; it has the form tcp://HOST:PORT"
            ) from error
        return _Sockets(socket, frames, monitor)

    def send(self, frame: bytes) -> bool:
        """Whether there was room."""
        taken = self._closed or (self._sockets is not None and self._sockets.frames.send(frame))
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
            if self._sockets is not None:
                self._sockets.close(linger_ms)

    def _take(self) -> None:
        assert self._sockets is not None
        frame = self._sockets.frames.receive()
        self.meter.take(len(frame))
        if more := self._sockets.frames.rest():
            self._gone(f"a message of {more + 1} parts, each has 1")
        else:
            self._events.on_frame(self.number, frame)

    def _idle(self) -> None:
        if self._full:
            self._full = False
            self._events.on_writable(self.number)

    def _event(self) -> None:
        assert self._sockets is not None
        monitor = self._sockets.monitor
        event = parse_monitor_message([monitor.receive(), monitor.receive()])
        if event["event"] == zmq.Event.CONNECTED:
            self.meter.tcp = TcpConnection.of(event["value"])
            return
        self._sockets.frames.read_all()
        ended = event["event"] == zmq.Event.DISCONNECTED
        self._gone("the connection ended" if ended else "nobody answers at the address")

    def _gone(self, why: str) -> None:
        if not self._closed:
            self._close(0)
            self._events.on_gone(self.number, why)
