"""The same call again and again: told, refused, stopped."""

from __future__ import annotations

import pytest

from cognition.execution.repetition import END, REFUSE, UNKNOWN_END, WARN, Repetition, Verdict, key_of
from kernel.abi import ToolCall, ToolResult

CALL = ToolCall("f", '{"a":1,"b":2}', "x")
SAME = ToolResult("x", "f", "ok", "42")


def after(times: int) -> Repetition:
    told = Repetition()
    for _ in range(times):
        told = told.made(CALL, SAME)
    return told


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        (1, "run"),
        (WARN - 1, "run"),
        (WARN, "warn"),
        (REFUSE - 1, "warn"),
        (REFUSE, "refuse"),
        (END - 1, "refuse"),
        (END, "end"),
        (END + 1, "end"),
    ],
)
def test_what_becomes_of_the_same_call_by_its_number(times: int, verdict: Verdict) -> None:
    assert after(times - 1).judge(CALL) == verdict


def test_a_refused_call_counts_as_well() -> None:
    told = after(REFUSE - 1)
    for _ in range(END - REFUSE):
        assert told.judge(CALL) == "refuse"
        told = told.refused(CALL)
    assert told.judge(CALL) == "end"


def test_a_result_that_has_changed_begins_anew() -> None:
    told = after(WARN).made(CALL, ToolResult("x", "f", "ok", "43"))
    assert told.judge(CALL) == "run"
    assert after(WARN).made(CALL, ToolResult("x", "f", "error", "42")).judge(CALL) == "run"


def test_two_in_turns_count_only_where_the_arguments_of_each_repeat() -> None:
    told = Repetition()
    for number in range(REFUSE):
        told = told.made(CALL, SAME).made(ToolCall("g", f'{{"n":{number}}}'), SAME)
    assert told.judge(CALL) == "refuse"
    assert told.judge(ToolCall("g", '{"n":99}')) == "run"


def test_calls_that_mean_the_same_are_the_same() -> None:
    assert key_of(CALL) == key_of(ToolCall("f", '{ "b": 2, "a": 1 }', "y"))
    assert key_of(CALL) != key_of(ToolCall("f", '{"a":1,"b":3}'))
    assert key_of(CALL) != key_of(ToolCall("g", CALL.arguments))
    assert key_of(ToolCall("f", "{broken")) != key_of(ToolCall("f", "{"))


def test_three_tools_that_there_are_not_are_the_end() -> None:
    told = Repetition()
    for _ in range(UNKNOWN_END - 1):
        told = told.unknown_tool()
        assert not told.lost
    assert told.unknown_tool().lost
