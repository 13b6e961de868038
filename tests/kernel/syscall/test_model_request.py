"""A request's text and hashes, made in slices: the same as if made at once."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import Invalid
from kernel.syscall.model_request import SLICE_BYTES, RequestText, common_messages
from kernel.values import call_hash, canonical, sha256_hex

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5)


def request(messages: list[Any]) -> dict[str, Any]:
    return {"messages": messages, "tools": ["ask"], "provider": "p", "model": "m"}


def made(messages: list[Any], limit_bytes: int = 2**20) -> tuple[RequestText, int]:
    text = RequestText(request(messages), limit_bytes)
    return text, sum(1 for _ in text.steps())


@given(MESSAGES)
def test_the_hashes_are_those_of_the_whole_request(messages: list[Any]) -> None:
    text, _ = made(messages)
    whole = canonical(request(messages))
    assert (text.request_hash, text.call_hash) == (sha256_hex(whole), call_hash("model", whole))
    assert text.size_bytes == len(whole.encode())
    assert "[" + ",".join(text.messages) + "]" == canonical(messages)
    assert bytes(text.digests) == b"".join(sha256(each.encode()).digest() for each in text.messages)


@given(MESSAGES, MESSAGES)
def test_what_two_requests_begin_with_is_counted_in_messages(one: list[Any], other: list[Any]) -> None:
    slow = 0
    for mine, theirs in zip(map(canonical, one), map(canonical, other), strict=False):
        if mine != theirs:
            break
        slow += 1
    assert common_messages(bytes(made(one)[0].digests), bytes(made(other)[0].digests)) == slow


@pytest.mark.parametrize(
    "messages", [[{"content": "x" * 1000}] * 512, [{}] * 1024], ids=["half a MiB", "many empty ones"]
)
def test_long_work_stops_after_each_slice(messages: list[Any]) -> None:
    text, stops = made(messages)
    assert stops >= text.size_bytes // SLICE_BYTES
    assert stops >= 4


def test_the_limit_is_of_bytes_and_nothing_is_done_beyond_it() -> None:
    text = RequestText(request([{"content": "€" * 400}] * 10_000), 4000)
    with pytest.raises(Invalid, match="bytes or more, limit 4000"):
        list(text.steps())
    assert len(text.messages) < 10


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: 2}, "\ud800"])
def test_what_is_no_json_is_refused_in_whatever_place(value: Any) -> None:
    message = {"content": value}
    try:
        canonical(message)
    except Invalid:
        with pytest.raises(Invalid):
            made([message])
    else:
        assert made([message])[0].messages == [canonical(message)]
