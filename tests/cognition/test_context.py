"""What a model is shown and what a session keeps."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cognition.context import (
    cut_text,
    estimate_tokens,
    newest,
    remembered,
    result_records,
    system_records,
)
from kernel.abi import ToolCall, ToolResult
from tests.cognition.twins.soundness import sound_exchanges


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def tool(ident: str, text: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


WORKED = [user("b"), assistant("", "1", "2"), tool("2"), tool("1"), assistant("done")]


EXCHANGES = [[user("a" * 400), assistant("A")], WORKED, [user("c"), assistant("C")]]


def tokens(*exchanges: list[dict[str, Any]]) -> int:
    return sum(estimate_tokens(record) for exchange in exchanges for record in exchange)


def test_history_comes_whole_when_it_fits() -> None:
    assert newest(EXCHANGES, 50, 10_000, ()) == EXCHANGES


def test_history_is_cut_at_whole_exchanges_newest_kept() -> None:
    budget = tokens(*EXCHANGES[1:])
    assert newest(EXCHANGES, 50, budget, ()) == EXCHANGES[1:]
    assert newest(EXCHANGES, 50, budget - 1, ()) == EXCHANGES[2:]


def test_history_is_no_more_messages_than_are_wanted() -> None:
    assert newest(EXCHANGES, 7, 10_000, ()) == EXCHANGES[1:]
    assert newest(EXCHANGES, 6, 10_000, ()) == EXCHANGES[2:]


def test_what_stands_beside_the_history_takes_of_its_room() -> None:
    beside = system_records("s" * 40)
    room = tokens(WORKED) + sum(map(estimate_tokens, beside))
    assert newest([WORKED], 50, room, beside) == [WORKED]
    assert newest([WORKED], 50, room - 1, beside) == []
    assert system_records("") == ()


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
