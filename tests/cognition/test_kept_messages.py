"""Messages that the gateway keeps: within a bound, those asked with last."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from cognition.errors import CognitionError
from cognition.kept_messages import KeptMessages


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def said(*texts: str) -> tuple[bytes, list[tuple[int, dict[str, Any]]]]:
    return b"".join(map(digest, texts)), [(place, message(text)) for place, text in enumerate(texts)]


def test_what_was_said_is_known_and_held_once() -> None:
    kept = KeptMessages()
    first = kept.messages(*said("a", "b"))
    assert first == (message("a"), message("b"))
    held = kept.bytes
    again = kept.messages(digest("b") + digest("a") + digest("a"), [])
    assert again == (message("b"), message("a"), message("a"))
    kept.messages(*said("a", "b"))
    assert kept.bytes == held
    assert json.loads(again[0].encoded) == message("b")


def test_a_message_that_is_not_here_is_lost_and_those_said_with_it_are_kept() -> None:
    kept = KeptMessages()
    assert kept.messages(digest("a") + digest("b"), [(1, message("b"))]) is None
    assert kept.messages(digest("a") + digest("b"), [(0, message("a"))]) == (message("a"), message("b"))


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
    assert kept.messages(*said("a", long)) == (message("a"), message(long))
    assert kept.messages(digest(long), []) is None
    assert kept.bytes <= 3_500


def test_all_can_be_forgotten() -> None:
    kept = KeptMessages()
    kept.messages(*said("a"))
    kept.forget()
    assert kept.bytes == 0
    assert kept.messages(digest("a"), []) is None


def test_a_place_outside_of_the_request_is_refused() -> None:
    with pytest.raises(CognitionError, match="message 1 of 1"):
        KeptMessages().messages(digest("a"), [(1, message("a"))])
