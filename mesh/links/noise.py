"""Noise, the one file that imports ``noiseprotocol``.

``Noise_XX_25519_ChaChaPoly_SHA256`` after the Noise Protocol Framework, revision 34 (noiseprotocol.org)::

    -> e                          32 bytes; its payload would be readable by all, so it is empty here
    <- e, ee, s, es  + payload    32 + 48 + payload + 16 bytes; readable by whoever dialled
    -> s, se         + payload    48 + payload + 16 bytes; readable by the responder alone

Both then hold two keys, one for each direction, and the same *handshake hash*, which no other pair of sides
and no other run shares. The *prologue* goes into that hash unsent: sides that differ in it fail to decrypt.

The library is unmaintained, and right on every public vector we know (``tests/mesh/links/test_noise_vectors.py``).
What it raises on hostile input is of six kinds; here it is one, :class:`NoiseError`. Public keys of low order
are refused (by the X25519 of OpenSSL below it, which will not return an all-zero secret).
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from noise.exceptions import (
    NoiseHandshakeError,
    NoiseInvalidMessage,
    NoiseMaxNonceError,
    NoiseValueError,
)

from mesh.errors import NoiseError

PROTOCOL = b"Noise_XX_25519_ChaChaPoly_SHA256"
MAX_NOISE_BYTES = 65_535
TAG_BYTES = 16
KEY_BYTES = 32

_FAULTS = (
    InvalidTag,
    NoiseHandshakeError,
    NoiseInvalidMessage,
    NoiseMaxNonceError,
    NoiseValueError,
    ValueError,
)


class StaticKey(Protocol):
    """A side's X25519 secret, 32 bytes. ``mesh.identity.identity.NoiseKey`` is one; a cell, which loads of the mesh
    this file alone, has another.
    """

    @property
    def secret(self) -> bytes: ...


class NoiseXX:
    """One side of one handshake, then its two ciphers.

    ``write_message`` and ``read_message`` alternate, the initiator writing first, three messages in all. After
    any :class:`NoiseError` the object is of no further use.
    ``ephemeral`` fixes the ephemeral secret and ``protocol`` another XX suite: for known answers only.
    """

    __slots__ = ("_connection", "_state", "finished")

    def __init__(
        self,
        initiator: bool,
        static: StaticKey,
        prologue: bytes,
        *,
        protocol: bytes = PROTOCOL,
        ephemeral: bytes | None = None,
    ) -> None:
        # It loads every cipher there is, and most nodes have no peers.
        from noise.connection import Keypair, NoiseConnection

        connection: Any = NoiseConnection.from_name(protocol)
        if initiator:
            connection.set_as_initiator()
        else:
            connection.set_as_responder()
        connection.set_prologue(prologue)
        connection.set_keypair_from_private_bytes(Keypair.STATIC, static.secret)
        with warnings.catch_warnings():
            if ephemeral is not None:
                connection.set_keypair_from_private_bytes(Keypair.EPHEMERAL, ephemeral)
                warnings.simplefilter("ignore")
            connection.start_handshake()
        self._connection = connection
        self._state = connection.noise_protocol.handshake_state
        self.finished = False

    def write_message(self, payload: bytes = b"") -> bytes:
        """The next handshake message, with ``payload``. Raises :class:`NoiseError` when it is not our turn."""
        try:
            message = bytes(self._connection.write_message(payload))
        except _FAULTS as error:
            raise NoiseError(f"cannot write a handshake message: {_said(error)}") from error
        self.finished = self._connection.handshake_finished
        return message

    def read_message(self, data: bytes) -> bytes:
        """The payload of the peer's handshake message. Raises :class:`NoiseError`."""
        try:
            payload = bytes(self._connection.read_message(data))
        except _FAULTS as error:
            raise NoiseError(
                f"handshake message of {len(data)} bytes is not of this handshake: {_said(error)}"
            ) from error
        self.finished = self._connection.handshake_finished
        return payload

    @property
    def handshake_hash(self) -> bytes:
        """What names this session and no other, 32 bytes; equal on both sides. Known when finished."""
        if not self.finished:
            raise NoiseError("the handshake hash is known only when the handshake is finished")
        digest: bytes = self._connection.get_handshake_hash()
        return digest

    @property
    def remote_static(self) -> bytes:
        """The peer's static public key, 32 bytes, which it has proved to hold (initiator: after the second
        message; responder: after the third).
        """
        key: bytes | None = getattr(self._state.rs, "public_bytes", None)
        if key is None:
            raise NoiseError("the peer's static key is not known yet")
        return key

    def encrypt(self, plaintext: bytes) -> bytes:
        """``plaintext`` (at most 65,519 bytes) as the next transport message. Raises :class:`NoiseError`."""
        if len(plaintext) > MAX_NOISE_BYTES - TAG_BYTES:
            raise NoiseError(f"plaintext of {len(plaintext)} bytes, limit {MAX_NOISE_BYTES - TAG_BYTES}")
        try:
            ciphertext: bytes = self._connection.encrypt(plaintext)
        except _FAULTS as error:
            raise NoiseError(f"cannot encrypt: {_said(error)}") from error
        return ciphertext

    def decrypt(self, ciphertext: bytes) -> bytes:
        """The plaintext of the peer's next transport message. Raises :class:`NoiseError`."""
        try:
            plaintext: bytes = self._connection.decrypt(ciphertext)
        except _FAULTS as error:
            raise NoiseError(
                f"{len(ciphertext)} bytes are not the peer's next message, or were changed: {_said(error)}"
            ) from error
        return plaintext


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
