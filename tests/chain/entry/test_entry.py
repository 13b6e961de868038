"""Entries and bodies have one byte string each, and nothing else is taken for them."""

from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.entry.entry import (
    MAX_BODY_BYTES,
    MAX_BODY_DEPTH,
    MAX_LEAF_BYTES,
    Entry,
    commit_body,
    decode_body,
    decode_entry,
    encode_body,
    encode_entry,
)
from chain.errors import BodyTooLarge, EntryError

ENTRY = Entry(
    seq=7,
    time_us=1_700_000_000_000_000,
    node="weftos-abcdefghijklmnopqrstuvwxyz",
    pid=42,
    count=3,
    kind="tool.intent",
    subject="t-000000000012",
    trace=b"t" * 16,
    cause=5,
    commitment=b"c" * 32,
    previous=b"p" * 32,
)
FIELDS = [getattr(ENTRY, name) for name in Entry.__slots__]
LARGE = st.integers(0, 2**63 - 1)


def entries() -> st.SearchStrategy[Entry]:
    def build(seq: int, cause: int, **rest: Any) -> Entry:
        return Entry(seq=seq, cause=min(cause, seq - 1), **rest)

    return st.builds(
        build,
        seq=LARGE,
        cause=st.integers(-1, 2**63 - 1),
        time_us=LARGE,
        node=st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True),
        pid=LARGE,
        count=LARGE,
        kind=st.from_regex(r"[a-z][a-z_]{0,31}(\.[a-z][a-z_]{0,31}){0,2}", fullmatch=True),
        subject=st.from_regex(r"[!-~]{0,64}", fullmatch=True),
        trace=st.binary(min_size=16, max_size=16) | st.just(b""),
        commitment=st.binary(min_size=32, max_size=32),
        previous=st.binary(min_size=32, max_size=32),
    )


def test_a_leaf_is_a_msgpack_array_in_the_documented_order() -> None:
    assert msgpack.unpackb(encode_entry(ENTRY)) == [
        1,
        7,
        1_700_000_000_000_000,
        "weftos-abcdefghijklmnopqrstuvwxyz",
        42,
        3,
        "tool.intent",
        "t-000000000012",
        b"t" * 16,
        5,
        b"c" * 32,
        b"p" * 32,
    ]


@given(entries())
def test_an_entry_comes_back_and_its_leaf_is_bounded(entry: Entry) -> None:
    leaf = encode_entry(entry)
    assert decode_entry(leaf) == entry
    assert len(leaf) <= MAX_LEAF_BYTES


@given(entries(), st.data())
def test_no_change_of_a_leaf_reads_as_the_same_entry(entry: Entry, data: st.DataObject) -> None:
    leaf = bytearray(encode_entry(entry))
    at = data.draw(st.integers(0, len(leaf) - 1))
    leaf[at] ^= data.draw(st.integers(1, 255))
    try:
        other = decode_entry(bytes(leaf))
    except EntryError:
        return
    assert other != entry
    assert encode_entry(other) == leaf


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("seq", -1, "seq is -1"),
        ("seq", 2**63, "seq is 9223372036854775808"),
        ("seq", True, "seq is bool, must be int"),
        ("time_us", -1, "time_us is -1"),
        ("time_us", 1.5, "time_us is float, must be int"),
        ("node", "", "node is ''"),
        ("node", "Node", "node is 'Node'"),
        ("pid", -1, "pid is -1"),
        ("pid", 2**63, "pid is 9223372036854775808"),
        ("count", -1, "count is -1"),
        ("kind", "", "kind is ''"),
        ("kind", "tool.Intent", "kind is 'tool.Intent'"),
        ("kind", "tool.", "kind is 'tool.'"),
        ("subject", "x" * 65, "at most 64 printable ASCII"),
        ("subject", "two words", "subject is 'two words'"),
        ("subject", "caf\u00e9", "at most 64 printable ASCII"),
        ("subject", "x\n", "at most 64 printable ASCII"),
        ("subject", b"bytes", "subject is bytes, must be str"),
        ("trace", b"t" * 15, "trace has 15 bytes, must have 0 or 16"),
        ("cause", 7, "cause is 7, must be -1 or an entry before 7"),
        ("cause", -2, "cause is -2"),
        ("commitment", b"c" * 31, "commitment has 31 bytes, must have 32"),
        ("previous", b"", "previous has 0 bytes, must have 32"),
        ("previous", None, "previous is NoneType, must be bytes"),
    ],
)
def test_a_field_out_of_its_range_is_neither_written_nor_read(field: str, value: Any, words: str) -> None:
    with pytest.raises(EntryError, match=words):
        encode_entry(replace(ENTRY, **{field: value}))
    fields = dict(zip(Entry.__slots__, FIELDS, strict=True)) | {field: value}
    with pytest.raises(EntryError):
        decode_entry(msgpack.packb([1, *fields.values()]))


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(EntryError, match=r"pid is -1.*; trace has 1 bytes"):
        encode_entry(replace(ENTRY, pid=-1, trace=b"t"))


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (b"", "not msgpack"),
        (b"\xc1", "not msgpack"),
        (encode_entry(ENTRY)[:-1], "not msgpack"),
        (encode_entry(ENTRY) + b"\xc0", "not msgpack"),
        (msgpack.packb({"seq": 7}), "not a msgpack array of 12 fields"),
        (msgpack.packb([1, *FIELDS, 0]), "not a msgpack array of 12 fields"),
        (msgpack.packb([2, *FIELDS]), "format 2, this version reads format 1"),
        (msgpack.packb([True, *FIELDS]), "format True"),
        (b"\xdc\x00\x0c" + encode_entry(ENTRY)[1:], "not canonical"),
        (encode_entry(ENTRY).replace(b"\x07", b"\xcc\x07", 1), "not canonical"),
        (b"\x00" * (MAX_LEAF_BYTES + 1), "leaf of 1025 bytes, limit 1024"),
    ],
)
def test_bytes_that_are_not_a_leaf_are_refused(leaf: bytes, words: str) -> None:
    with pytest.raises(EntryError, match=words):
        decode_entry(leaf)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_a_body_comes_back(body: dict[str, Any]) -> None:
    assert decode_body(encode_body(body)) == body


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.randoms(use_true_random=False))
def test_a_body_has_the_same_bytes_in_any_order(body: dict[str, Any], random: Random) -> None:
    assert encode_body(shuffled(body, random)) == encode_body(body)


