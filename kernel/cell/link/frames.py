"""Frames on a link: ``length (u32) | boot (u64) | msgpack value``, big-endian, many frames to a write.

One codec for every local link of a node (cells, placer, gateway, archive, workers). The boot number is the
node's present boot; a frame from another one is refused, so that nothing of an old run is heard. Never
pickle.

:class:`FrameDecoder` is the pure part (bytes in, values out). :class:`FrameLink` is the asyncio shell around
it. Where question and answer take turns a frame leaves at once; where many speak on one link those of one loop
iteration are collected into one write.

What a link may cost its receiver is bounded: bytes a frame, values a frame (counted before one is built, see
:mod:`mesh.bounded`), frames and bytes heard at a time, and bytes that wait because the peer does not read. Of a frame
that was refused nothing is kept, in no buffer and in no exception.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgpack

from mesh.bounded import Unbounded, count_values, unpack

MAX_FRAME_BYTES = 16 * 2**20
FRAMES_PER_STEP = 64
SPEAKER_BYTES = 64
STEP_BYTES = 64 * 2**10
STEP_S = 0.002
CALM_WRITES = 32
"""After so many writes in a row that found one frame alone, frames leave at once again."""
VALUE_BYTES = 144
"""What a value takes in memory beside its bytes: an empty map 72, one in another and its key 290 for the two."""
Hearing = AbstractContextManager[object]
UNHEEDED: Hearing = nullcontext()
_HEADER = struct.Struct(">IQ")
HEADER_BYTES = _HEADER.size


@dataclass(frozen=True, slots=True)
class LinkBounds:
    """What the peer of a link may make its node hold. None: not bounded.

    ``values`` of one frame; a model request of a thousand messages has half of them. ``waiting_bytes``: what was sent,
    because the peer asked for it, and is not read.
    """

    values: int | None = 16_384
    waiting_bytes: int | None = 64 * 2**20


FOREIGN = LinkBounds()
"""For a process that runs code which is not ours: a cell, a worker, the placer."""
OWN = LinkBounds(None, None)
"""For a part of the node that runs no foreign code, and for the node itself as its children see it."""


class FrameError(Exception):
    """The peer broke the framing (oversized, foreign boot, not msgpack). The link is closed; the message says
    why. ``speaker``: the PID in whose name the frame was sent, 0 when it cannot be told.
    """

    speaker = 0


class TamperedLink(FrameError):
    """What came in is not what the peer has sent: it was changed, added or left out on the way. Nobody on the link is
    to blame.
    """


def encode_frame(boot: int, value: Any) -> bytes:
    """One frame. Raises :class:`FrameError` when the value is over ``MAX_FRAME_BYTES``."""
    payload: bytes = msgpack.packb(value, use_bin_type=True)
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {len(payload)} bytes, limit {MAX_FRAME_BYTES}")
    return _HEADER.pack(len(payload), boot) + payload


class FrameDecoder:
    """Feed bytes, iterate values. Raises :class:`FrameError`; the decoder is of no use afterwards.

    ``max_values`` None: they are not counted.
    """

    def __init__(
        self,
        boot: int,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_values: int | None = FOREIGN.values,
    ) -> None:
        self._boot = boot
        self.max_frame_bytes = max_frame_bytes
        self.taken_bytes = 0
        self.cost_bytes = 0
        self._max_values = max_values
        self._buffer = bytearray()

    def widen(self) -> None:
        """Take frames of the full size from now on."""
        self.max_frame_bytes = MAX_FRAME_BYTES

    def feed(self, data: bytes) -> Iterator[Any]:
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= HEADER_BYTES:
                length, boot = _HEADER.unpack_from(buffer, at)
                if length > self.max_frame_bytes:
                    raise FrameError(f"frame of {length} bytes announced, limit {self.max_frame_bytes}")
                if boot != self._boot:
                    raise FrameError(f"frame of boot {boot:016x}, this is boot {self._boot:016x}")
                end = at + HEADER_BYTES + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[at + HEADER_BYTES : end])
                at = end
                self.taken_bytes += length
                yield self._unpack(payload)
        finally:
            del buffer[:at]

    def drop(self) -> None:
        """Forget what has come in and was not taken."""
        self._buffer.clear()

    def _unpack(self, payload: bytes) -> Any:
        try:
            if self._max_values is None:
                return unpack(payload, None, any_keys=True)
            values = count_values(payload, self._max_values)
            self.cost_bytes = len(payload) + VALUE_BYTES * values
            return unpack(payload, None, any_keys=True)
        except Unbounded as error:
            why = str(error)
        refusal = FrameError(f"frame of {len(payload)} bytes is refused: {why}")
        refusal.speaker = speaker_of(payload[:SPEAKER_BYTES])
        raise refusal


def speaker_of(head: bytes) -> int:
    """The PID in the beginning of a frame ``[operation, pid, ...]`` of a cell, 0 when there is none."""
    unpacker = msgpack.Unpacker(max_buffer_size=SPEAKER_BYTES)
    try:
        unpacker.feed(head)
        if unpacker.read_array_header() < 2 or type(unpacker.unpack()) is not str:
            return 0
        pid = unpacker.unpack()
    except (ValueError, TypeError, msgpack.UnpackException, msgpack.BufferFull):
        return 0
    return pid if type(pid) is int and pid > 0 else 0


class Share:
    """What links may take of one iteration of the loop together: many that have much to say, as the cells of a node
    that boots, hold it no longer than one.
    """

    def __init__(self) -> None:
        self._until_s = 0.0
        self._spent = False

    def until_s(self, now_s: float) -> float:
        """When it is over for now, on the loop's clock."""
        if not self._spent and now_s >= self._until_s:
            self._until_s = now_s + STEP_S
        return self._until_s

    def spent(self, loop: asyncio.AbstractEventLoop) -> None:
        """It is over until the next iteration."""
        if not self._spent:
            self._spent = True
            loop.call_soon(self._renew)

    def _renew(self) -> None:
        self._spent, self._until_s = False, 0.0


