"""Who asks the same again and again, and is told the same, or fails only, does not get on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kernel.slices.turns import Call
from kernel.turn.progress import LOOKED_AT, no_progress

SAME = "get was called 3 times in a row with the same arguments and the same result"


def call(seq: int, op: str = "tool", asked: str = "a", result: str = "x", status: str = "ok") -> Call:
    outcome = {"status": status, "result": result, "truncated": result == "cut"}
    return Call(f"{seq}.0", asked, op, seq, "get", outcome=outcome)


def judged(calls: Sequence[Call], known: int = 0, same: int = 3, failed: int = 4) -> str:
    return no_progress(
        {call.ordinal: call for call in calls}, known, {call.op for call in calls}, same, failed
    )


def test_the_same_call_with_the_same_result_again_is_no_progress() -> None:
    assert judged([call(1), call(2)]) == ""
    assert judged([call(1), call(2), call(3)]) == SAME


def test_what_is_asked_of_a_model_in_between_changes_nothing() -> None:
    calls = [call(1), call(2, "model", "q"), call(3), call(4, "model", "r"), call(5), call(6, "now")]
    assert judged(calls) == SAME


@pytest.mark.parametrize("other", [{"asked": "b"}, {"result": "y"}, {"status": "error"}])
def test_another_argument_or_result_is_progress(other: dict[str, str]) -> None:
    assert judged([call(1), call(2), call(3, **other)]) == ""
    assert judged([call(1), call(2, **other), call(3), call(4)]) == ""


def test_of_a_result_that_was_cut_nobody_knows_whether_it_is_the_same() -> None:
    assert judged([call(seq, result="cut") for seq in range(3)]) == ""


@pytest.mark.parametrize(("op", "status"), [("tool", "denied"), ("tool", "error"), ("model", "error")])
def test_errors_only_are_no_progress(op: str, status: str) -> None:
    calls = [call(seq, op, asked=str(seq), status=status) for seq in range(4)]
    assert judged(calls[:3]) == ""
    assert judged(calls) == f"4 calls of {op}s in a row have failed"
    assert judged([*calls[:3], call(9, op, asked="9")]) == ""


def test_what_forerunners_have_made_does_not_count() -> None:
    calls = [call(seq) for seq in range(5)]
    assert judged(calls, known=3) == ""
    assert judged(calls, known=2) == SAME
    assert judged(calls, known=9) == ""


def test_a_call_without_an_outcome_does_not_count() -> None:
    assert judged([call(1), call(2), Call("3.0", "a", "tool", 3, "get")]) == ""


def test_0_looks_for_nothing() -> None:
    assert judged([call(seq, status="error") for seq in range(9)], same=0, failed=0) == ""


def test_of_a_long_turn_only_the_newest_calls_are_looked_at() -> None:
    failed = [call(seq, "model", status="error") for seq in range(4)]
    since = [call(seq, result=str(seq)) for seq in range(4, LOOKED_AT + 1)]
    assert judged([*failed, *since[:-4]]) != ""
    assert judged([*failed, *since]) == ""
    assert judged([call(seq) for seq in range(2 * LOOKED_AT)], same=2 * LOOKED_AT, failed=0) != ""
