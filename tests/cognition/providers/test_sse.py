"""Server-sent events, whole and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.errors import ProviderError
from cognition.providers.http.sse import SseDecoder

STREAM = (
    b": hi\n\ndata: one\n\nevent: x\r\ndata: two\r\ndata:three\r\n\r\nid: 4\n\ndata: \xc3\xa9\n\ndata: open"
)
EVENTS = [b"one", b"two\nthree", "é".encode()]


@given(st.lists(st.integers(1, 12)))
def test_events_do_not_depend_on_how_the_bytes_were_cut(sizes: list[int]) -> None:
    decoder = SseDecoder(1000)
    events: list[bytes] = []
    rest = STREAM
    for size in sizes:
        events += decoder.feed(rest[:size])
        rest = rest[size:]
    events += decoder.feed(rest)
    assert events == EVENTS
    assert decoder.pending() == b"open"


@given(st.binary(max_size=2000))
def test_garbage_is_events_or_a_named_error_and_never_more_than_the_limit(garbage: bytes) -> None:
    decoder = SseDecoder(100)
    try:
        assert all(len(event) <= 100 for event in decoder.feed(garbage))
    except ProviderError as error:
        assert "more than 100 bytes" in str(error)


@pytest.mark.parametrize("piece", [b"x", b"data: ", b"data:\n", b"data: x\n"])
def test_one_event_without_end_is_refused(piece: bytes) -> None:
    decoder = SseDecoder(1000)
    with pytest.raises(ProviderError, match="more than 1000 bytes"):
        for _ in range(1001):
            list(decoder.feed(piece))


def test_comments_for_ever_are_no_event() -> None:
    decoder = SseDecoder(20)
    for _ in range(100):
        assert list(decoder.feed(b": keep alive\r\n")) == []
