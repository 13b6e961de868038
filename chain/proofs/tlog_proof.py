"""The receipt file of one entry: text that proves it offline, after C2SP tlog-proof (c2sp.org/tlog-proof)::

    c2sp.org/tlog-proof@v1
    extra BASE64
    index 73894
    BASE64                       one line for each hash of the inclusion proof, the leaf's sibling first

    ORIGIN                       the checkpoint as it was signed: origin, size, root, an empty line, signatures
    ...

The extra data is the canonical msgpack array ``[1, leaf, salt, body]``, salt and body both nil where the body is not
handed out (or erased). So the file says *what* was logged, not only that something was. Nothing in it is believed
before :meth:`TlogProof.check`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from chain.entry.entry import (
    MAX_BODY_BYTES,
    MAX_LEAF_BYTES,
    SALT_BYTES,
    Entry,
    commit_body,
    decode_body,
    decode_entry,
)
from chain.errors import ReceiptError
from chain.merkle.head import MAX_SIZE, TreeHead, parse_head
from chain.merkle.merkle import HASH_BYTES, leaf_hash
from chain.merkle.proof import verify_inclusion
from chain.notes.note import ED25519, MAX_NOTE_BYTES, ML_DSA_65, VerifierKey, parse, verify

FORMAT_LINE = b"c2sp.org/tlog-proof@v1"
FORMAT = 1
MAX_HASHES = 63
MAX_EXTRA_BYTES = MAX_LEAF_BYTES + SALT_BYTES + MAX_BODY_BYTES + 64
MAX_FILE_BYTES = 4 * (MAX_EXTRA_BYTES // 3 + 1) + MAX_HASHES * 45 + 256 + MAX_NOTE_BYTES
_EXTRA, _INDEX = b"extra ", b"index "
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}").fullmatch
_KEY_TYPES = {ED25519: "Ed25519", ML_DSA_65: "ML-DSA-65"}


@dataclass(frozen=True, slots=True)
class Proven:
    """What a receipt file proves: ``entry``, in the tree under ``head``; ``body`` is None when it was not along."""

    entry: Entry
    body: dict[str, Any] | None
    head: TreeHead


@dataclass(frozen=True, slots=True)
class TlogProof:
    """``leaf`` is entry ``index`` of the tree that the checkpoint in ``note`` names.

    ``salt`` and ``body`` are both there or both None.
    """

    leaf: bytes
    index: int
    hashes: tuple[bytes, ...]
    note: bytes
    salt: bytes | None = None
    body: bytes | None = None

    def encode(self) -> bytes:
        """The file."""
        extra: bytes = msgpack.packb([FORMAT, self.leaf, self.salt, self.body])
        lines = [FORMAT_LINE, _EXTRA + base64.b64encode(extra), _INDEX + str(self.index).encode()]
        return b"\n".join([*lines, *map(base64.b64encode, self.hashes), b"", self.note])

    @classmethod
    def decode(cls, data: bytes) -> TlogProof:
        """Read a file: form and bounds only. Raises :class:`ReceiptError`."""
        if len(data) > MAX_FILE_BYTES:
            raise ReceiptError(f"receipt file of {len(data)} bytes, limit {MAX_FILE_BYTES}")
        head, empty, note = data.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        if first != FORMAT_LINE:
            raise ReceiptError(f"it begins with {first[:40]!r}, must begin with {FORMAT_LINE.decode()}")
        if not empty or not note:
            raise ReceiptError("it has no checkpoint behind an empty line")
        if not lines or not lines[0].startswith(_EXTRA):
            raise ReceiptError(
                "its second line is not `extra` and base64: it does not carry the entry it proves"
            )
        leaf, salt, body = _read_extra(lines[0].removeprefix(_EXTRA))
        if len(lines) < 2 or not lines[1].startswith(_INDEX):
            raise ReceiptError("its third line is not `index` and a number")
        number = lines[1].removeprefix(_INDEX)
        if not _NUMBER(number) or int(number) >= MAX_SIZE:
            raise ReceiptError(
                f"its index is {number[:40]!r}, must be a plain decimal number below {MAX_SIZE}"
            )
        if len(lines) - 2 > MAX_HASHES:
            raise ReceiptError(f"its proof has {len(lines) - 2} hashes, limit {MAX_HASHES}")
        return cls(leaf, int(number), tuple(map(_read_hash, lines[2:])), note, salt, body)

    def check(self, keys: Sequence[VerifierKey]) -> Proven:
        """What it proves to whoever trusts ``keys``.

        Its rules: an Ed25519 *and* an ML-DSA-65 key of ``keys`` have signed the checkpoint, and no signature under
        one of ``keys`` is wrong; the checkpoint is of the log that these keys are named after; the path leads from
        the leaf to its root; the leaf is the entry of that log and index; the body is the one that it commits to.
        Raises a :class:`ChainError` that says which rule it breaks.
        """
        head = self._head(keys)
        verify_inclusion(
            index=self.index,
            size=head.size,
            leaf_hash=leaf_hash(self.leaf),
            proof=self.hashes,
            root=head.root,
        )
        entry = decode_entry(self.leaf)
        if entry.seq != self.index or entry.node != head.origin:
            raise ReceiptError(
                f"it is for entry {self.index} of {head.origin}, its leaf is entry {entry.seq} of {entry.node}"
            )
        if self.salt is None or self.body is None:
            return Proven(entry, None, head)
        if commit_body(self.salt, self.body) != entry.commitment:
            raise ReceiptError(f"its body is not the one that entry {entry.seq} commits to")
        return Proven(entry, decode_body(self.body), head)

    def _head(self, keys: Sequence[VerifierKey]) -> TreeHead:
        lines = {(line.name, line.key_id) for line in parse(self.note).signatures}
        signers = [key for key in keys if (key.name, key.key_id) in lines]
        for kind, name in _KEY_TYPES.items():
            if not any(key.type == kind for key in signers):
                raise ReceiptError(
                    f"its checkpoint bears no {name} signature of a key you gave: both lines are needed, "
                    "by the keys that were in force then"
                )
        head = parse_head(verify(self.note, signers).text)
        strangers = [key.name for key in signers if key.name != head.origin]
        if strangers:
            raise ReceiptError(
                f"its checkpoint is of the log {head.origin}, the key belongs to {strangers[0]}"
            )
        return head


def _read_extra(encoded: bytes) -> tuple[bytes, bytes | None, bytes | None]:
    """Leaf, salt and body."""
    data = _unbase64(encoded)
    if data is None:
        raise ReceiptError("its extra data is not canonical base64")
    if len(data) > MAX_EXTRA_BYTES:
        raise ReceiptError(f"its extra data has {len(data)} bytes, limit {MAX_EXTRA_BYTES}")
    try:
        fields = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise ReceiptError(f"its extra data is not msgpack: {type(error).__name__}") from error
    match fields:
        case [int(form), *_] if form != FORMAT and type(form) is int:
            raise ReceiptError(f"its extra data has format {form}, this version reads format {FORMAT}")
        case [_, bytes(leaf), None, None]:
            salt = body = None
        case [_, bytes(leaf), bytes(salt), bytes(body)] if len(salt) == SALT_BYTES:
            pass
        case _:
            raise ReceiptError("its extra data is not of the form [1, leaf, salt, body]")
    if msgpack.packb([FORMAT, leaf, salt, body]) != data:
        raise ReceiptError("its extra data is not canonical: it encodes again to other bytes")
    return leaf, salt, body


def _read_hash(line: bytes) -> bytes:
    found = _unbase64(line)
    if found is None or len(found) != HASH_BYTES:
        raise ReceiptError(f"line {line[:60]!r} is not a hash of {HASH_BYTES} bytes in canonical base64")
    return found


def _unbase64(encoded: bytes) -> bytes | None:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data) == encoded else None
