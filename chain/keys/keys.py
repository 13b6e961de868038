"""The node's own keys: made once, kept in files, used to sign.

``keys/`` holds ``ed25519.key`` and ``ml-dsa-65.key`` (each the 32-byte seed in base64, one line, mode 0600)
and ``vkeys.txt`` (public): the two verifier keys, and when they have been changed, all pairs from the first to
the present one, two lines each. ``succession.txt`` then holds a line for each change: the signature by which
one Ed25519 key names the next to peers (:func:`chain.keys.rotation.succession_text`), in base64. The *origin*, a
node's true name, is ``weftos-`` and the base32 of the first 16 bytes of SHA-256 over its first Ed25519 public
key.

Keys are never replaced and never made anew in passing: whatever is missing or doubtful is a
:class:`KeyFileError`. They are written in a directory beside, which is renamed when all of it is on disk, so
that half a set never has the name. How they are changed is in ``key_change.py``.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import nacl.signing
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from chain.disk import Disk
from chain.errors import KeyFileError, RotationError, VerifierKeyError
from chain.keys.rotation import ROTATION_CONTEXT, KeyPair, parse_vkeys, succession_text, vkeys_text
from chain.keys.rotation import origin_of as origin_of  # a part of this module's interface
from chain.notes.note import ED25519, HEAD_CONTEXT, ML_DSA_65, VerifierKey, signature_line, verify_ed25519

SEED_BYTES = 32
ED25519_FILE = "ed25519.key"
ML_DSA_65_FILE = "ml-dsa-65.key"
VKEYS_FILE = "vkeys.txt"
SUCCESSION_FILE = "succession.txt"
MAX_VKEYS_BYTES = 2**20
_MAX_FILE_BYTES = 64 * 1024


class Keys:
    """A node's two signing keys.

    ``origin`` is its true name; ``ed25519`` and ``mldsa`` are its public verifier keys; ``pairs`` are all public
    keys it has had, from the first to these; ``succession`` holds a signature for each change.

    Signing is safe from any thread; ML-DSA releases the interpreter's lock while it works.
    """

    __slots__ = ("_ed25519", "_mldsa", "ed25519", "mldsa", "origin", "pairs", "succession")

    def __init__(
        self,
        ed25519_seed: bytes,
        mldsa_seed: bytes,
        before: Sequence[KeyPair] = (),
        succession: Sequence[bytes] = (),
    ) -> None:
        self._ed25519 = nacl.signing.SigningKey(ed25519_seed)
        self._mldsa = MLDSA65PrivateKey.from_seed_bytes(mldsa_seed)
        public = bytes(self._ed25519.verify_key)
        self.origin = before[0].ed25519.name if before else origin_of(public)
        self.ed25519 = VerifierKey(self.origin, ED25519, public)
        self.mldsa = VerifierKey(self.origin, ML_DSA_65, self._mldsa.public_key().public_bytes_raw())
        self.pairs = (*before, KeyPair(self.ed25519, self.mldsa))
        self.succession = tuple(succession)

    def sign_ed25519(self, text: bytes) -> bytes:
        """The Ed25519 signature of a note text, 64 bytes."""
        return self._ed25519.sign(text).signature

    def sign_mldsa(self, text: bytes) -> bytes:
        """The ML-DSA-65 signature of a note text under the context ``weftos/head/1``, 3309 bytes."""
        return self._mldsa.sign(text, HEAD_CONTEXT)

    @property
    def pair(self) -> KeyPair:
        """The public keys."""
        return self.pairs[-1]

    def sign_rotation(self, statement: bytes) -> tuple[bytes, bytes]:
        """The Ed25519 and the ML-DSA-65 signature of a rotation's statement (``chain.keys.rotation``)."""
        return self._ed25519.sign(statement).signature, self._mldsa.sign(statement, ROTATION_CONTEXT)

    def ed25519_line(self, text: bytes) -> bytes:
        """The note's signature line of the Ed25519 key for ``text``."""
        return signature_line(self.origin, self.ed25519.key_id, self.sign_ed25519(text))

    def mldsa_line(self, text: bytes) -> bytes:
        """The note's signature line of the ML-DSA-65 key for ``text``."""
        return signature_line(self.origin, self.mldsa.key_id, self.sign_mldsa(text))

    def __repr__(self) -> str:
        return f"<Keys of {self.origin}>"


def create_keys(directory: Path, disk: Disk | None = None) -> Keys:
    """Make a new identity in ``directory``, which must not exist or be empty. Raises :class:`KeyFileError`.

    On return all of it is on disk.
    """
    ed25519_seed, mldsa_seed = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(SEED_BYTES)
    keys = Keys(ed25519_seed, mldsa_seed)
    files = key_files(ed25519_seed, mldsa_seed, keys)
    staging = directory.with_name(f"{directory.name}.new-{secrets.token_hex(8)}")
    disk = disk or Disk()
    try:
        disk.new_directory(staging)
        write_files(staging, files, disk)
        disk.rename(staging, directory)
        disk.sync_directory(directory.parent)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise KeyFileError(
            f"cannot make keys in {directory}: {error.strerror}; keys that exist are never replaced, "
            "and the directory above must be writable"
        ) from error
    return keys