def shuffled(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if isinstance(value, dict):
        pairs = list(value.items())
        random.shuffle(pairs)
        return {key: shuffled(item, random) for key, item in pairs}
    return value


def test_body_keys_are_sorted_by_their_bytes() -> None:
    body = {"b": 1, "\u00e9": 2, "a": {"z": 1, "Z": 2}}
    assert list(msgpack.unpackb(encode_body(body))) == ["a", "b", "\u00e9"]
    assert list(msgpack.unpackb(encode_body(body))["a"]) == ["Z", "z"]


class Text(str):
    """A subclass, which a body cannot hold: it would come back as something else."""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({1: "x"}, "key of the body is int"),
        ({b"k": "x"}, "key of the body is bytes"),
        ({Text("k"): "x"}, "key of the body is Text"),
        ({"k": {1: 2}}, "key of the body is int"),
        ({"k": (1, 2)}, "value of the body is tuple"),
        ({"k": {1, 2}}, "value of the body is set"),
        ({"k": Text("x")}, "value of the body is Text"),
        ({"k": [object()]}, "value of the body is object"),
        ({"k": float("nan")}, "value of the body is float"),
        ({"k": float("-inf")}, "value of the body is float"),
        ({"k": 2**64}, "cannot be encoded"),
        ({"k": "\ud800"}, "cannot be encoded"),
        (["k"], "cannot be encoded"),
    ],
)
def test_what_a_body_cannot_hold_is_refused(body: Any, words: str) -> None:
    with pytest.raises(EntryError, match=words):
        encode_body(body)


def nested(depth: int) -> dict[str, Any]:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return {"k": value}


def test_nesting_is_bounded_both_ways() -> None:
    deepest = nested(MAX_BODY_DEPTH - 2)
    assert decode_body(encode_body(deepest)) == deepest
    with pytest.raises(EntryError, match="nested deeper than 32"):
        encode_body(nested(MAX_BODY_DEPTH - 1))
    with pytest.raises(EntryError, match="nested deeper than 32"):
        decode_body(msgpack.packb(nested(MAX_BODY_DEPTH - 1)))
    with pytest.raises(EntryError, match="not msgpack"):
        decode_body(b"\x91" * 100_000 + b"\xc0")


def test_a_body_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    overhead = len(encode_body({"k": "x" * 2**17})) - 2**17
    largest = {"k": "x" * (MAX_BODY_BYTES - overhead)}
    assert decode_body(encode_body(largest)) == largest
    with pytest.raises(BodyTooLarge, match=f"body of {MAX_BODY_BYTES + 1} bytes, limit {MAX_BODY_BYTES}"):
        encode_body({"k": "x" * (MAX_BODY_BYTES - overhead + 1)})
    with pytest.raises(BodyTooLarge):
        decode_body(msgpack.packb({"k": "x" * MAX_BODY_BYTES}))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not msgpack"),
        (b"\x81\xa1k", "not msgpack"),
        (msgpack.packb([1]), "body is list, must be a map"),
        (msgpack.packb({"b": 1, "a": 2}), "not canonical"),
        (b"\x82\xa1a\x01\xa1a\x02", "not canonical"),
        (b"\x81\xa1a\xcc\x01", "not canonical"),
        (b"\x81\xa1a\xca\x3f\x80\x00\x00", "not canonical"),
        (b"\x81\xd9\x01a\x01", "not canonical"),
        (msgpack.packb({"a": msgpack.ExtType(5, b"x")}), "value of the body is ExtType"),
        (msgpack.packb({1: 2}), "not msgpack"),
        (b"\xdf\xff\xff\xff\xff", "not msgpack"),
    ],
)
def test_bytes_that_are_not_a_body_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(EntryError, match=words):
        decode_body(data)


def test_a_failed_encoding_leaves_nothing_behind() -> None:
    before = encode_body({"k": "x"})
    with pytest.raises(EntryError):
        encode_body({"j": "y" * 1000, "k": 2**70})
    assert encode_body({"k": "x"}) == before


def test_a_commitment_is_the_hash_of_salt_and_body() -> None:
    body = encode_body({"k": "x"})
    assert commit_body(b"s" * 32, body) == sha256(b"s" * 32 + body).digest()
