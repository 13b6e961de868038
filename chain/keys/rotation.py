"""Key rotation: how a node's keys change, and which keys sign a head of a given size. Pure.

An entry ``key.rotated`` names the next pair of keys and bears four signatures of one *statement*: those of the
old pair (they hand over) and those of the new pair (whoever names a key holds it). So the pairs are a chain
from the first one, whose Ed25519 key the origin is the fingerprint of; the name in every verifier key stays
that origin, only the key ids differ.

A head of size n is signed by the pair in force after the last ``key.rotated`` with a seq below n: the head
that covers a rotation is signed by the new keys already, and nothing is ever signed by the old ones again.

The statement is::

    weftos/rotation/1 \\n origin \\n number \\n old Ed25519 \\n old ML-DSA-65 \\n new Ed25519 \\n new ML-DSA-65 \\n

with the verifier keys as text. Ed25519 signs these bytes; ML-DSA-65 signs them with the context
``weftos/rotation/1``.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from reprlib import repr as brief
from typing import Any, Protocol

from chain.errors import RotationError, VerifierKeyError
from chain.notes.note import ED25519, ML_DSA_65, VerifierKey, verify_ed25519, verify_ml_dsa_65

KIND = "key.rotated"
ROTATION_CONTEXT = b"weftos/rotation/1"
SUCCESSION_CONTEXT = b"weftos/mesh/rotation/1"
MAX_ROTATIONS = 100
_NEW_KEYS = ("ed25519", "ml_dsa_65")
_SIGNATURES = ("old_ed25519", "old_ml_dsa_65", "new_ed25519", "new_ml_dsa_65")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The two public keys that sign a node's heads together."""

    ed25519: VerifierKey
    mldsa: VerifierKey

    @property
    def both(self) -> tuple[VerifierKey, VerifierKey]:
        """Ed25519, ML-DSA-65: what :func:`chain.notes.note.verify` wants for a full head."""
        return self.ed25519, self.mldsa

    @property
    def text(self) -> str:
        """Two lines, as ``vkeys`` files hold them."""
        return f"{self.ed25519.text}\n{self.mldsa.text}\n"


class Rotating(Protocol):
    """Secret keys that can sign a rotation: :class:`chain.keys.keys.Keys`."""

    @property
    def pair(self) -> KeyPair: ...

    def sign_rotation(self, statement: bytes) -> tuple[bytes, bytes]:
        """The Ed25519 and the ML-DSA-65 signature of ``statement``."""


def origin_of(ed25519_public_key: bytes) -> str:
    """The true name that belongs to a first Ed25519 public key."""
    fingerprint = base64.b32encode(sha256(ed25519_public_key).digest()[:16]).decode()
    return "weftos-" + fingerprint.rstrip("=").lower()


def statement(origin: str, number: int, old: KeyPair, new: KeyPair) -> bytes:
    """What all four keys of rotation ``number`` (1 for the first) sign."""
    return ROTATION_CONTEXT + f"\n{origin}\n{number}\n{old.text}{new.text}".encode()


def rotation_body(old: Rotating, new: Rotating, number: int, reason: str) -> dict[str, Any]:
    """The body of the entry by which ``old`` hands over to ``new``."""
    text = statement(old.pair.ed25519.name, number, old.pair, new.pair)
    signatures = (*old.sign_rotation(text), *new.sign_rotation(text))
    return {
        "ed25519": new.pair.ed25519.text,
        "ml_dsa_65": new.pair.mldsa.text,
        "number": number,
        "reason": reason,
        **dict(zip(_SIGNATURES, signatures, strict=True)),
    }


def follow(keys: KeyPair, origin: str, number: int, body: Mapping[str, Any]) -> KeyPair:
    """The pair that ``body``, of rotation ``number``, puts in the place of ``keys``.

    Raises :class:`RotationError` with the rule that the body breaks.
    """
    if body.get("number") != number or type(body.get("number")) is not int:
        raise RotationError(f"rotation {number} says that it is number {brief(body.get('number'))}")
    new = KeyPair(*(_new_key(body, name, origin, number) for name in _NEW_KEYS))
    if new.ed25519.type != ED25519 or new.mldsa.type != ML_DSA_65:
        raise RotationError(f"rotation {number} does not name an Ed25519 and an ML-DSA-65 key")
    if new.ed25519 == keys.ed25519 or new.mldsa == keys.mldsa:
        raise RotationError(f"rotation {number} keeps an old key: both must change")
    text = statement(origin, number, keys, new)
    for field, key in zip(_SIGNATURES, (*keys.both, *new.both), strict=True):
        signature = body.get(field)
        if not isinstance(signature, bytes) or not _signed(key, text, signature):
            raise RotationError(
                f"rotation {number}: {field} is no signature of {key.name}+{key.key_id.hex()} for these keys"
            )
    return new


