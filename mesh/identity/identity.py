"""Who a node is to its peers: its Noise key, bound to its signing keys, and the hello that says so.

A node's true name is its *origin*, the fingerprint of its first Ed25519 key (``chain.keys.keys``). The Noise handshake
proves possession of an X25519 key instead. So the present Ed25519 key signs which Noise key speaks for the origin::

    b"weftos/mesh/noise-static/1\\n" || origin || b"\\n" || Noise public key (32) || SHA-256(ML-DSA-65 vkey text)

and that *binding* is part of the *hello*, the msgpack map each side sends in its handshake payload::

    {"v": 1, "origin", "ed25519": 32 bytes, "ml_dsa": vkey text, "binding": 64 bytes, "name": hint, "boot": hex}

``ed25519`` is the first key. A node whose keys have been changed adds ``rotations``, a list of each next Ed25519 key
and the signature by which the one before names it (``chain.keys.rotation.succession_text``), 96 bytes together. The
last of them has signed the binding. Which of two ends of such a chain is the newer one, ``known_keys.py`` remembers.
Such a chain may have a hundred signatures, and anybody can make one: what was verified before is not verified again,
and who shows others may be told to come back later (:class:`Before`).

:func:`check_hello` is where a peer's claim becomes a :class:`PeerIdentity`; nothing else makes one. A hello is
public and may be replayed by anyone: it helps nobody who does not hold the Noise secret it names.

The Noise key may be made anew when its file is missing (the binding carries it; the origin stays).

Interface::

    NoiseKey.create_or_load(keys_dir) -> NoiseKey      .secret .public          raises MeshFileError
    Identity(keys: chain.keys.keys.Keys, noise: NoiseKey, name: str, boot: str)      .origin .hello -> bytes
    check_hello(payload: bytes, remote_static: bytes, before = Before()) -> PeerIdentity           raises HelloError
    PeerIdentity(origin, ed25519: VerifierKey, ml_dsa: VerifierKey, name, boot, noise, former) .vkeys .chain
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from chain.errors import VerifierKeyError
from chain.keys.keys import ED25519_FILE, Keys, origin_of
from chain.keys.rotation import MAX_ROTATIONS, succession_text
from chain.notes.note import ED25519, ML_DSA_65, VerifierKey, verify_ed25519
from mesh.bounded import Unbounded, unpack
from mesh.bounds import MAX_HELLO_BYTES
from mesh.errors import HelloError, MeshFileError
from mesh.files import read_private, write_private

HELLO_VERSION = 1
ROTATIONS = "rotations"
_MAX_HELLO_VALUES = 64 + MAX_ROTATIONS
BINDING_CONTEXT = b"weftos/mesh/noise-static/1\n"
NOISE_FILE = "noise.key"
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
_NAME = re.compile(NAME_PATTERN).fullmatch
_BOOT = re.compile(r"[0-9a-f]{16}").fullmatch
_FIELDS: dict[str, type] = {
    "v": int, "origin": str, "ed25519": bytes, "ml_dsa": str, "binding": bytes, "name": str, "boot": str,
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class NoiseKey:
    """An X25519 key pair; both halves are 32 bytes."""

    secret: bytes
    public: bytes

    @classmethod
    def from_secret(cls, secret: bytes) -> NoiseKey:
        return cls(secret, X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())

    @classmethod
    def create_or_load(cls, directory: Path) -> NoiseKey:
        """The key in ``directory/noise.key``, made when missing beside the node's other keys.

        Raises :class:`MeshFileError`.
        """
        path = directory / NOISE_FILE
        content = read_private(path)
        if content is not None:
            return cls.from_secret(_secret_in(path, content))
        if not (directory / ED25519_FILE).is_file():
            raise MeshFileError(
                f"{directory} holds no {ED25519_FILE}: a Noise key is made beside a node's signing keys alone; "
                "point --data at the right directory"
            )
        secret = secrets.token_bytes(32)
        write_private(path, base64.b64encode(secret) + b"\n")
        return cls.from_secret(secret)

    def __repr__(self) -> str:
        return f"<NoiseKey {self.public.hex()}>"


@dataclass(frozen=True)
class Identity:
    """This node as its peers meet it. ``name`` is only a hint to them, ``boot`` 16 hexadecimal digits."""

    keys: Keys
    noise: NoiseKey
    name: str
    boot: str

    @property
    def origin(self) -> str:
        return self.keys.origin

    @cached_property
    def hello(self) -> bytes:
        """The handshake payload of this node, the same for every peer."""
        ml_dsa = self.keys.mldsa.text
        text = binding_text(self.origin, self.noise.public, ml_dsa)
        first, *later = [pair.ed25519.public_key for pair in self.keys.pairs]
        hello: dict[str, Any] = {
            "v": HELLO_VERSION,
            "origin": self.origin,
            "ed25519": first,
            "ml_dsa": ml_dsa,
            "binding": self.keys.sign_ed25519(text),
            "name": self.name,
            "boot": self.boot,
        }
        if later:
            hello[ROTATIONS] = [
                key + signature for key, signature in zip(later, self.keys.succession, strict=True)
            ]
        packed: bytes = msgpack.packb(hello)
        return packed


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """Who the other side of a session has proved to be. ``name`` is what it calls itself: a hint, never trusted.

    noise: the public key of its sessions; former: the Ed25519 keys it had before the present one, the first first.
    """

    origin: str
    ed25519: VerifierKey
    ml_dsa: VerifierKey
    name: str
    boot: str
    noise: bytes = b""
    former: tuple[bytes, ...] = ()

    @property
    def vkeys(self) -> tuple[VerifierKey, VerifierKey]:
        """The keys that verify this peer's tree heads."""
        return self.ed25519, self.ml_dsa

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Its Ed25519 keys from the first to the present one."""
        return *self.former, self.ed25519.public_key


@dataclass(frozen=True, slots=True)
class Before:
    """What is known before a hello is read. ``chain(origin)``: the :attr:`PeerIdentity.chain` that this origin has
    shown, empty when it is met for the first time. ``affords(count)``: whether so many signatures of changes of keys
    may be verified now.
    """

    chain: Callable[[str], tuple[bytes, ...]] = lambda origin: ()
    affords: Callable[[int], bool] = lambda count: True


NOTHING_BEFORE = Before()


def binding_text(origin: str, noise_public: bytes, ml_dsa_vkey: str) -> bytes:
    """What the Ed25519 key signs to say which Noise key and which ML-DSA-65 key are the origin's."""
    return BINDING_CONTEXT + origin.encode() + b"\n" + noise_public + sha256(ml_dsa_vkey.encode()).digest()


