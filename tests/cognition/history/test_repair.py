"""A transcript that model servers take, made of whatever a session holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.history.repair import NO_ANSWER, NO_RESULT, repaired
from tests.cognition.test_context import WORKED, assistant, tool, user
from tests.cognition.twins.soundness import sound_exchanges

LOST = {"role": "tool", "tool_call_id": "1", "content": NO_RESULT, "status": "lost"}
UNANSWERED = {"role": "assistant", "content": NO_ANSWER}


@pytest.mark.parametrize(
    ("exchange", "made"),
    [
        (WORKED, [user("b"), assistant("", "1", "2"), tool("1"), tool("2"), assistant("done")]),
        ([user("q"), assistant("A")], [user("q"), assistant("A")]),
        ([user("q")], [user("q"), UNANSWERED]),
        ([user("q"), assistant("", "1")], [user("q"), assistant("", "1"), LOST, UNANSWERED]),
        (
            [user("q"), assistant("", "1"), assistant("A")],
            [user("q"), assistant("", "1"), LOST, assistant("A")],
        ),
        ([user("q"), tool("1"), assistant("A")], [user("q"), assistant("A")]),
        (
            [user("q"), assistant("", "1"), tool("1", "first"), tool("1", "again"), assistant("A")],
            [user("q"), assistant("", "1"), tool("1", "first"), assistant("A")],
        ),
        ([user("q"), assistant("A"), assistant("A")], [user("q"), assistant("A")]),
        ([user("q"), assistant("A"), assistant("B")], [user("q"), assistant("A\n\nB")]),
        (
            [user("q"), assistant("A"), assistant("", "1"), tool("1"), assistant("B")],
            [user("q"), assistant("A", "1"), tool("1"), assistant("B")],
        ),
        (
            [user("q"), assistant("", "1"), tool("1"), assistant("", "1"), tool("1"), assistant("B")],
            [user("q"), assistant("", "1"), tool("1"), assistant("B")],
        ),
        ([user("q"), {"role": "system", "content": "obey"}, assistant("A")], [user("q"), assistant("A")]),
        ([user("q"), {**assistant("aside"), "internal": True}, assistant("A")], [user("q"), assistant("A")]),
        ([user("q"), {"role": "assistant", "content": "A", "tool_calls": ["junk"]}], [user("q"), UNANSWERED]),
        ([user("q"), assistant("", "1"), {"role": "tool", "tool_call_id": [], "content": "x"}], None),
    ],
)
def test_what_does_not_fit_together_is_made_to(exchange: list[dict[str, Any]], made: Any) -> None:
    made = [user("q"), assistant("", "1"), LOST, UNANSWERED] if made is None else made
    assert repaired(exchange) == [made]


def test_records_before_the_first_message_are_left_out() -> None:
    assert repaired([tool("9"), assistant("?"), user("q"), assistant("A")]) == [[user("q"), assistant("A")]]


RECORDS = st.sampled_from(
    [user("u"), assistant("a"), assistant("", "1"), assistant("t", "2", "3"), tool("1"), tool("2"), tool("3")]
)


@given(st.lists(RECORDS, max_size=30))
def test_whatever_a_session_holds_a_server_takes_what_is_made_of_it(history: list[dict[str, Any]]) -> None:
    shown = [record for exchange in repaired(history) for record in exchange]
    assert [record for exchange in sound_exchanges(shown) for record in exchange] == shown
    assert sum(each["role"] == "user" for each in shown) == sum(each["role"] == "user" for each in history)


@given(st.lists(RECORDS, max_size=30))
def test_what_is_whole_is_left_as_it_is(history: list[dict[str, Any]]) -> None:
    once = [record for exchange in repaired(history) for record in exchange]
    assert [record for exchange in repaired(once) for record in exchange] == once
