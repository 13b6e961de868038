"""Fields that not everybody may see: found by their names, in JSON and in lines, and by nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.config.agent_config import SENSITIVE_FIELDS
from cognition.history.sensitive import NOT_SHOWN, hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"name":"Al","email":"a@b.c"}', {"name": "Al", "email": NOT_SHOWN}),
        ('[{"dateOfBirth":"1.1.70","x":1}]', [{"dateOfBirth": NOT_SHOWN, "x": 1}]),
        ('{"a":{"Phone number":["1","2"]}}', {"a": {"Phone number": NOT_SHOWN}}),
        ('{"salary":{"gross":7}}', {"salary": NOT_SHOWN}),
    ],
)
def test_in_json_however_deep(text: str, shown: Any) -> None:
    assert json.loads(hidden(text, SENSITIVE_FIELDS)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Name: Al\nE-Mail: a@b.c\nIBAN = DE1", f"Name: Al\nE-Mail: {NOT_SHOWN}\nIBAN = {NOT_SHOWN}"),
        ("  - date of birth: 1.1.70", f"  - date of birth: {NOT_SHOWN}"),
        ('{"email": "a@b.c", broken', '{"email": "a@b.c", broken'),
        ('"email": "a@b.c",', f'"email": {NOT_SHOWN}'),
        ("address: /user/ada\nstate: running", "address: /user/ada\nstate: running"),
        ("his salary is 7", "his salary is 7"),
        ("", ""),
    ],
)
def test_in_lines(text: str, shown: str) -> None:
    assert hidden(text, SENSITIVE_FIELDS) == shown


def test_what_has_no_such_field_stays_as_it_is_to_the_byte_and_none_are_looked_for_where_none_are_named() -> (
    None
):
    assert hidden('{ "a" :1,\n"b":[2] }', SENSITIVE_FIELDS) == '{ "a" :1,\n"b":[2] }'
    assert hidden('{"email":1}', ()) == '{"email":1}'


def test_what_is_nested_beyond_reading_is_not_shown() -> None:
    deep: Any = {"email": "secret@x"}
    for _ in range(60):
        deep = {"a": deep}
    assert "secret@x" not in hidden(json.dumps(deep), SENSITIVE_FIELDS)
    assert hidden("[" * 100_000, SENSITIVE_FIELDS) == "[" * 100_000


NAMES = st.sampled_from(["a", "email", "E_mail"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def left(value: Any) -> list[Any]:
    """What is shown of such fields."""
    if isinstance(value, dict):
        return [each for name, inner in value.items() for each in (left(inner) if name == "a" else [inner])]
    return [each for inner in value for each in left(inner)] if isinstance(value, list) else []


@given(VALUES)
def test_no_value_of_such_a_field_is_left_in_any_json(value: Any) -> None:
    shown = hidden(json.dumps([value]), ("email",))
    assert set(left(json.loads(shown))) <= {NOT_SHOWN}
