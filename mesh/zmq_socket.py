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

from mesh.frames import MAX_FRAME_BYTES

MESSAGES_A_TURN = 64
QUEUED_FRAMES = 256
"""Frames that ZeroMQ holds for one connection in each direction."""
HANDSHAKE_MS = 5000


def new_socket(context: zmq.Context[Any], kind: int, address: str) -> zmq.Socket[Any]:
    """A socket for frames of :mod:`mesh.frames`; an oversized one ends its connection unread."""
    socket: zmq.Socket[Any] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, QUEUED_FRAMES)
    socket.setsockopt(zmq.RCVHWM, QUEUED_FRAMES)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    socket.setsockopt(zmq.IPV6, int("[" in address))
    return socket


class LoopSocket:
    """Gives every message to ``take`` (its parts as ZeroMQ frames), and calls ``idle`` when none is left.

    At ``idle`` a socket that was full may also have room again.
    """

    def __init__(
        self, socket: zmq.Socket[Any], take: Callable[[list[zmq.Frame]], None], idle: Callable[[], None]
    ) -> None:
        self._socket = socket
        self._take = take
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._again: asyncio.Handle | None = None
        self._loop.add_reader(self._fd, self._read)
        self.look_again()

    def send(self, *parts: bytes) -> bool:
        """Whether the message was taken; False when there is no room. Raises ``zmq.ZMQError`` otherwise."""
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self.look_again()
        return True

    def read_all(self) -> None:
        """Read until nothing is left, without regard to the loop."""
        while self._read_some():
            pass

    def close(self, linger_ms: int) -> None:
        """Close it; what was sent has ``linger_ms`` to go out."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._fd)
        self._socket.close(linger_ms)

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
        for _ in range(MESSAGES_A_TURN):
            if self._socket.closed:
                return False
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return False
            self._take(parts)
        return True

    def look_again(self) -> None:
        """Read soon, whatever the descriptor says."""
        if self._again is None:
            self._again = self._loop.call_soon(self._read)
