"""Values are counted before they are built, and no refused bytes stay in an exception."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.bounded import SMALL_BYTES, Unbounded, count_values, unpack

LIMIT = 10_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=40),
    max_leaves=60,
)
HOSTILE = {
    "empty maps": b"\xdd" + struct.pack(">I", 2**20) + b"\x80" * 2**20,
    "empty lists": b"\xdd" + struct.pack(">I", 2**20) + b"\x90" * 2**20,
    "short texts": b"\xdd" + struct.pack(">I", 2**19) + b"\xa1x" * 2**19,
    "nested small lists": b"\x9f" * 2**20,
    "nested maps": b"\x81\xa1x" * 2**19,
    "announced arrays": b"\xdd\xff\xff\xff\xff" * 900,
    "announced arrays, each allowed": b"\xdc\x26\x00" * 900,
    "announced maps": b"\xdf\xff\xff\xff\xff" * 900,
    "a map of many": b"\xdf" + struct.pack(">I", 2**19) + b"\x01\x02" * 2**19,
}


def count(value: Any) -> int:
    """The slow, obvious count."""
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    if isinstance(value, dict):
        return 1 + sum(count(key) + count(item) for key, item in value.items())
    return 1


@given(VALUES)
def test_the_count_is_that_of_the_values_built(value: Any) -> None:
    packed = msgpack.packb(value)
    exact = count(value)
    assert count_values(packed, exact) == exact
    if exact > 1:
        with pytest.raises(Unbounded, match=f"more than {exact - 1} values"):
            count_values(packed, exact - 1)


@given(VALUES, st.binary(max_size=40), st.integers(0))
def test_what_is_cut_or_longer_is_not_one_value(value: Any, more: bytes, at: int) -> None:
    packed = msgpack.packb(value)
    for data in (packed[: at % len(packed)], packed + b"\xc0" + more):
        with pytest.raises(Unbounded):
            count_values(data, LIMIT)
        with pytest.raises(Unbounded):
            unpack(data, LIMIT)


@given(st.binary(max_size=3000))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        value = unpack(data, LIMIT, any_keys=True)
    except Unbounded:
        return
    assert count_values(data, len(data)) >= count(value)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_refused_frame_costs_no_memory(data: bytes) -> None:
    caught: list[Unbounded] = []
    gc.collect()
    tracemalloc.start()
    try:
        try:
            unpack(data, LIMIT, any_keys=True)
        except Unbounded as error:
            caught.append(error)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught
    assert peak < 256 * 1024


@pytest.mark.parametrize("tail", [b"\xc0", b"\xc1"], ids=["more than one value", "no msgpack"])
def test_an_exception_holds_nothing_of_what_was_sent(tail: bytes) -> None:
    data = msgpack.packb(["secret " * 20]) + tail
    assert len(data) <= SMALL_BYTES
    with pytest.raises(Unbounded) as caught:
        unpack(data, LIMIT)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "secret" not in repr(caught.value)


@pytest.mark.parametrize("code", [-1, 0, 5])
@pytest.mark.parametrize("size", [1, 4, 2000])
def test_extension_types_are_refused(code: int, size: int) -> None:
    with pytest.raises(Unbounded):
        unpack(msgpack.packb(["x" * SMALL_BYTES, msgpack.ExtType(code & 127, bytes(size))]), LIMIT)
