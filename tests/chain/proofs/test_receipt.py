"""A receipt proves its entry to whoever holds the node's Ed25519 key, and nothing changed in it does."""

from dataclasses import replace
from typing import ClassVar

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.entry.entry import ZERO_HASH, Entry, encode_entry
from chain.errors import ChainError, NoteError, ProofError, ReceiptError
from chain.keys.keys import Keys
from chain.merkle import merkle
from chain.merkle.head import TreeHead
from chain.notes.note import VerifierKey, join_note
from chain.proofs.receipt import MAX_RECEIPT_BYTES, HeadCache, Receipt, check

KEYS = Keys(b"e" * 32, b"m" * 32)
OTHER = Keys(b"f" * 32, b"n" * 32)


def entry(seq: int, node: str = KEYS.origin) -> Entry:
    return Entry(
        seq=seq,
        time_us=seq,
        node=node,
        pid=1,
        count=seq,
        kind="tool.intent",
        subject="",
        trace=b"",
        cause=-1,
        commitment=bytes([seq]) * 32,
        previous=ZERO_HASH,
    )


LEAVES = [encode_entry(entry(seq)) for seq in range(11)]


def signed(head: TreeHead, keys: Keys = KEYS) -> bytes:
    return join_note(head.text(), keys.ed25519_line(head.text()))


def receipt_of(index: int, leaves: list[bytes] = LEAVES, keys: Keys = KEYS) -> Receipt:
    hashes = [merkle.leaf_hash(leaf) for leaf in leaves]
    head = TreeHead(keys.origin, len(leaves), merkle.root(hashes))
    proof = tuple(merkle.inclusion_path(index, hashes))
    return Receipt(leaves[index], index, len(leaves), proof, signed(head, keys))


@pytest.mark.parametrize("index", range(11))
def test_a_receipt_survives_its_encoding_and_proves_its_entry(index: int) -> None:
    receipt = Receipt.decode(receipt_of(index).encode())
    assert check(receipt, KEYS.ed25519) == entry(index)


def test_a_full_head_serves_too() -> None:
    receipt = receipt_of(4)
    text = receipt.note.split(b"\n\n")[0] + b"\n"
    full = replace(receipt, note=receipt.note + KEYS.mldsa_line(text))
    assert check(full, KEYS.ed25519) == entry(4)


@given(st.data())
@settings(max_examples=300)
def test_a_receipt_with_one_bit_changed_proves_nothing(data: st.DataObject) -> None:
    encoded = bytearray(receipt_of(5).encode())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ChainError):
        check(Receipt.decode(bytes(encoded)), KEYS.ed25519)


def test_each_rule_is_named_when_broken() -> None:
    good = receipt_of(5)
    with pytest.raises(NoteError, match="not signed by"):
        check(good, OTHER.ed25519)
    with pytest.raises(ReceiptError, match="for a tree of 12 entries, its head has 11"):
        check(replace(good, size=12), KEYS.ed25519)
    with pytest.raises(ProofError, match="inclusion proof of leaf 5 of 11"):
        check(replace(good, leaf=LEAVES[6]), KEYS.ed25519)
    with pytest.raises(ProofError, match="must have"):
        check(replace(good, proof=good.proof[1:]), KEYS.ed25519)
    with pytest.raises(ProofError):
        check(replace(good, index=6), KEYS.ed25519)


def test_a_head_of_another_log_is_refused_even_when_signed() -> None:
    hashes = [merkle.leaf_hash(leaf) for leaf in LEAVES]
    foreign = TreeHead(OTHER.origin, len(LEAVES), merkle.root(hashes))
    receipt = replace(receipt_of(5), note=signed(foreign))
    with pytest.raises(
        ReceiptError, match=f"head is of the log {OTHER.origin}, the key belongs to {KEYS.origin}"
    ):
        check(receipt, KEYS.ed25519)


def test_a_leaf_at_the_wrong_place_or_of_another_node_is_refused() -> None:
    misplaced = [*LEAVES[:5], LEAVES[9], *LEAVES[6:]]
    with pytest.raises(ReceiptError, match=f"for entry 5 of {KEYS.origin}, its leaf is entry 9 of"):
        check(receipt_of(5, misplaced), KEYS.ed25519)
    foreign = [*LEAVES[:5], encode_entry(entry(5, OTHER.origin)), *LEAVES[6:]]
    with pytest.raises(ReceiptError, match=f"its leaf is entry 5 of {OTHER.origin}"):
        check(receipt_of(5, foreign), KEYS.ed25519)


def test_a_cache_serves_many_heads_and_still_checks_each_receipt() -> None:
    cache = HeadCache(KEYS.ed25519)
    for size in range(1, 12):
        for index in range(size):
            assert cache.check(receipt_of(index, LEAVES[:size])) == entry(index)
    with pytest.raises(ProofError):
        cache.check(replace(receipt_of(5), leaf=LEAVES[6]))
    with pytest.raises(NoteError):
        cache.check(receipt_of(5, keys=OTHER))


class CountingKey(VerifierKey):
    """A key that counts what it is asked to verify."""

    asked: ClassVar[list[bytes]] = []

    def verify(self, text: bytes, signature: bytes) -> bool:
        self.asked.append(text)
        return super().verify(text, signature)


def test_a_cache_verifies_each_head_once() -> None:
    key = CountingKey(KEYS.origin, KEYS.ed25519.type, KEYS.ed25519.public_key)
    cache = HeadCache(key)
    for index in range(11):
        cache.check(Receipt.decode(receipt_of(index).encode()))
    assert len(key.asked) == 1
    cache.check(receipt_of(2, LEAVES[:5]))
    assert len(key.asked) == 2


def test_a_refused_note_is_refused_again() -> None:
    cache = HeadCache(KEYS.ed25519)
    bad = receipt_of(5, keys=OTHER)
    for _ in range(2):
        with pytest.raises(NoteError):
            cache.check(bad)


GOOD = [1, LEAVES[5], 5, 11, list(receipt_of(5).proof), receipt_of(5).note]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not msgpack"),
        (receipt_of(5).encode()[:-1], "not msgpack"),
        (receipt_of(5).encode() + b"\x00", "not msgpack"),
        (msgpack.packb([1, 2]), "not of the form"),
        (msgpack.packb({}), "not of the form"),
        (msgpack.packb([2, *GOOD[1:]]), "format 2, this version reads format 1"),
        (msgpack.packb([*GOOD[:2], 11, *GOOD[3:]]), "entry 11 of 11"),
        (msgpack.packb([*GOOD[:2], -1, *GOOD[3:]]), "entry -1 of 11"),
        (msgpack.packb([*GOOD[:4], [b"short"], GOOD[5]]), "hashes of 32 bytes"),
        (msgpack.packb([*GOOD[:4], ["text"], GOOD[5]]), "hashes of 32 bytes"),
        (msgpack.packb([*GOOD[:4], [bytes(32)] * 129, GOOD[5]]), "at most 128 hashes"),
        (msgpack.packb([True, *GOOD[1:]]), "not canonical"),
        (bytes(MAX_RECEIPT_BYTES + 1), "limit"),
    ],
)
def test_bytes_that_are_not_a_receipt_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(ReceiptError, match=words):
        Receipt.decode(data)
