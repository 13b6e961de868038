"""A ZeroMQ socket on the event loop.

The descriptor of a ZeroMQ socket says "look again", once, and not "there is something to read"; sending may take
that word away unnoticed. So everything is read until nothing is left, each time, and after every send it is looked
whether something came in meanwhile. A few messages a turn, so that a fast peer does not own the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from mesh.links.frames import MAX_FRAME_BYTES

MESSAGES_A_TURN = 64
QUEUED_FRAMES = 256
"""Frames that ZeroMQ holds for one connection in each direction."""
HANDSHAKE_MS = 5000
_MORE_NOW = zmq.NOBLOCK | zmq.SNDMORE


def new_socket(context: zmq.Context[Any], kind: int, address: str) -> zmq.Socket[Any]:
    """A socket for frames of :mod:`mesh.links.frames`; an oversized one ends its connection unread."""
    socket: zmq.Socket[Any] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, QUEUED_FRAMES)
    socket.setsockopt(zmq.RCVHWM, QUEUED_FRAMES)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    socket.setsockopt(zmq.IPV6, int("[" in address))
    return socket


class LoopSocket:
    """Calls ``take`` for every message, which must :meth:`receive` it, and ``idle`` when none is left.

    At ``idle`` a socket that was full may also have room again.
    """

    def __init__(self, socket: zmq.Socket[Any], take: Callable[[], None], idle: Callable[[], None]) -> None:
        self._socket = socket
        self._take = take
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._again: asyncio.Handle | None = None
        self._reading = False
        self._loop.add_reader(self._fd, self._read)
        self.look_again()

    def send(self, *parts: bytes) -> bool:
        """Whether the message was taken; False when there is no room. Raises ``zmq.ZMQError`` otherwise."""
        try:
            for part in parts[:-1]:
                self._socket.send(part, _MORE_NOW)
            self._socket.send(parts[-1], zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            if not self._reading and self._has_more():
                self.look_again()
        return True

    def receive(self) -> bytes:
        """The next part of the message that ``take`` was called for."""
        part: bytes = self._socket.recv(zmq.NOBLOCK)
        return part

    def receive_from(self) -> tuple[bytes, int, str]:
        """As :meth:`receive`, with the descriptor and the host of the connection it came over."""
        frame: zmq.Frame = self._socket.recv(zmq.NOBLOCK, copy=False)
        return frame.bytes, int(frame.get("__fd")), str(frame.get("Peer-Address"))

    def rest(self) -> int:
        """Throw away the message's other parts; how many there were."""
        count = 0
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv(zmq.NOBLOCK)
            count += 1
        return count

    def read_all(self) -> None:
        """Read until nothing is left, without regard to the loop."""
        while self._read_some():
            pass

    def look_again(self) -> None:
        """Read soon, whatever the descriptor says."""
        if self._again is None:
            self._again = self._loop.call_soon(self._read)

    def close(self, linger_ms: int) -> None:
        """Close it; what was sent has ``linger_ms`` to go out."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._fd)
        self._socket.close(linger_ms)

    def _has_more(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _read(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._read_some():
            self.look_again()
        elif not self._socket.closed:
            self._idle()

    def _read_some(self) -> bool:
        """Read some messages; whether there may be more."""
        outer, self._reading = self._reading, True
        try:
            for _ in range(MESSAGES_A_TURN):
                if self._socket.closed or not self._has_more():
                    return False
                self._take()
            return True
        except BaseException:
            self.look_again()  # the descriptor does not say so once more
            raise
        finally:
            self._reading = outer
