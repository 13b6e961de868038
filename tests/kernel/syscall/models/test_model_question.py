"""What is known of messages, made in slices: the same as if made at once."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cell.conversation import list_hash, new_places, pieces_of
from kernel.cell.protocol import ModelQuestion
from kernel.errors import Invalid
from kernel.shapes import read
from kernel.slices.sessions import Session
from kernel.syscall.models.conversations import SLICE_BYTES, Messages, ReadMessages
from kernel.syscall.models.model_question import (
    Base,
    Question,
    former_call_hash,
    read_question,
    request_bytes,
    request_text,
)
from kernel.values import call_hash, canonical, cut_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5)
REST = {"tools": ["ask"], "provider": "p", "model": "m"}


def made(messages: list[Any], texts: list[str] | None = None) -> tuple[ReadMessages, int]:
    read = ReadMessages(([] if texts is None else texts).append)
    return read, sum(1 for _ in read.read(messages))


def known_of(messages: list[Any]) -> Messages:
    return made(messages)[0].known


def asked(args: dict[str, Any], base: Base) -> Question:
    question = read(ModelQuestion, {"terms": None, "options": None, "sections": [], **args})
    reading = read_question(question, base, 1024, 10**6)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            assert isinstance(done.value, Question)
            return done.value


@given(MESSAGES)
def test_texts_and_hashes_are_those_of_the_whole_request(messages: list[Any]) -> None:
    texts: list[str] = []
    read, _ = made(messages, texts)
    rest, whole = canonical(REST), canonical({"messages": messages, **REST})
    assert "[" + ",".join(texts) + "]" == canonical(messages)
    assert read.known.digests == b"".join(sha256(each.encode()).digest() for each in texts)
    assert request_bytes(read.known, rest) == len(whole.encode())
    assert request_text(read.known, rest) == canonical({"messages": read.known.hash, **REST})
    assert former_call_hash(texts, rest) == call_hash("model", whole)


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
    with pytest.raises(Invalid):
        made([{"content": value}])


@given(MESSAGES, st.integers(0, 200))
def test_what_the_ledger_takes_is_cut_as_if_all_of_it_had_been_made(messages: list[Any], most: int) -> None:
    question = Question(
        ModelQuestion(()), "", "", messages=known_of(messages), said=dict(enumerate(messages))
    )
    assert question.new_text(range(len(messages)), (), most) == cut_bytes(canonical(messages), most)


def test_no_more_text_is_made_than_the_ledger_takes() -> None:
    class Seen(dict[int, Any]):
        def __getitem__(self, place: int) -> Any:
            seen.append(place)
            return super().__getitem__(place)

    seen: list[int] = []
    messages: list[Any] = [{"content": "x" * 100}] * 1000
    question = Question(
        ModelQuestion(()), "", "", messages=known_of(messages), said=Seen(enumerate(messages))
    )
    assert question.new_text(range(1000), (), 300)[1]
    assert seen == [0, 1, 2]


def test_a_record_that_is_named_many_times_is_here_once_and_its_text_nowhere() -> None:
    session, records = Session(), [{"content": "é"}, {"content": "b"}]
    session.add(records, 50, 1)
    pieces = [[0, 2], [0, 1], 1, [1, 2]]
    terms = {"count": 2, "hash": known_of(records).hash, "pieces": pieces}
    question = asked({**REST, "messages": [{}], "terms": terms}, Base(session=session))
    whole = [*records, records[0], {}, records[1]]
    assert (question.whole, question.texts) == (True, {3: "{}"})
    assert question.once == {0: records[0], 1: records[1], 3: {}}
    assert question.bytes == len(canonical({"messages": whole, **REST}).encode())
    assert question.former_call_hash == call_hash("model", canonical({"messages": whole, **REST}))
    assert question.call_hash == asked({**REST, "messages": whole}, Base()).call_hash
