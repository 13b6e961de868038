"""One connection with its session, and what waits to go out over it.

A message is cut and sealed only when its turn comes, a few frames a turn of the event loop, so that 16 MiB stall
nobody. Frames that the wire has no room for are held until it has; whole messages wait behind them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from mesh.bounds import MAX_MESSAGE_BYTES
from mesh.errors import LinkFull
from mesh.links.frames import PART_BYTES
from mesh.links.session import Session
from mesh.links.transport import Dial, Wire

FRAMES_A_TURN = 16
QUEUE_BYTES = 2 * MAX_MESSAGE_BYTES


class Link:
    """``dial``: the call it came from, None when the other side called. ``origin``: the peer's, once it is open.

    ``said_s`` and ``heard_s``: when a frame last went out, and came in. The queue is one with the session whose frames
    it cuts messages into: whatever is sealed has to go out, and in that order.
    """

    __slots__ = (
        "_flushing",
        "_held",
        "_loop",
        "_parts",
        "_queue",
        "_queued_bytes",
        "_wire",
        "began_s",
        "conn",
        "dial",
        "heard_s",
        "open",
        "origin",
        "said_s",
        "session",
    )  # fmt: skip

    def __init__(self, conn: int, session: Session, wire: Wire, dial: Dial | None) -> None:
        self.conn = conn
        self.session = session
        self.dial = dial
        self.origin = ""
        self.open = False
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self.began_s = self.said_s = self.heard_s = self._loop.time()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._parts: Iterator[bytes] | None = None
        self._held: deque[bytes] = deque()
        self._flushing = False

    def admit(self, origin: str) -> None:
        """It is the one link with ``origin`` from now on."""
        self.open, self.origin = True, origin

    def hear(self) -> None:
        """A frame has come in."""
        self.heard_s = self._loop.time()

    @property
    def silence_s(self) -> float:
        """Since anything was heard."""
        return self._loop.time() - self.heard_s

    @property
    def name(self) -> str:
        """What to call the other side in a message: its origin once proved, else where it was called."""
        if self.session.peer is not None:
            return self.session.peer.origin
        return self.dial.address if self.dial is not None else "a stranger"

    @property
    def blocked(self) -> bool:
        """The wire has no room: what is said now waits."""
        return bool(self._held)

    def push(self, frame: bytes) -> bool:
        """Send a sealed frame, or hold it until there is room; whether it went out."""
        self.said_s = self._loop.time()
        if not self._held and self._wire.send(self.conn, frame):
            return True
        self._held.append(frame)
        return False

    def send(self, message: bytes) -> None:
        """Queue a message. Raises :class:`LinkFull`."""
        if not (self._queue or self._held or self._parts) and len(message) <= PART_BYTES:
            for frame in self.session.seal_parts(message):
                self.push(frame)
            return
        if self._queued_bytes and self._queued_bytes + len(message) > QUEUE_BYTES:
            raise LinkFull(f"{self._queued_bytes} bytes wait for {self.origin}, limit {QUEUE_BYTES}")
        self._queue.append(message)
        self._queued_bytes += len(message)
        self.flush_soon()

    def flush_soon(self) -> None:
        """Send what waits, from the next turn of the loop on."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def end(self, why: str) -> None:
        """Say that it is over, if the session is open and the wire has room; nothing goes out afterwards."""
        if not self._held:
            for frame in self.session.close(why):
                self._wire.send(self.conn, frame)
        self.abandon()

    def abandon(self) -> None:
        """It is over: free what is held."""
        self.session.abandon()
        self._queue.clear()
        self._held.clear()
        self._parts = None

    def _flush(self) -> None:
        self._flushing = False
        while self._held:
            if not self._wire.send(self.conn, self._held[0]):
                return
            self._held.popleft()
        for _ in range(FRAMES_A_TURN):
            frame = self._next_frame()
            if frame is None or not self.push(frame):
                return
        self.flush_soon()

    def _next_frame(self) -> bytes | None:
        while True:
            if self._parts is not None:
                frame = next(self._parts, None)
                if frame is not None:
                    return frame
                self._parts = None
            if not self._queue:
                return None
            message = self._queue.popleft()
            self._queued_bytes -= len(message)
            self._parts = self.session.seal_parts(message)