def load_keys(directory: Path) -> Keys:
    """The identity in ``directory``.

    Raises :class:`KeyFileError`, which says what to do; never makes a new one.
    """
    seeds = _read_seed(directory / ED25519_FILE), _read_seed(directory / ML_DSA_65_FILE)
    try:
        before = load_pairs(directory)[:-1]
    except VerifierKeyError:
        before = ()  # the comparison says it better
    keys = Keys(*seeds, before, _read_succession(directory / SUCCESSION_FILE) if before else ())
    if _read(directory / VKEYS_FILE, MAX_VKEYS_BYTES) != vkeys_text(keys.pairs):
        raise KeyFileError(
            f"{directory / VKEYS_FILE} does not hold the verifier keys of the secret keys beside it "
            f"(of {keys.origin}): files of two nodes are mixed, or one is damaged; "
            "restore the whole directory from one copy"
        )
    if not _succeeds(keys):
        raise KeyFileError(
            f"{directory / SUCCESSION_FILE} does not lead from each key in {VKEYS_FILE} to the next: "
            "restore the whole directory from one copy"
        )
    return keys


def load_pairs(directory: Path) -> tuple[KeyPair, ...]:
    """All public keys that ``directory`` claims, the first ones first, without touching the secret ones.

    Raises :class:`KeyFileError` for the file, :class:`VerifierKeyError` for a key in it.
    """
    path = directory / VKEYS_FILE
    try:
        return parse_vkeys(_read(path, MAX_VKEYS_BYTES))
    except RotationError as error:
        raise KeyFileError(f"{path}: {error}; restore it from a copy") from error


def load_vkeys(directory: Path) -> tuple[VerifierKey, VerifierKey]:
    """The two public keys (Ed25519, ML-DSA-65) now in force, as :func:`load_pairs` reads them."""
    return load_pairs(directory)[-1].both


def key_files(ed25519_seed: bytes, mldsa_seed: bytes, keys: Keys) -> dict[str, bytes]:
    """The files of ``keys``, by name."""
    files = {
        ED25519_FILE: base64.b64encode(ed25519_seed) + b"\n",
        ML_DSA_65_FILE: base64.b64encode(mldsa_seed) + b"\n",
        VKEYS_FILE: vkeys_text(keys.pairs),
    }
    if keys.succession:
        lines = [base64.b64encode(signature) + b"\n" for signature in keys.succession]
        files[SUCCESSION_FILE] = b"".join(lines)
    return files


def write_files(directory: Path, files: Mapping[str, bytes], disk: Disk) -> None:
    """Write new files into ``directory``, mode 0600; on the disk on return. Raises OSError."""
    for name, content in files.items():
        handle = disk.create_new(directory / name)
        try:
            disk.write(handle, 0, content)
            disk.sync(handle)
        finally:
            disk.close(handle)
    disk.sync_directory(directory)


def _succeeds(keys: Keys) -> bool:
    """Whether each Ed25519 key has named the next."""
    public = [pair.ed25519.public_key for pair in keys.pairs]
    return len(keys.succession) == len(public) - 1 and all(
        verify_ed25519(old, succession_text(keys.origin, number, old, new), signature)
        for number, (old, new, signature) in enumerate(
            zip(public, public[1:], keys.succession, strict=False), 1
        )
    )


def _read_succession(path: Path) -> list[bytes]:
    try:
        return [base64.b64decode(line, validate=True) for line in _read(path).splitlines()]
    except binascii.Error as error:
        raise KeyFileError(f"{path} is not base64: restore it from a copy") from error


def _read_seed(path: Path) -> bytes:
    content = _read(path, secret=True)
    try:
        seed = base64.b64decode(content.removesuffix(b"\n"), validate=True)
    except binascii.Error:
        seed = b""
    if len(seed) != SEED_BYTES or base64.b64encode(seed) + b"\n" != content:
        raise KeyFileError(
            f"{path} does not hold a key (one line, {SEED_BYTES} bytes in base64); restore it from a copy"
        )
    return seed


def _read(path: Path, limit_bytes: int = _MAX_FILE_BYTES, *, secret: bool = False) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(fd).st_mode
            content = os.read(fd, limit_bytes) if stat.S_ISREG(mode) else b""
        finally:
            os.close(fd)
    except FileNotFoundError as error:
        if path.parent.with_name(f"{path.parent.name}.next").is_dir() and not path.parent.exists():
            raise KeyFileError(
                f"{path} is missing because a change of keys was cut off: start the node, which finishes it"
            ) from error
        raise KeyFileError(
            f"{path} is missing: restore it from a copy, or point --data at the right directory; "
            "no new identity is made for existing data"
        ) from error
    except OSError as error:
        raise KeyFileError(f"cannot read {path}: {error.strerror}; run as the user who owns it") from error
    if not stat.S_ISREG(mode):
        raise KeyFileError(f"{path} is not a regular file; restore it from a copy")
    if secret and mode & 0o077:
        raise KeyFileError(
            f"{path} has mode {stat.S_IMODE(mode):04o}, must be 0600: others could read the key. "
            f"If nobody did, run `chmod 600 {path}`"
        )
    return content
