"""The key of a provider in what its server says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.providers.answer import AnswerBuilder, excerpt
from cognition.providers.base import ProviderBounds
from cognition.providers.key_words import KeyFilter, arguments_without_key, without_key
from cognition.providers.openai_compatible import take_chunk
from kernel.abi import ModelAnswer

KEY = 'sk-AbCdEf0123/"\\'
SHORT_ALPHABET = st.text(st.sampled_from("abAB-"), max_size=30)


def answered(text: str, name: str, arguments: str, ident: str, key: str = KEY) -> ModelAnswer:
    builder = AnswerBuilder(ProviderBounds(), key)
    call = {"id": ident, "function": {"name": name, "arguments": arguments}}
    take_chunk(builder, {"choices": [{"message": {"content": text, "tool_calls": [call]}}]})
    return builder.finish()


@pytest.mark.parametrize("spelt", [KEY, KEY.lower(), KEY.upper()])
def test_a_key_is_in_no_part_of_an_answer_and_in_no_error(spelt: str) -> None:
    answer = answered(f"it is {spelt}.", f"f{spelt}", json.dumps({"text": spelt}), spelt)
    assert answer.text == "it is [key]."
    assert [(call.name, call.arguments, call.id) for call in answer.tool_calls] == [
        ("f[key]", '{"text": "[key]"}', "[key]")
    ]
    assert excerpt(f"bad {spelt}", secret=KEY) == "bad [key]"


def test_a_key_that_is_spelt_by_escapes_does_not_reach_a_tool() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    assert json.loads(arguments_without_key(f'{{"a": "x{escaped}y"}}', KEY)) == {"a": "x[key]y"}
    assert arguments_without_key(r'{"a":  "\u0041"}', KEY) == r'{"a":  "\u0041"}'
    assert arguments_without_key(r'{"a": \u0041', KEY) == r'{"a": \u0041'


def test_a_word_that_serves_as_a_key_may_be_said() -> None:
    assert answered("ollama is a server", "f", "{}", "1", "ollama").text == "ollama is a server"


@given(st.lists(SHORT_ALPHABET), st.sampled_from(["ab-ab", "aab", "-", "abAB-abAB"]))
def test_a_key_that_comes_in_pieces_is_never_shown(pieces: list[str], key: str) -> None:
    shown = KeyFilter(key)
    parts = [*(shown.add(piece) for piece in pieces), shown.rest()]
    assert "".join(parts) == without_key("".join(pieces), key)


def test_what_cannot_be_the_key_is_shown_at_once() -> None:
    shown = KeyFilter(KEY)
    assert [shown.add(piece) for piece in ("good", " sk", "y", "!")] == ["good", " ", "sky", "!"]
    assert KeyFilter("").add("x") == "x"