def check_hello(payload: bytes, remote_static: bytes, before: Before = NOTHING_BEFORE) -> PeerIdentity:
    """The peer that ``payload`` names, if it is the one whose Noise key this session has proved.

    ``remote_static`` is the peer's static key in the handshake. Raises :class:`HelloError` with the rule: form,
    version, origin, busy, rotations, ml_dsa, binding, name, boot.
    """
    hello = _unpack(payload)
    origin, first, ml_dsa_text = hello["origin"], hello["ed25519"], hello["ml_dsa"]
    if len(first) != 32 or origin_of(first) != origin:
        raise HelloError("origin", f"it claims {origin!r:.80}, its Ed25519 key is another's")
    *former, public_key = _follow(origin, first, hello.get(ROTATIONS, []), before)
    ed25519 = VerifierKey(origin, ED25519, public_key)
    try:
        ml_dsa = VerifierKey.parse(ml_dsa_text)
    except VerifierKeyError as error:
        raise HelloError("ml_dsa", str(error)) from error
    if ml_dsa.type != ML_DSA_65 or ml_dsa.name != origin or ml_dsa.text != ml_dsa_text:
        raise HelloError("ml_dsa", f"{ml_dsa.name!r:.80} is not an ML-DSA-65 key of {origin}")
    if not ed25519.verify(binding_text(origin, remote_static, ml_dsa_text), hello["binding"]):
        raise HelloError(
            "binding", f"{origin} has not signed for the Noise key {remote_static.hex()} of this session"
        )
    if not _NAME(hello["name"]):
        raise HelloError(
            "name", f"{hello['name']!r:.80} is no node name (letters, digits, _ . -, at most 63)"
        )
    if not _BOOT(hello["boot"]):
        raise HelloError("boot", f"{hello['boot']!r:.80} is no boot id (16 hexadecimal digits)")
    return PeerIdentity(origin, ed25519, ml_dsa, hello["name"], hello["boot"], remote_static, tuple(former))


def _follow(origin: str, first: bytes, rotations: list[Any], before: Before) -> list[bytes]:
    """The Ed25519 keys of ``origin`` from the first to the present one. Raises :class:`HelloError`."""
    keys, shown = [first], before.chain(origin) or (first,)
    fresh = len(rotations) + 1 - len(shown)
    if fresh > 0 and not before.affords(fresh):
        raise HelloError(
            "busy", f"{fresh} changes of keys of {origin} cannot be verified now: call again later"
        )
    for number, named in enumerate(rotations, 1):
        if type(named) is not bytes or len(named) != 96:
            raise HelloError("rotations", f"change {number} is not a key and a signature, 96 bytes")
        key, signature = named[:32], named[32:]
        if number < len(shown):
            if key != shown[number]:
                raise HelloError(
                    "rotations",
                    f"{origin} shows another key after change {number} than it had when it was seen",
                )
        elif not verify_ed25519(keys[-1], succession_text(origin, number, keys[-1], key), signature):
            raise HelloError("rotations", f"key {number} of {origin} is not named by the one before")
        keys.append(key)
    return keys


def _unpack(payload: bytes) -> dict[str, Any]:
    if len(payload) > MAX_HELLO_BYTES:
        raise HelloError("form", f"{len(payload)} bytes, limit {MAX_HELLO_BYTES}")
    try:
        hello = unpack(payload, _MAX_HELLO_VALUES)
    except Unbounded as error:
        raise HelloError("form", f"{len(payload)} bytes that are no msgpack map") from error
    if not isinstance(hello, dict) or type(hello.get("v")) is not int:
        raise HelloError("form", "not a map with a version")
    if hello["v"] != HELLO_VERSION:
        raise HelloError("version", f"hello of version {hello['v']}, this node knows {HELLO_VERSION}")
    fields = _FIELDS | {ROTATIONS: list} if ROTATIONS in hello else _FIELDS
    if hello.keys() != fields.keys() or any(type(hello[name]) is not kind for name, kind in fields.items()):
        raise HelloError("form", f"its fields must be {', '.join(fields)}, each of its type")
    if len(hello.get(ROTATIONS, ())) > MAX_ROTATIONS:
        raise HelloError("form", f"{len(hello[ROTATIONS])} changes of keys, limit {MAX_ROTATIONS}")
    return hello


def _secret_in(path: Path, content: bytes) -> bytes:
    try:
        secret = base64.b64decode(content.removesuffix(b"\n"), validate=True)
    except binascii.Error:
        secret = b""
    if len(secret) != 32 or base64.b64encode(secret) + b"\n" != content:
        raise MeshFileError(
            f"{path} does not hold a key (one line, 32 bytes in base64); restore it from a copy, or remove it "
            "to have a new one made: the node's name stays, open sessions end"
        )
    return secret
