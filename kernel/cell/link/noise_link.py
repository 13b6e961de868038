"""A :class:`~kernel.cell.link.frames.FrameLink` over TCP and Noise, for asyncio; both ends."""

from __future__ import annotations

import asyncio
from typing import Any

from kernel.cell.link.frames import FrameError, FrameLink
from kernel.cell.link.noise_pipe import NoisePipe


class NoiseTransport(asyncio.Transport):
    """What the link above writes to: sealed, then given to the connection below."""

    def __init__(self, below: asyncio.Transport, pipe: NoisePipe) -> None:
        super().__init__()
        self._below = below
        self._pipe = pipe

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._below.write(self._pipe.seal(bytes(data)))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def close(self) -> None:
        self._below.close()

    def abort(self) -> None:
        self._below.abort()


class NoiseLink(asyncio.Protocol):
    """The protocol of one TCP connection. ``link`` is made at once, and hears what comes after the handshake, the
    cell's hello first; it may send from then on.
    """

    def __init__(self, pipe: NoisePipe, link: FrameLink) -> None:
        self._pipe = pipe
        self._link = link
        self._below: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._below = transport
        self._link.connection_made(NoiseTransport(transport, self._pipe))
        if first := self._pipe.begin():
            transport.write(first)

    def data_received(self, data: bytes) -> None:
        assert self._below is not None
        if self._below.is_closing():
            return
        try:
            plain, reply = self._pipe.feed(data)
        except FrameError as error:
            self._link.abort(error)
            return
        if reply:
            self._below.write(reply)
        if plain:
            self._link.data_received(plain)

    def eof_received(self) -> None:
        return

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.connection_lost(exc)
