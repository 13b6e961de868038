"""Arguments that a model wrote: parsed strictly, validated, and refused in words that fit on a line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.toolbox.arguments import (
    MAX_ARGUMENTS_BYTES,
    MAX_DEPTH,
    ArgumentsError,
    SchemaError,
    Validator,
    canonical_json,
    hash_text,
    parse_arguments,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=5)


@given(OBJECTS)
def test_any_object_survives_its_canonical_text(value: dict[str, Any]) -> None:
    text = canonical_json(value)
    assert parse_arguments(text) == value
    assert canonical_json(parse_arguments(text)) == text


@given(OBJECTS, st.booleans())
def test_one_value_has_one_canonical_text_however_it_was_spelt(
    value: dict[str, Any], ascii_only: bool
) -> None:
    spelt = json.dumps(dict(reversed(value.items())), indent=3, ensure_ascii=ascii_only)
    assert canonical_json(parse_arguments(spelt)) == canonical_json(value)


def test_canonical_text_and_its_hash_are_these() -> None:
    text = canonical_json({"b": [1, 2.5, None], "a": "é"})
    assert text == '{"a":"é","b":[1,2.5,null]}'
    assert hash_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_text_is_no_arguments(blank: str) -> None:
    assert parse_arguments(blank) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":1,"a":2}', "the key 'a' appears twice"),
        ('{"x":{"b":1,"c":2,"b":1}}', "the key 'b' appears twice"),
        ('{"a":NaN}', "NaN is not a JSON value"),
        ('{"a":-Infinity}', "-Infinity is not a JSON value"),
        ('{"a":1e999}', "too large"),
        ('{"a":-1e999}', "too large"),
        ('{"a":18446744073709551616}', "does not fit in 64 bits"),
        ('{"a":-9223372036854775809}', "does not fit in 64 bits"),
        ('{"a":' + "9" * 200_000 + "}", "an integer of 200000 characters"),
        ("[" * 200_000, f"nested deeper than {MAX_DEPTH}"),
        ('{"a":' * 40_000, f"nested deeper than {MAX_DEPTH}"),
        ('{"a":' * 40 + "1" + "}" * 40, f"nested deeper than {MAX_DEPTH}"),
        ('{"a":"' + "x" * 10_000_000 + '"}', f"10000008 bytes, at most {MAX_ARGUMENTS_BYTES}"),
        ('{"a":"' + "é" * 140_000 + '"}', "280008 bytes"),
        ('{"a":"\\ud800"}', "lone surrogate"),
        ('{"\\udfff":1}', "lone surrogate"),
        ('{"a":"\ud800"}', "lone surrogate"),
        ("[1]", "must be a JSON object, not an array"),
        ('"{}"', "must be a JSON object, not a string"),
        ("null", "must be a JSON object, not null"),
        ("17", "must be a JSON object, not a number"),
        ("true", "must be a JSON object, not a boolean"),
        ('{"a":1} {"b":2}', "Extra data"),
        ('{"a":1', "not valid JSON"),
        ("{'a':1}", "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
        ('{"a":"\n"}', "Invalid control character"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_not_one_strict_object_is_refused(text: str, words: str) -> None:
    with pytest.raises(ArgumentsError) as refusal:
        parse_arguments(text)
    message = str(refusal.value)
    assert words in message
    assert len(message) < 500
    assert "\n" not in message


def test_nesting_up_to_the_limit_is_accepted() -> None:
    parse_arguments('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH)
    with pytest.raises(ArgumentsError):
        parse_arguments('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))


def test_brackets_inside_text_are_not_nesting() -> None:
    assert parse_arguments('{"a":"' + "[{" * 1000 + '"}') == {"a": "[{" * 1000}


def test_the_widest_integers_are_accepted() -> None:
    assert parse_arguments('{"a":[-9223372036854775808,18446744073709551615]}')["a"] == [-(2**63), 2**64 - 1]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer", "maximum": 5}},
    "required": ["text"],
    "additionalProperties": False,
}


def test_arguments_that_fit_the_schema_pass() -> None:
    Validator(SCHEMA).check({"text": "x", "count": 5})


def test_every_fault_of_flat_arguments_is_named_with_its_place() -> None:
    with pytest.raises(ArgumentsError) as refusal:
        Validator(SCHEMA).check({"count": 99, "extra": 1})
    message = str(refusal.value)
    assert "count: 99 is greater than" in message
    assert "'extra'" in message
    assert '"text" is a required property' in message


def test_a_fault_deep_inside_is_named_by_its_path() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    with pytest.raises(ArgumentsError, match="a/1: 7 is not of type"):
        Validator(schema).check({"a": ["x", 7]})


def test_a_refusal_of_huge_arguments_is_short_and_keeps_the_reason() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}
    with pytest.raises(ArgumentsError) as refusal:
        Validator(schema).check({"a": "x" * 200_000})
    assert len(str(refusal.value)) < 500
    assert "longer than" in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "none is fetched"),
        ({"$ref": "file:///etc/hostname"}, "none is fetched"),
        ({"pattern": "(?=look)ahead"}, "regex"),
        ({"pattern": "("}, "regex"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match="not a usable JSON Schema") as refusal:
        Validator(schema)
    assert words in str(refusal.value)
