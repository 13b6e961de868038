"""What is known of messages, made in slices: the same as if made at once."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cell.conversation import list_hash, new_places, pieces_of
from kernel.errors import Invalid
from kernel.syscall.conversations import SLICE_BYTES, ReadMessages
from kernel.syscall.model_question import former_call_hash, request_bytes, request_text
from kernel.values import call_hash, canonical

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5)
REST = {"tools": ["ask"], "provider": "p", "model": "m"}


def made(messages: list[Any]) -> tuple[ReadMessages, int]:
    read = ReadMessages()
    return read, sum(1 for _ in read.read(messages))


@given(MESSAGES)
def test_texts_and_hashes_are_those_of_the_whole_request(messages: list[Any]) -> None:
    read, _ = made(messages)
    rest, whole = canonical(REST), canonical({"messages": messages, **REST})
    assert "[" + ",".join(read.texts) + "]" == canonical(messages)
    assert read.known.digests == b"".join(sha256(each.encode()).digest() for each in read.texts)
    assert request_bytes(read.known, rest) == len(whole.encode())
    assert request_text(read.known, rest) == canonical({"messages": read.known.hash, **REST})
    assert former_call_hash(read.texts, rest) == call_hash("model", whole)


@given(MESSAGES, MESSAGES)
def test_a_list_put_together_is_as_if_it_had_been_read(one: list[Any], other: list[Any]) -> None:
    known, whole = made(one)[0].known, made(other)[0].known
    pieces = pieces_of(known.digests, whole.digests)
    said = made([other[place] for place in new_places(pieces)])[0].known
    together = known.put_together(pieces, said)
    assert (together.digests, together.sizes) == (whole.digests, whole.sizes)


@given(MESSAGES)
def test_only_a_beginning_with_that_hash_is_known_by_it(messages: list[Any]) -> None:
    known = made(messages)[0].known
    for count in range(1, len(messages) + 1):
        named = list_hash(known.digests[: count * 32])
        beginning = known.beginning(count, named)
        assert beginning is not None and (len(beginning), beginning.hash) == (count, named)
        assert known.beginning(count, list_hash(b"else")) is None
        assert known.beginning(count - 1, named) is None
    assert known.beginning(len(messages) + 1, known.hash) is None
    assert known.beginning(-1, known.hash) is None


@pytest.mark.parametrize(
    "messages", [[{"content": "x" * 1000}] * 512, [{}] * 1024], ids=["half a MiB", "many empty ones"]
)
def test_long_work_stops_after_each_slice(messages: list[Any]) -> None:
    read, stops = made(messages)
    assert stops >= sum(read.known.sizes) // SLICE_BYTES
    assert stops >= 4


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: 2}, "\ud800"])
def test_what_is_no_json_is_refused_in_whatever_place(value: Any) -> None:
    message = {"content": value}
    try:
        canonical(message)
    except Invalid:
        with pytest.raises(Invalid):
            made([message])
    else:
        assert made([message])[0].texts == [canonical(message)]
