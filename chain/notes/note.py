"""Signed notes and verifier keys, after C2SP signed-note (c2sp.org/signed-note).

A note is UTF-8 text ending in a newline, an empty line, then one signature line for each signer::

    — NAME base64(key id (4 bytes) || signature)

A *verifier key* is text too: ``NAME+HEXID+base64(type || public key)``. The key id is the first four bytes of
SHA-256(NAME || newline || type || public key), so a typing error anywhere in a verifier key is noticed.

Two types verify here. ``0x01`` is Ed25519 over the note text. For ML-DSA-65 the specification has assigned no
byte, so ours is what it recommends then: ``0xff`` and a longer identifier, ``weftos/ml-dsa-65``; such a line
signs the note text by FIPS 204 (pure ML-DSA.Sign) with the context string ``weftos/head/1``. The types
``0x04`` (Ed25519 cosignature) and ``0x06`` (ML-DSA-44 cosigner) are recognised, so that a list holding them
can be read, and verify nothing.

A note is trusted here only through :func:`verify`. Its rules: the bytes are bounded and well-formed; *every*
key that was given has signed; a signature that bears a known name and id and is wrong spoils the whole note;
lines of unknown keys are ignored.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import nacl.exceptions
import nacl.signing
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from chain.errors import NoteError, VerifierKeyError

MAX_NOTE_BYTES = 256 * 1024
MAX_SIGNATURES = 32
MAX_SIGNATURE_BYTES = 8 * 1024
MAX_NAME_BYTES = 256
MAX_VKEY_BYTES = 8 * 1024

ED25519 = b"\x01"
ML_DSA_65 = b"\xff" + b"weftos/ml-dsa-65"
COSIGNATURE_ED25519 = b"\x04"
COSIGNATURE_ML_DSA_44 = b"\x06"
HEAD_CONTEXT = b"weftos/head/1"

_PUBLIC_KEY_BYTES = {ED25519: 32, ML_DSA_65: 1952, COSIGNATURE_ED25519: 32, COSIGNATURE_ML_DSA_44: 1312}
# The specification recommends how a key id is made, and a published key of this type has another one. Nothing
# is ever verified with such a key here, so its id is kept as given.
_ID_AS_GIVEN = frozenset((COSIGNATURE_ML_DSA_44,))
_HEX_ID = re.compile(r"[0-9a-f]{8}").fullmatch
_DASH = "\u2014 ".encode()
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]").search
_NAME = re.compile(r"[^\s+\x00-\x1f]+").fullmatch
_KEY_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line: who claims to have signed, and the signature's bytes."""

    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A note taken apart. ``text`` is exactly what was signed, its last newline included."""

    text: bytes
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name it signs under. ``type`` is one of the type constants of this module.

    ``key_id`` follows from the rest; one that is given must match.
    """

    name: str
    type: bytes
    public_key: bytes
    key_id: bytes = b""

    def __post_init__(self) -> None:
        if not _good_name(self.name):
            raise VerifierKeyError(
                f"key name {self.name!r:.80} is empty, too long, or holds a space, a + or a control"
            )
        if len(self.public_key) != _PUBLIC_KEY_BYTES.get(self.type):
            raise VerifierKeyError(
                f"key {self.name!r:.80}: no known type has the bytes {self.type[:20].hex()} "
                f"and a public key of {len(self.public_key)} bytes"
            )
        derived = sha256(self.name.encode() + b"\n" + self.type + self.public_key).digest()[:_KEY_ID_BYTES]
        if not self.key_id:
            object.__setattr__(self, "key_id", derived)
        elif self.key_id != derived and self.type not in _ID_AS_GIVEN:
            raise VerifierKeyError(
                f"verifier key of {self.name!r:.80} says id {self.key_id.hex()}, its name and key give "
                f"{derived.hex()}: it was mistyped or cut off"
            )

    @property
    def text(self) -> str:
        """The verifier key as text, what :meth:`parse` reads."""
        encoded = base64.b64encode(self.type + self.public_key).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    @classmethod
    def parse(cls, vkey: str) -> VerifierKey:
        """Read a verifier key. Raises :class:`VerifierKeyError`."""
        if len(vkey) > MAX_VKEY_BYTES:
            raise VerifierKeyError(f"verifier key of {len(vkey)} characters, limit {MAX_VKEY_BYTES}")
        parts = vkey.split("+", 2)
        if len(parts) != 3 or not _HEX_ID(parts[1]):
            raise VerifierKeyError(
                f"verifier key {vkey!r:.80} is not of the form name+id+key; copy the whole line"
            )
        name, key_id, encoded = parts
        data = _unbase64(encoded)
        if data is None:
            raise VerifierKeyError(
                f"verifier key of {name!r:.80}: its last part is not base64; copy the whole line"
            )
        prefix = ML_DSA_65 if data.startswith(ML_DSA_65) else data[:1]
        return cls(name, prefix, data[len(prefix) :], bytes.fromhex(key_id))

    def verify(self, text: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's over the note text ``text``.

        Keys of unsupported type verify nothing.
        """
        if self.type == ED25519:
            return verify_ed25519(self.public_key, text, signature)
        if self.type == ML_DSA_65:
            return verify_ml_dsa_65(self.public_key, text, signature, HEAD_CONTEXT)
        return False


def verify_ed25519(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 verification without the cofactor: ``[S]B = R + [h]A``, R compared as bytes. False as well unless S is
    below the group's order, and R and A are canonical, neither of them of small order.
    """
    if type(signature) is not bytes:  # for None, pynacl looks for the signature in the message
        return False
    try:
        nacl.signing.VerifyKey(public_key).verify(message, signature)
    except (nacl.exceptions.BadSignatureError, nacl.exceptions.TypeError, nacl.exceptions.ValueError):
        return False
    return True


def verify_ml_dsa_65(public_key: bytes, message: bytes, signature: bytes, context: bytes) -> bool:
    """FIPS 204 ML-DSA.Verify. False for any public key, signature or context that is not well-formed."""
    if type(signature) is not bytes:
        return False
    try:
        _ml_dsa_65(public_key).verify(signature, message, context)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=64)