class FrameLink(asyncio.Protocol):
    """An asyncio protocol that speaks frames. ``on_frame`` gets each value; ``on_close`` is called once.

    One iteration of the loop hears at most ``FRAMES_PER_STEP`` frames of a link, and none after ``STEP_BYTES`` of
    them, so that none holds it for long; nor after ``STEP_S`` of all links that have one ``share``, but for one of
    each. ``hearing`` is entered for all that is heard at a time. ``on_close(error)`` has None for a plain end of
    file. An exception raised by ``on_frame`` closes the link like a framing fault; one that is no :class:`FrameError`
    goes to the loop's handler as well.
    """

    def __init__(
        self,
        boot: int,
        on_frame: Callable[[Any], None],
        on_close: Callable[[Exception | None], None],
        on_open: Callable[[FrameLink], None] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        bounds: LinkBounds = FOREIGN,
        share: Share | None = None,
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self._boot = boot
        self._decoder = FrameDecoder(boot, max_frame_bytes, bounds.values)
        self._share = share or Share()
        self._hearing = hearing
        self._bounds = bounds
        self._on_frame = on_frame
        self._on_close = on_close
        self._on_open = on_open
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._granted_bytes = 0
        self._calm = CALM_WRITES
        self._spoken = False  # since something was heard
        self._frames: Iterator[Any] = iter(())
        self._fault: Exception | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._loop = asyncio.get_running_loop()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self._spoken = False
        self._frames = self._decoder.feed(data)
        self._hear()

    def _hear(self) -> None:
        with self._hearing:
            self._hear_some()

    def _hear_some(self) -> None:
        """Hear a few frames. If there are more, the rest of the loop goes first, and nothing is read meanwhile."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        enough = self._decoder.taken_bytes + STEP_BYTES
        until_s = self._share.until_s(self._loop.time())
        try:
            for count, value in enumerate(self._frames, 1):
                self._on_frame(value)
                if self.closed:
                    return
                late = self._loop.time() >= until_s
                if late or count == FRAMES_PER_STEP or self._decoder.taken_bytes >= enough:
                    self._share.spent(self._loop)
                    transport.pause_reading()
                    self._loop.call_soon(self._hear)
                    return
        except FrameError as error:
            self.abort(error)
        except Exception as error:  # a fault of the receiver; having lost a frame, the link is of no use
            self.abort(error)
            raise
        else:
            transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._drop()
        error = self._fault or exc
        self._on_close(error if error is None else _bare(error))

    def hand_over(
        self, on_frame: Callable[[Any], None], on_close: Callable[[Exception | None], None]
    ) -> None:
        """The peer has shown who it is: its next frames go to ``on_frame``, and may have the full size."""
        self._on_frame = on_frame
        self._on_close = on_close
        self._decoder.widen()

    @property
    def closed(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    @property
    def cost_bytes(self) -> int:
        """What the frame that was heard last costs in memory, where values are counted."""
        return self._decoder.cost_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes sent and not yet taken by the peer."""
        written = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return written + self._pending_bytes

    def send(self, value: Any, *, granted: bool = False) -> None:
        """Send one frame: at once where this side and the other speak by turns, so that nobody waits for the next loop
        iteration; else with all that follow in this one. Silently dropped once closed. A peer that leaves too much
        unread loses its link; ``granted``: what this side began by itself is not held against it.
        """
        if self.closed:
            return
        frame = encode_frame(self._boot, value)
        if not self._has_room(len(frame), granted):
            return
        if not self._pending:
            if self._calm >= CALM_WRITES and not self._spoken and self.transport is not None:
                self._spoken = True
                self.transport.write(frame)
                return
            self._loop.call_soon(self._flush)
        self._pending.append(frame)
        self._pending_bytes += len(frame)

    def _has_room(self, frame_bytes: int, granted: bool) -> bool:
        limit, waiting = self._bounds.waiting_bytes, self.buffered_bytes
        if limit is None:
            return True
        if not waiting:
            self._granted_bytes = 0
        if granted:
            self._granted_bytes += frame_bytes
        if not waiting or waiting + frame_bytes <= limit + self._granted_bytes:
            return True
        self.abort(FrameError(f"it does not read: {waiting} bytes wait for it, limit {limit}"))
        return False

    def _flush(self) -> None:
        if self._pending and self.transport is not None and not self.transport.is_closing():
            alone = len(self._pending) == 1 and not self._spoken
            self._calm = self._calm + 1 if alone else 0
            self._spoken = True
            self.transport.write(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Send what is queued, then close."""
        self._flush()
        if self.transport is not None:
            self.transport.close()

    def abort(self, error: Exception) -> None:
        """Close at once; ``on_close`` gets ``error``."""
        if self._fault is None:
            self._fault = _bare(error)
        self._drop()
        if self.transport is not None:
            self.transport.abort()

    def _drop(self) -> None:
        """Nothing is heard or sent any more: free what is held."""
        self._pending.clear()
        self._pending_bytes = 0
        self._frames = iter(())
        self._decoder.drop()


def _bare(error: Exception) -> Exception:
    """``error`` without what it came from: the frames of a traceback hold the message that was at fault."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
