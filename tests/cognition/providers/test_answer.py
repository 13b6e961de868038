"""Answers of servers of every manner, and of hostile ones."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.errors import ProviderError, TransientProviderError
from cognition.providers.answer import MAX_PARTS, AnswerBuilder, excerpt, load_object
from cognition.providers.base import ProviderBounds
from cognition.providers.openai_compatible import take_chunk
from kernel.abi import ModelAnswer, ToolCall

KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "index",
    "id",
    "usage",
    "prompt_tokens",
    "finish_reason",
    "error",
    "code",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


def build(*chunks: dict[str, Any], bounds: ProviderBounds | None = None) -> ModelAnswer:
    builder = AnswerBuilder(bounds or ProviderBounds())
    for chunk in chunks:
        take_chunk(builder, chunk)
    return builder.finish()


def delta(**said: Any) -> dict[str, Any]:
    return {"choices": [{"delta": said}]}


def message(**said: Any) -> dict[str, Any]:
    return {"choices": [{"message": said, "finish_reason": "stop"}]}


def function(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


@given(st.lists(JSON, max_size=3))
def test_any_json_is_an_answer_that_can_be_carried_or_a_named_error(values: list[Any]) -> None:
    chunks = [value if isinstance(value, dict) else {"choices": [{"delta": value}]} for value in values]
    try:
        answer = build(*chunks)
    except ProviderError:
        return
    parts = [answer.text, *(part for c in answer.tool_calls for part in (c.id, c.name, c.arguments))]
    assert all(isinstance(part, str) for part in parts)
    msgpack.packb([*parts, answer.input_tokens, answer.output_tokens])


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            (9, 2, 4),
        ),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}, (9, 0, 9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, (9, 0, 0)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": -1}}, (9, 0, 0)),
    ],
)
def test_no_more_is_kept_than_was_read(usage: dict[str, Any], counted: tuple[int, int, int]) -> None:
    answer = build({**message(content="so"), "usage": usage})
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == counted


def test_arguments_as_an_object_are_taken_as_their_json() -> None:
    answer = build(message(tool_calls=[function("f", {"a": "é"}, id="x")]))
    assert answer.tool_calls == (ToolCall("f", '{"a": "é"}', "x"),)


def test_no_arguments_are_an_empty_object() -> None:
    assert build(message(tool_calls=[function("f", "")])).tool_calls[0].arguments == "{}"


def test_ids_that_are_missing_double_or_huge_are_made_unique() -> None:
    calls = [function("f", "{}", id=ident) for ident in ("a", "a", "", "call_1", "z" * 500)]
    ids = [call.id for call in build(message(tool_calls=calls)).tool_calls]
    assert ids[0] == "a" and len(set(ids)) == 5 and all(len(ident) <= 128 for ident in ids)


def test_pieces_without_index_belong_to_the_last_call_until_a_new_id_comes() -> None:
    answer = build(
        delta(tool_calls=[function("f", '{"a"', id="1")]),
        delta(tool_calls=[function("", ":1}")]),
        delta(tool_calls=[function("g", "{}", id="2")]),
    )
    assert answer.tool_calls == (ToolCall("f", '{"a":1}', "1"), ToolCall("g", "{}", "2"))


def test_content_in_parts_is_joined() -> None:
    assert build(message(content=[{"type": "text", "text": "a"}, {"text": "b"}, {"image": 1}])).text == "ab"


def test_lone_surrogates_become_replacement_characters_and_pairs_are_joined() -> None:
    chunk = load_object(b'{"choices": [{"delta": {"content": "a\\ud800b"}}]}')
    halves = (delta(content="\ud83d"), delta(content="\ude00"))
    assert build(chunk).text == "a\ufffdb"
    assert build(*halves).text == "😀"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"{", "not JSON"),
        (b"[" * 20_000, "not JSON"),
        (b'{"a":[' + b"[]," * MAX_PARTS + b"[]]}", "more than 32768 objects and arrays"),
        (b'{"a\\"":["[\\\\",' + b"{}," * MAX_PARTS + b'{}],"b', "more than 32768 objects and arrays"),
        (b"[]", "not an object"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not JSON"),
    ],
)
def test_what_is_no_json_object_is_named(data: bytes, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        load_object(data)


def test_brackets_in_a_text_are_no_arrays() -> None:
    text = '[{"' * MAX_PARTS + "\\"
    chunk = load_object(json.dumps({"choices": [{"delta": {"content": text}}]}).encode())
    assert build(chunk).text == text


def test_an_answer_larger_than_the_bound_is_refused_however_it_comes() -> None:
    bounds = ProviderBounds(answer_bytes=1000)
    large: list[list[dict[str, Any]]] = [
        [message(content="x" * 1001)],
        [delta(content="x" * 100)] * 11,
        [message(tool_calls=[function("f", "x" * 1001)])],
        [message(content="\x00" * 400)],
        [message(content="é" * 600)],
    ]
    for chunks in large:
        with pytest.raises(ProviderError, match="larger than 1000 bytes"):
            build(*chunks, bounds=bounds)


@pytest.mark.parametrize("index", [64, -1, 10**30])
def test_too_many_tool_calls_are_refused(index: int) -> None:
    with pytest.raises(ProviderError, match="more than 64 tool calls"):
        build(delta(tool_calls=[function("f", "{}", index=index)]))


@pytest.mark.parametrize(("code", "transient"), [(429, True), (503, True), (400, False), ("oops", False)])
def test_an_error_inside_an_answer_is_an_error(code: Any, transient: bool) -> None:
    with pytest.raises(ProviderError, match="overheated") as caught:
        build({"error": {"message": "overheated", "code": code}})
    assert isinstance(caught.value, TransientProviderError) is transient


def test_an_excerpt_is_one_bounded_line_without_the_secret() -> None:
    text = excerpt("SECRET a\x1b[31m\nb\u202e" + "x" * 275 + " SECRET", secret="SECRET")
    assert text.startswith("[key] a [31m b x")
    assert len(text) <= 300 and text.isprintable() and "SEC" not in text
    assert excerpt({"a": "\ud800"}) == r"{'a': '\ud800'}"
    assert excerpt("y" * 301) == "y" * 299 + "…"