def _ml_dsa_65(public_key: bytes) -> MLDSA65PublicKey:
    return MLDSA65PublicKey.from_public_bytes(public_key)


def signature_line(name: str, key_id: bytes, signature: bytes) -> bytes:
    """One signature line, its newline included."""
    return _DASH + name.encode() + b" " + base64.b64encode(key_id + signature) + b"\n"


def join_note(text: bytes, *lines: bytes) -> bytes:
    """The note of ``text`` and its signature lines (each from :func:`signature_line`)."""
    return text + b"\n" + b"".join(lines)


def parse(data: bytes) -> Note:
    """Take a note apart.

    Raises :class:`NoteError` when it is not well-formed. Says nothing about its signatures.
    """
    if len(data) > MAX_NOTE_BYTES:
        raise NoteError(f"note of {len(data)} bytes, limit {MAX_NOTE_BYTES}")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise NoteError(f"note is not UTF-8 at byte {error.start}") from error
    if _CONTROL(data):
        raise NoteError("note holds a control character other than newline")
    end = data.rfind(b"\n\n")
    if end < 1:
        raise NoteError("note has no empty line between a text and its signatures")
    text, rest = data[: end + 1], data[end + 2 :]
    if not rest.endswith(b"\n"):
        raise NoteError("note has no signature line" if not rest else "the note's last line has no newline")
    lines = rest[:-1].split(b"\n")
    if len(lines) > MAX_SIGNATURES:
        raise NoteError(f"note has {len(lines)} signature lines, limit {MAX_SIGNATURES}")
    return Note(text, tuple(_parse_line(line) for line in lines))


def _parse_line(line: bytes) -> Signature:
    if not line.startswith(_DASH):
        raise NoteError(f"line {line[:40]!r} after the note's empty line is not a signature line")
    name, space, encoded = line[len(_DASH) :].decode().partition(" ")
    data = _unbase64(encoded)
    if not space or not _good_name(name) or data is None:
        raise NoteError(f"signature line {line[:60]!r} is not of the form: dash, name, base64")
    if not _KEY_ID_BYTES < len(data) <= MAX_SIGNATURE_BYTES:
        raise NoteError(
            f"signature of {name!r:.80} has {len(data)} bytes, must have 5 to {MAX_SIGNATURE_BYTES}"
        )
    return Signature(name, data[:_KEY_ID_BYTES], data[_KEY_ID_BYTES:])


def verify(data: bytes, keys: Sequence[VerifierKey]) -> Note:
    """The note in ``data``, once every one of ``keys`` is found to have signed it.

    Raises :class:`NoteError`.
    """
    if not keys:
        raise NoteError("no verifier key was given to verify the note with")
    note = parse(data)
    for key in keys:
        mine = [
            line.signature for line in note.signatures if (line.name, line.key_id) == (key.name, key.key_id)
        ]
        if not mine:
            signers = ", ".join(f"{line.name}+{line.key_id.hex()}" for line in note.signatures)
            raise NoteError(
                f"note is not signed by {key.name}+{key.key_id.hex()}; it bears signatures of {signers:.400}"
            )
        if not all(key.verify(note.text, signature) for signature in mine):
            raise NoteError(f"signature of {key.name}+{key.key_id.hex()} does not match the note's text")
    return note


def _good_name(name: str) -> bool:
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded) <= MAX_NAME_BYTES and _NAME(name) is not None


def _unbase64(text: str) -> bytes | None:
    """Standard base64 in its one canonical spelling, or None."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if data and base64.b64encode(data).decode() == text else None
