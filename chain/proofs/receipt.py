"""A receipt: an entry's leaf, its inclusion proof, and the signed head it leads to.

One small file that proves the entry.

Encoded as a msgpack array ``[1, leaf, index, size, [hash, ...], note]``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import msgpack

from chain.entry.entry import MAX_LEAF_BYTES, Entry, decode_entry
from chain.errors import ReceiptError
from chain.merkle.head import MAX_SIZE, TreeHead, parse_head
from chain.merkle.merkle import HASH_BYTES, leaf_hash
from chain.merkle.proof import verify_inclusion
from chain.notes.note import MAX_NOTE_BYTES, VerifierKey, verify

FORMAT = 1
MAX_PROOF_HASHES = 128
MAX_RECEIPT_BYTES = MAX_NOTE_BYTES + MAX_LEAF_BYTES + (MAX_PROOF_HASHES + 1) * (HASH_BYTES + 2)
_HEADS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Receipt:
    """``leaf`` is entry ``index`` of the tree of ``size`` leaves that the head in ``note`` names."""

    leaf: bytes
    index: int
    size: int
    proof: tuple[bytes, ...]
    note: bytes

    def encode(self) -> bytes:
        """The receipt's bytes."""
        data: bytes = msgpack.packb([FORMAT, self.leaf, self.index, self.size, self.proof, self.note])
        return data

    @classmethod
    def decode(cls, data: bytes) -> Receipt:
        """Read a receipt's bytes: shape and bounds only. Raises :class:`ReceiptError`."""
        if len(data) > MAX_RECEIPT_BYTES:
            raise ReceiptError(f"receipt of {len(data)} bytes, limit {MAX_RECEIPT_BYTES}")
        try:
            fields = msgpack.unpackb(data)
        except (ValueError, msgpack.UnpackException) as error:
            raise ReceiptError(
                f"receipt of {len(data)} bytes is not msgpack: {type(error).__name__}"
            ) from error
        match fields:
            case [int(form), bytes(leaf), int(index), int(size), [*hashes], bytes(note)]:
                pass
            case _:
                raise ReceiptError(
                    "receipt is not of the form [format, leaf, index, size, [hash, ...], note]"
                )
        if form != FORMAT:
            raise ReceiptError(f"receipt has format {form}, this version reads format {FORMAT}")
        if not 0 <= index < size <= MAX_SIZE:
            raise ReceiptError(f"receipt is for entry {index} of {size}")
        if len(hashes) > MAX_PROOF_HASHES or any(
            type(item) is not bytes or len(item) != HASH_BYTES for item in hashes
        ):
            raise ReceiptError(
                f"receipt's proof is not at most {MAX_PROOF_HASHES} hashes of {HASH_BYTES} bytes"
            )
        receipt = cls(leaf, index, size, tuple(hashes), note)
        if receipt.encode() != data:
            raise ReceiptError("receipt is not canonical: it encodes again to other bytes")
        return receipt


class HeadCache:
    """Checks receipts under one node's Ed25519 key, and verifies each head only the first time it sees it.

    Its rules: the note must bear a good signature of ``key``; its head must be of the log that the key is
    named after; the receipt's size must be the head's; the leaf must be the entry it says; the proof must
    lead to the head's root. A provisional head (Ed25519 line alone) is enough here.
    """

    def __init__(self, key: VerifierKey) -> None:
        self._key = key
        self._heads: OrderedDict[bytes, TreeHead] = OrderedDict()

    def head(self, note: bytes) -> TreeHead:
        """The verified head in ``note``.

        Raises :class:`NoteError`, :class:`HeadError`, :class:`ReceiptError`.
        """
        head = self._heads.get(note)
        if head is not None:
            return head
        head = parse_head(verify(note, [self._key]).text)
        if head.origin != self._key.name:
            raise ReceiptError(f"head is of the log {head.origin}, the key belongs to {self._key.name}")
        self._heads[note] = head
        if len(self._heads) > _HEADS_KEPT:
            self._heads.popitem(last=False)
        return head

    def check(self, receipt: Receipt) -> Entry:
        """The entry that ``receipt`` proves. Raises a :class:`ChainError` that says which rule it breaks."""
        head = self.head(receipt.note)
        if receipt.size != head.size:
            raise ReceiptError(f"receipt is for a tree of {receipt.size} entries, its head has {head.size}")
        verify_inclusion(
            index=receipt.index,
            size=head.size,
            leaf_hash=leaf_hash(receipt.leaf),
            proof=receipt.proof,
            root=head.root,
        )
        entry = decode_entry(receipt.leaf)
        if entry.seq != receipt.index or entry.node != head.origin:
            raise ReceiptError(
                f"receipt is for entry {receipt.index} of {head.origin}, "
                f"its leaf is entry {entry.seq} of {entry.node}"
            )
        return entry


def check(receipt: Receipt, ed25519_key: VerifierKey) -> Entry:
    """The entry that ``receipt`` proves under ``ed25519_key``, by the rules of :class:`HeadCache`."""
    return HeadCache(ed25519_key).check(receipt)
