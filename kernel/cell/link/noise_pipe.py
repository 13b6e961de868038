"""Noise around the frames of a link over TCP: bytes in, bytes out. No socket and no clock.

On the wire is ``length (u16) | Noise message``, again and again: first the three of the handshake, then any number
that carry the link's stream of bytes, cut wherever it is convenient (a frame is not a message; see
:mod:`kernel.cell.link.frames`). The node is the responder. The cell, the initiator, was told the node's static key with
its start order and goes on only when the handshake shows that key; so the payload of the third message, its hello
with the one-time token, can be read by that node alone.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass, field

from kernel.cell.link.frames import FrameError, TamperedLink
from mesh.errors import NoiseError
from mesh.links.noise import MAX_NOISE_BYTES, TAG_BYTES, NoiseXX, StaticKey

MAX_HANDSHAKE_BYTES = 8192
"""The longest handshake message, by far: a true third one has about 200 bytes."""

_LENGTH = struct.Struct(">H")
_CHUNK_BYTES = MAX_NOISE_BYTES - TAG_BYTES


def prologue(boot: int) -> bytes:
    """What both sides must agree on before the first message: a cell of another boot is refused here already."""
    return b"weftos/cell/1\n" + boot.to_bytes(8, "big")


@dataclass(frozen=True, slots=True, repr=False)
class OneTimeKey:
    """A cell's static key. Nobody knows it and nobody asks: it is the token that admits the cell."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))


class NoisePipe:
    """One side. The initiator gives the responder's public key and its ``hello``; the responder neither.

    ``feed`` returns what came through, in plain, and what must be written now. Any :class:`FrameError` is the end.
    """

    def __init__(self, key: StaticKey, boot: int, expected: bytes | None = None, hello: bytes = b"") -> None:
        self._initiator = expected is not None
        self._noise = NoiseXX(self._initiator, key, prologue(boot))
        self._expected = expected
        self._hello = hello
        self._read = 0
        self._buffer = bytearray()

    def begin(self) -> bytes:
        """What to write when the connection is made."""
        return _framed(self._noise.write_message()) if self._initiator else b""

    @property
    def open(self) -> bool:
        """Whether the handshake is finished, so that :meth:`seal` may be used."""
        return self._noise.finished

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """``(plain bytes, bytes to write)``. Raises :class:`FrameError`."""
        buffer = self._buffer
        buffer += data
        plain, reply = bytearray(), bytearray()
        at = 0
        try:
            while len(buffer) - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, at)
                if not self.open and length > MAX_HANDSHAKE_BYTES:
                    raise FrameError(f"handshake message of {length} bytes, limit {MAX_HANDSHAKE_BYTES}")
                end = at + _LENGTH.size + length
                if len(buffer) < end:
                    break
                message = bytes(memoryview(buffer)[at + _LENGTH.size : end])
                at = end
                plain += self._noise.decrypt(message) if self.open else self._shake(message, reply)
        except NoiseError as error:
            raise TamperedLink(str(error)) from error
        finally:
            del buffer[:at]
        return bytes(plain), bytes(reply)

    def _shake(self, message: bytes, reply: bytearray) -> bytes:
        """One handshake message: the payload that counts (the hello, at the responder), and the answer to it."""
        payload = self._noise.read_message(message)
        self._read += 1
        if self._initiator:
            if self._noise.remote_static != self._expected:
                raise FrameError("who answered is not the node of the start order: its static key is another")
            reply += _framed(self._noise.write_message(self._hello))
            return b""
        if self._read == 1:
            if payload:
                raise FrameError("the first handshake message holds a payload")
            reply += _framed(self._noise.write_message())
            return b""
        return payload

    def seal(self, data: bytes) -> bytes:
        """The bytes to write for ``data``, which may be of any length."""
        pieces = (data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES))
        return b"".join(_framed(self._noise.encrypt(piece)) for piece in pieces)


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message
