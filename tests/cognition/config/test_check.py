"""A configuration is checked against the dataclass that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from cognition.config.agent_config import AgentConfig
from cognition.config.check import faults_of, parse
from cognition.errors import ConfigurationError


@dataclass(frozen=True)
class Inner:
    rate: Annotated[float, Ge(0), Lt(1)] = 0.5
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, MinLen(1), MaxLen(5)]
    count: Annotated[int, Gt(0), Le(9)] = 3
    on: bool = False
    words: tuple[str, ...] = ()
    maybe: tuple[int, ...] | None = None
    inner: Inner = field(default_factory=Inner)
    by_name: dict[str, Inner] = field(default_factory=dict)


def faults(**given: Any) -> list[str]:
    return [str(fault) for fault in faults_of(Outer, {"name": "n", **given}, "top")]


def test_what_is_given_becomes_the_value_and_the_rest_its_defaults() -> None:
    given = {
        "name": "n",
        "words": ["x"],
        "maybe": [1, 2],
        "inner": {"rate": 0},
        "by_name": {"k": {"kind": "b"}},
        "on": None,
    }
    assert parse(Outer, given, "c") == Outer(
        "n", 3, False, ("x",), (1, 2), Inner(0.0), {"k": Inner(kind="b")}
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": 7}, "top.name must be text (it is 7)"),
        ({"name": ""}, "top.name has 0, must have at least 1"),
        ({"name": "abcdef"}, "top.name has 6, must have at most 5"),
        ({"count": True}, "top.count must be a whole number (it is True)"),
        ({"count": 1.0}, "top.count must be a whole number (it is 1.0)"),
        ({"count": 0}, "top.count must be more than 0 (it is 0)"),
        ({"count": 10}, "top.count must be at most 9 (it is 10)"),
        ({"on": 1}, "top.on must be true or false (it is 1)"),
        ({"words": "xy"}, "top.words must be a list (it is 'xy')"),
        ({"words": ["x", 1]}, "top.words[1] must be text (it is 1)"),
        ({"maybe": ["x"]}, "top.maybe[0] must be a whole number (it is 'x')"),
        ({"inner": 1}, "top.inner must be a table"),
        ({"inner": {"rate": -1}}, "top.inner.rate must be at least 0 (it is -1)"),
        ({"inner": {"rate": 1}}, "top.inner.rate must be less than 1 (it is 1)"),
        ({"inner": {"rate": float("nan")}}, "top.inner.rate must be a number"),
        ({"inner": {"kind": "c"}}, "top.inner.kind must be a or b (it is 'c')"),
        ({"inner": {"rat": 0}}, "top.inner.rat is unknown; the nearest is rate"),
        ({"by_name": {"k": {"kind": 1}}}, "top.by_name.k.kind must be a or b (it is 1)"),
        ({"by_name": []}, "top.by_name must be a table"),
        ({"zzz": 1}, "top.zzz is unknown; known here: name, count, on, words, maybe, inner, by_name"),
    ],
)
def test_each_fault_is_told_with_its_key(given: dict[str, Any], words: str) -> None:
    assert faults(**given) == [words]


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^c: count must be .*; inner\.kind must be .*; name is missing$"
    ):
        parse(Outer, {"count": "3", "inner": {"kind": ""}}, "c")


def test_what_is_no_table_at_all_is_a_fault() -> None:
    assert [str(fault) for fault in faults_of(Outer, [], "top")] == ["top must be a table"]


def test_what_is_huge_is_not_shown() -> None:
    [fault] = faults(count="9" * 10_000)
    assert len(fault) < 200
    [fault] = faults(**{"z" * 10_000: 1})
    assert len(fault) < 300


def test_an_agent_that_is_told_nothing_has_the_defaults() -> None:
    assert parse(AgentConfig, {}, "agent configuration") == AgentConfig()
