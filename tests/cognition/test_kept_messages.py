"""Messages that the gateway keeps: within a bound, those asked with last."""

from __future__ import annotations

import json
import tracemalloc
from hashlib import sha256
from typing import Any

import msgpack
import pytest

from cognition.errors import CognitionError
from cognition.kept_messages import KeptMessages
from cognition.providers.wire import EncodedMessage, wire_message


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def said(*texts: str) -> tuple[bytes, list[tuple[int, dict[str, Any]]]]:
    return b"".join(map(digest, texts)), [(place, message(text)) for place, text in enumerate(texts)]


def read(found: tuple[EncodedMessage, ...] | None) -> list[dict[str, Any]]:
    assert found is not None
    return [dict(one) for one in found]


def test_what_was_said_is_known_and_held_once() -> None:
    kept = KeptMessages()
    first = kept.messages(*said("a", "b"))
    assert read(first) == [message("a"), message("b")]
    held = kept.bytes
    again = kept.messages(digest("b") + digest("a") + digest("a"), [])
    assert again is not None
    assert read(again) == [message("b"), message("a"), message("a")]
    kept.messages(*said("a", "b"))
    assert kept.bytes == held
    assert json.loads(again[0].encoded) == message("b")


def test_a_message_that_is_not_here_is_lost_and_those_said_with_it_are_kept() -> None:
    kept = KeptMessages()
    assert kept.messages(digest("a") + digest("b"), [(1, message("b"))]) is None
    found = kept.messages(digest("a") + digest("b"), [(0, message("a"))])
    assert read(found) == [message("a"), message("b")]


def test_those_asked_with_longest_ago_go_first() -> None:
    kept = KeptMessages(most_bytes=3_500)
    for text in ("a", "b", "c"):
        kept.messages(*said(text))
    kept.messages(digest("a"), [])
    kept.messages(*said("d"))
    assert kept.messages(digest("b"), []) is None
    assert kept.messages(digest("a") + digest("c") + digest("d"), []) is not None
    assert kept.bytes <= 3_500


def test_a_request_over_the_bound_is_answered_and_not_kept() -> None:
    kept = KeptMessages(most_bytes=3_500)
    long = "x" * 10_000
    assert read(kept.messages(*said("a", long))) == [message("a"), message(long)]
    assert kept.messages(digest(long), []) is None
    assert kept.bytes <= 3_500


@pytest.mark.parametrize(
    "more",
    [
        {"note": "x" * 100_000},
        {"content": "x" * 100_000 + "\U0001f600"},
        {"content": [[] for _ in range(20_000)]},
        {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "x" * 100_000}}]},
        {"tool_calls": [{"id": "c", "note": "x" * 100_000, "function": {"arguments": "{}"}}]},
    ],
    ids=[
        "a key that nobody reads",
        "wide text",
        "many values",
        "arguments that are not sent",
        "a key of a call",
    ],
)
def test_what_is_kept_is_counted_as_what_it_takes(more: dict[str, Any]) -> None:
    kept = KeptMessages(most_bytes=2**20)
    packed = [msgpack.packb({**message(f"{number}"), **more}) for number in range(50)]
    tracemalloc.start()
    try:
        for number, one in enumerate(packed):
            asked = kept.messages(digest(f"{number}"), [(0, msgpack.unpackb(one))])
            assert asked is not None and len(asked[0].encoded) > 0
        del asked
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken <= kept.bytes + 100_000
    assert kept.bytes <= 2**20


def test_of_a_message_that_is_kept_all_is_read_that_providers_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asks: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    told: dict[str, Any] = {
        "role": "tool",
        "content": "no",
        "tool_call_id": "c",
        "status": "denied",
        "truncated": True,
    }
    for one in (asks, told):
        kept = KeptMessages().messages(digest("a"), [(0, {**one, "note": "mine"})])
        assert kept is not None and read(kept) == [one]
        assert json.loads(kept[0].encoded) == wire_message(one)


def test_all_can_be_forgotten() -> None:
    kept = KeptMessages()
    kept.messages(*said("a"))
    kept.forget()
    assert kept.bytes == 0
    assert kept.messages(digest("a"), []) is None


def test_a_place_outside_of_the_request_is_refused() -> None:
    with pytest.raises(CognitionError, match="message 1 of 1"):
        KeptMessages().messages(digest("a"), [(1, message("a"))])