def _new_key(body: Mapping[str, Any], field: str, origin: str, number: int) -> VerifierKey:
    text = body.get(field)
    try:
        key = VerifierKey.parse(text) if isinstance(text, str) else None
    except VerifierKeyError as error:
        raise RotationError(f"rotation {number}: {field}: {error}") from error
    if key is None or key.text != text or key.name != origin:
        raise RotationError(f"rotation {number}: {field} is not a verifier key of {origin}")
    return key


def _signed(key: VerifierKey, text: bytes, signature: bytes) -> bool:
    if key.type == ED25519:
        return verify_ed25519(key.public_key, text, signature)
    return verify_ml_dsa_65(key.public_key, text, signature, ROTATION_CONTEXT)


class KeyHistory:
    """The pairs of one node in their order, and since which entry each is in force.

    ``first`` is trusted; every further pair has to be handed over to by the one before. ``known`` are pairs
    that followed, by entries before ``size`` that were verified earlier (a snapshot's); then :meth:`at`
    answers for ``size`` and above only.
    """

    def __init__(self, first: KeyPair, known: Sequence[KeyPair] = (), size: int = 0) -> None:
        self.origin = first.ed25519.name
        self._pairs = [first, *known]
        self._from = size
        self._seqs: list[int] = []

    @property
    def pairs(self) -> tuple[KeyPair, ...]:
        """All of them, the first keys first."""
        return tuple(self._pairs)

    @property
    def current(self) -> KeyPair:
        """The pair that signs from now on."""
        return self._pairs[-1]

    @property
    def rotations(self) -> int:
        """How many times the keys have changed."""
        return len(self._pairs) - 1

    def rotated(self, seq: int, body: Mapping[str, Any]) -> KeyPair:
        """Follow the ``key.rotated`` at ``seq``, higher than those before. Raises :class:`RotationError`."""
        least = self._seqs[-1] + 1 if self._seqs else self._from
        if seq < least:
            raise RotationError(f"rotation at entry {seq} after one at entry {least - 1}")
        if self.rotations >= MAX_ROTATIONS:
            raise RotationError(f"rotation {self.rotations + 1} at entry {seq}, limit {MAX_ROTATIONS}")
        self._pairs.append(follow(self.current, self.origin, self.rotations + 1, body))
        self._seqs.append(seq)
        return self.current

    def at(self, size: int) -> KeyPair:
        """The pair that signs a head of ``size`` entries. Raises ValueError for one below the known beginning."""
        return self._pairs[self.number_at(size)]

    def number_at(self, size: int) -> int:
        """How often the keys had changed when :meth:`at` came into force; keys may come back. Raises ValueError."""
        if size < self._from:
            raise ValueError(f"the keys of a head of size {size} are known from size {self._from} on only")
        before = len(self._pairs) - 1 - len(self._seqs)
        return before + bisect_left(self._seqs, size)


def succession_text(origin: str, number: int, old: bytes, new: bytes) -> bytes:
    """What an Ed25519 key signs to name its successor (both public, 32 bytes) to the node's peers.

    Peers know a node by its Ed25519 key alone, and a handshake has no room for the whole statement.
    """
    return SUCCESSION_CONTEXT + f"\n{origin}\n{number}\n".encode() + old + new


def vkeys_text(pairs: Sequence[KeyPair]) -> bytes:
    """The ``vkeys`` file of these pairs, the first keys first."""
    return "".join(pair.text for pair in pairs).encode()


def parse_vkeys(data: bytes) -> tuple[KeyPair, ...]:
    """The pairs in a ``vkeys`` file: two lines each, all under the fingerprint of the first Ed25519 key.

    This is what the file *claims*; the chain of ``key.rotated`` entries proves it. Raises
    :class:`RotationError`, :class:`VerifierKeyError`.
    """
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise RotationError(f"not ASCII at byte {error.start}") from error
    keys = [VerifierKey.parse(line) for line in lines[: 2 * (MAX_ROTATIONS + 1) + 1]]
    pairs = tuple(KeyPair(*both) for both in zip(keys[::2], keys[1::2], strict=False))
    if not pairs or len(keys) != 2 * len(pairs) or len(pairs) > MAX_ROTATIONS + 1:
        raise RotationError(
            f"it must hold one Ed25519 and one ML-DSA-65 verifier key, and two more lines for each rotation "
            f"(at most {MAX_ROTATIONS})"
        )
    for pair in pairs:
        if (pair.ed25519.type, pair.mldsa.type) != (ED25519, ML_DSA_65):
            raise RotationError(
                "it must hold one Ed25519 and one ML-DSA-65 verifier key for each pair, in this order"
            )
    origin = origin_of(pairs[0].ed25519.public_key)
    strangers = [key.name for key in keys if key.name != origin]
    if strangers:
        raise RotationError(f"it names {strangers[0]}, its Ed25519 key belongs to {origin}")
    return pairs
