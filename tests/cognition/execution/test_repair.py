"""Arguments that are nearly JSON, and calls that were written as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.execution.recovered import MOST_CALLS, recovered_calls
from cognition.execution.repair import repaired
from kernel.abi import ToolCall

OFFERED = ("f", "g")


def mended(text: str) -> str:
    return repaired(ToolCall("f", text, "x")).arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": [1, 2,], "b": ",}",}', {"a": [1, 2], "b": ",}"}),
    ],
)
def test_what_can_mean_one_thing_only_is_mended(text: str, value: object) -> None:
    assert json.loads(mended(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        "{broken",
        '{"a": 1',
        "{'a': 1}",
        "[1]",
        '"x"',
        '{"a": 1} {"b": 2}',
        "null",
        "7",
        '{"a": True}',
        "[" * 5_000,
    ],
)
def test_what_would_be_a_guess_is_left_as_it_was(text: str) -> None:
    assert mended(text) == text


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.text()))))
def test_what_is_right_is_not_touched(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assert mended(text) == text


@pytest.mark.parametrize(
    ("text", "prose", "names"),
    [
        ('<tool_call>{"name": "f", "arguments": {}}</tool_call>', "", ["f"]),
        (
            'Let me see.\n<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>\n'
            '<tool_call>{"name": "g", "arguments": {}}</tool_call>\n',
            "Let me see.",
            ["f", "g"],
        ),
        ('[TOOL_CALLS] [{"name": "g", "arguments": {"a": 1}}]', "", ["g"]),
        ('I will.\n<function=f>{"a": 1}</function>', "I will.", ["f"]),
        ('```json\n{"tool": "f", "parameters": {"a": 1}}\n```', "", ["f"]),
        ('```tool_call\n[{"name": "f", "args": {}}, {"name": "g", "input": {}}]\n```', "", ["f", "g"]),
    ],
)
def test_calls_that_were_written_as_text_are_found(text: str, prose: str, names: list[str]) -> None:
    said, calls = recovered_calls(text, OFFERED)
    assert (said, [call.name for call in calls]) == (prose, names)
    assert len({call.id for call in calls}) == len(calls)
    assert all(isinstance(json.loads(call.arguments), dict) for call in calls)


@pytest.mark.parametrize(
    "text",
    [
        "42",
        '<tool_call>{"name": "f", "arguments": {}}</tool_call> and that is how one calls it',
        '<tool_call>{"name": "h", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "f"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": "x"}</tool_call>',
        '<tool_call>{"name": "f", "tool": "g", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}, "price": 3}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}}',
        'Such a call looks so:\n```json\n{"name": "f", "arguments": {}}\n```',
        '{"name": "f", "arguments": {}}',
        "<function=f>nothing</function>",
        "[TOOL_CALLS] f",
        "<tool_call>x</tool_call>" * (MOST_CALLS + 9),
        "<tool_call>" * 5_000 + "</tool_call>" * 5_000,
        "<function=f>" * 5_000,
        "```" + "\n" * 60_000 + "x```",
    ],
)
def test_what_does_not_end_in_calls_of_what_was_offered_is_text(text: str) -> None:
    assert recovered_calls(text, OFFERED) == (text, ())


def test_who_was_offered_nothing_calls_nothing() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert recovered_calls(text, ()) == (text, ())
