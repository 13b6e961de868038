"""Declarations that come from a third-party worker: believed only as far as they can be checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernel.abi import ToolDeclaration
from kernel.toolbox.declaration import (
    DeclarationError,
    check_declaration,
    declaration_from_data,
    declaration_to_data,
)
from kernel.toolbox.registry import builtin_declarations

GOOD = ToolDeclaration("count", "Count.", {"type": "object", "properties": {}})
PROBED = replace(GOOD, name="probed", effect_parameter="key", probe=True)


@pytest.mark.parametrize(
    "declaration", [GOOD, PROBED, *builtin_declarations()], ids=lambda declaration: declaration.name
)
def test_a_good_declaration_travels_unchanged(declaration: ToolDeclaration) -> None:
    assert check_declaration(declaration) == []
    assert declaration_from_data(declaration_to_data(declaration)) == declaration


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "two words"}, "name 'two words' is not"),
        ({"name": ""}, "name '' is not"),
        ({"name": "x" * 65}, "is not 1 to 64"),
        ({"name": "x\n"}, "is not 1 to 64"),
        ({"description": " "}, "must have text"),
        ({"description": "x" * 5000}, "5000 bytes, must have text of at most 4096"),
        ({"effects": "some"}, "effects is 'some', must be one of none, local, external"),
        ({"on_doubt": "hope"}, "on_doubt is 'hope'"),
        ({"sandbox": "mine"}, "sandbox is 'mine'"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
        ({"timeout_s": 1e9}, "at most 3600"),
        ({"roles": ("operator", "clerk")}, "roles has 'clerk', must be of operator, agent, peer"),
        ({"network": ("a.org", "https://b.org")}, "network 'https://b.org' is no host"),
        ({"effect_parameter": "two words"}, "'two words' is no name of a parameter"),
        ({"effect_parameter": "x" * 65}, "is no name of a parameter"),
        (
            {"effect_parameter": "a", "parameters": {"type": "object", "properties": {"a": {}}}},
            "is an argument too; whoever calls must not choose it",
        ),
        ({"probe": True}, "effect_parameter is not, so no probe could find its effects"),
        (
            {"probe": True, "effect_parameter": "key", "effects": "none"},
            "a tool without effects has nothing that could have landed",
        ),
        ({"parameters": {}}, 'with "type": "object"'),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "b"}}}}, "not a usable JSON Schema"),
        ({"parameters": {"type": "object", "$ref": "http://127.0.0.1:9/"}}, "none is fetched"),
        ({"parameters": {"type": "object", "x": float("nan")}}, "is not JSON"),
        ({"parameters": {"type": "object", "description": "x" * 70_000}}, "at most 65536"),
    ],
    ids=str,
)
def test_each_fault_is_named(changes: dict[str, Any], words: str) -> None:
    faults = check_declaration(replace(GOOD, **changes))
    assert len(faults) == 1
    assert words in faults[0]
    with pytest.raises(DeclarationError) as refusal:
        declaration_from_data(declaration_to_data(replace(GOOD, **changes)))
    assert words in str(refusal.value)


def test_all_faults_are_named_at_once() -> None:
    assert len(check_declaration(replace(GOOD, name="", effects="x", timeout_s=-1.0))) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"name": "x"},
        {**declaration_to_data(GOOD), "extra": 1},
        {**declaration_to_data(GOOD), "name": 1},
        {**declaration_to_data(GOOD), "idempotent": 1},
        {**declaration_to_data(GOOD), "timeout_s": True},
        {**declaration_to_data(GOOD), "timeout_s": "9"},
        {**declaration_to_data(GOOD), "roles": "clerk"},
        {**declaration_to_data(GOOD), "roles": [1]},
        {**declaration_to_data(GOOD), "network": "a.org"},
        {**declaration_to_data(GOOD), "network": [1]},
        {**declaration_to_data(GOOD), "parameters": []},
    ],
    ids=str,
)
def test_what_is_no_declaration_is_refused(data: Any) -> None:
    with pytest.raises(DeclarationError):
        declaration_from_data(data)


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ({}, "ask"),
        ({"idempotent": True}, "retry"),
        ({"idempotent": True, "on_doubt": "lost"}, "lost"),
        ({"on_doubt": "retry"}, "retry"),
        ({"effects": "none", "on_doubt": "lost"}, "retry"),
    ],
)
def test_what_becomes_of_a_call_in_doubt_follows_from_all_that_its_tool_says(
    said: dict[str, Any], then: str
) -> None:
    assert replace(GOOD, **said).then == then
