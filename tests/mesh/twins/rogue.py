"""An initiator that says whatever it is told to: the core's own handshake and cipher, without its rules."""

from __future__ import annotations

from typing import Any

import msgpack

from mesh.identity.identity import Identity
from mesh.links.frames import CONTROL, HANDSHAKE, HEADER_BYTES, SEALED, pack_frame
from mesh.links.noise import NoiseXX
from mesh.links.session import PROLOGUE


class Rogue:
    """One connection's worth of misbehaviour; ``me`` gives the static key and the default hello."""

    def __init__(self, me: Identity, prologue: bytes = PROLOGUE) -> None:
        self.me = me
        self.noise = NoiseXX(True, me.noise, prologue)
        self.sent = 0
        self.let_in = False

    def first(self) -> bytes:
        return pack_frame(HANDSHAKE, 0, self.noise.write_message())

    def third(self, second: bytes, hello: bytes | None = None) -> bytes:
        """The third frame after the listener's ``second``, with any ``hello``."""
        self.noise.read_message(second[HEADER_BYTES:])
        return pack_frame(HANDSHAKE, 2, self.noise.write_message(self.me.hello if hello is None else hello))

    def sealed(self, plaintext: bytes, number: int | None = None) -> bytes:
        """The next frame, holding exactly ``plaintext``; ``number`` lies about its place."""
        frame = pack_frame(SEALED, self.sent if number is None else number, self.noise.encrypt(plaintext))
        self.sent += 1
        return frame

    def control(self, word: dict[str, Any]) -> bytes:
        return self.sealed(bytes((CONTROL,)) + msgpack.packb(word))

    def opened(self, frame: bytes) -> bytes:
        """The plaintext of a sealed frame of the listener."""
        return self.noise.decrypt(frame[HEADER_BYTES:])
