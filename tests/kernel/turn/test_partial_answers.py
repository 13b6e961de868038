"""What the session keeps of a turn that others have ended."""

from __future__ import annotations

import json

import pytest

from kernel.slices.turns import Call
from kernel.turn.partial_answers import KEPT_BYTES, PartialAnswers
from tests.kernel.slices.told import Calling

WHY = "cancelled by operator:0"
MARK = f"[weftos: this turn was ended before its answer was whole: {WHY}]"


def asked(ordinal: str, said: str | None = None, status: str = "ok", more: str = "{}") -> Call:
    outcome = None if said is None else {"status": status, "answer": json.dumps({"text": said})}
    return Call(ordinal, "h", "model", 1, "p/m", more, outcome=outcome)


def left(*calls: Call, partial: PartialAnswers | None = None) -> list[str]:
    turn = Calling().state.turns["t1"]
    turn.calls = {call.ordinal: call for call in calls}
    return [record["content"] for record in (partial or PartialAnswers()).left_by(turn, WHY)]


def test_what_was_said_whole_and_what_was_being_said_is_kept_with_a_mark() -> None:
    partial = PartialAnswers()
    for text in ("it goes ", "on"):
        partial.said("t1:1.0", text)
    partial.said("t2:1.0", "of another turn")
    [message, answer] = left(asked("0.0", "I begin."), asked("1.0"), partial=partial)
    assert answer == f"I begin.\n\nit goes on\n\n{MARK}" and message == Calling().state.turns["t1"].mail.text


@pytest.mark.parametrize(
    "calls",
    [
        (),
        (asked("0.0"),),
        (asked("0.0", ""),),
        (asked("0.0", "down", "error"),),
        (asked("0.0", "a summary", more='{"options":{"aside":true}}'),),
        (Call("0.0", "h", "tool", 1, "pay"),),
    ],
)
def test_a_turn_in_which_nothing_was_said_leaves_nothing(calls: tuple[Call, ...]) -> None:
    assert left(*calls) == []


def test_a_turn_in_which_something_was_called_says_at_least_that_it_was_ended() -> None:
    assert left(asked("0.0", ""), Call("1.0", "h", "tool", 1, "pay"))[1] == MARK


def test_what_was_said_before_a_provider_failed_is_void_and_all_of_it_is_bounded() -> None:
    partial = PartialAnswers()
    partial.said("t1:0.0", "void")
    partial.whole("t1:0.0")
    for _ in range(100):
        partial.said("t1:0.0", "x" * 1_000)
    [_, answer] = left(asked("0.0"), partial=partial)
    assert "void" not in answer and len(answer) <= KEPT_BYTES + 200
    partial.whole("t1:0.0")
    assert left(asked("0.0"), partial=partial) == []
