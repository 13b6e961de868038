"""What a model is shown and what a session keeps."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cognition.context import (
    cut_text,
    estimate_tokens,
    fitting,
    remembered,
    result_records,
    sound_exchanges,
    system_records,
)
from kernel.abi import ToolCall, ToolResult


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def tool(ident: str, text: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


WORKED = [user("b"), assistant("", "1", "2"), tool("2"), tool("1"), assistant("done")]


def test_history_comes_whole_when_it_fits() -> None:
    history = [user("a"), assistant("A"), *WORKED]
    assert fitting(history, 10_000, ()) == (*history,)


def test_history_is_cut_at_whole_exchanges_newest_kept() -> None:
    history = [user("a" * 400), assistant("A"), *WORKED, user("c"), assistant("C")]
    budget = sum(map(estimate_tokens, [*WORKED, user("c"), assistant("C")]))
    assert fitting(history, budget, ()) == (*history[2:],)
    assert fitting(history, budget - 1, ()) == (*history[7:],)


def test_what_stands_beside_the_history_takes_of_its_room() -> None:
    beside = system_records("s" * 40)
    room = sum(map(estimate_tokens, (*beside, *WORKED)))
    assert fitting(WORKED, room, beside) == (*WORKED,)
    assert fitting(WORKED, room - 1, beside) == ()
    assert system_records("") == ()


def test_exchanges_that_a_server_would_refuse_are_left_out() -> None:
    unsound: list[list[dict[str, Any]]] = [
        [user("q"), assistant("", "1")],
        [user("q"), assistant("", "1"), assistant("A")],
        [user("q"), tool("1"), assistant("A")],
        [user("q"), assistant("", "1"), tool("1"), tool("1"), assistant("A")],
        [user("q"), assistant("", "1"), tool("1")],
        [user("q"), {"role": "system", "content": "obey"}, assistant("A")],
        [user("q")],
        [{"role": "user", "content": ["parts"]}, assistant("A")],
        [user("q"), {"role": "assistant", "content": "A", "tool_calls": ["junk"]}],
        [user("q"), {"role": "assistant", "content": "A", "tool_calls": {"id": []}}],
        [user("q"), {"role": "assistant", "content": "A", "tool_calls": [{"id": [], "function": {}}]}],
        [user("q"), assistant("", "1"), {"role": "tool", "tool_call_id": [], "content": "x"}],
    ]
    for exchange in unsound:
        assert sound_exchanges([*exchange, *WORKED]) == [WORKED], exchange


def test_records_before_the_first_question_are_left_out() -> None:
    assert sound_exchanges([tool("9"), assistant("?"), *WORKED]) == [WORKED]


@given(
    st.lists(st.sampled_from([user("u"), assistant("a"), assistant("", "1"), tool("1")])), st.integers(0, 60)
)
def test_whatever_history_is_shown_is_sound(history: list[dict[str, Any]], budget: int) -> None:
    shown = fitting(history, budget, ())
    assert [record for exchange in sound_exchanges(shown) for record in exchange] == list(shown)
    assert sum(map(estimate_tokens, shown)) <= budget


def test_results_share_the_bytes_of_a_round() -> None:
    calls = [ToolCall("f", "{}", str(n)) for n in range(4)]
    results = [ToolResult(str(n), "f", "ok", "é" * 1000) for n in range(3)] + [
        ToolResult("3", "f", "ok", "é")
    ]
    records = result_records(calls, results, 4 * 101)
    assert [len(record["content"].encode()) for record in records] == [100, 100, 100, 2]
    assert [record.get("truncated", False) for record in records] == [True, True, True, False]


@given(st.text(), st.integers(0, 50))
def test_cut_text_is_the_longest_beginning_that_fits(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert text.startswith(cut) and len(cut.encode()) <= limit
    assert cut == text or len(text[: len(cut) + 1].encode()) > limit


def test_an_exchange_too_long_for_the_session_keeps_question_and_reply() -> None:
    exchange = [user("q" * 5000), assistant("", "1"), tool("1", "x" * 9000)]
    kept = remembered(exchange, "r" * 5000, 8000)
    assert [record["role"] for record in kept] == ["user", "assistant"]
    assert all(record["content"].endswith("[shortened]") for record in kept)
    assert len(json.dumps(kept)) <= 8000
    assert sound_exchanges(kept) == [list(kept)]
