"""What an answer is told with follows from the entries of its turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel.operations.messages import ReplyMetadata
from kernel.slices.feed.agent_trace import TraceBuilder
from kernel.slices.feed.reply_metadata import metadata_of

SCORED = json.dumps([["execute", "continue", "", 5], ["score", "continue", "0.87 (completion 1.00)", 1]])


def answered(ordinal: str, provider: str, cost: int, status: str = "ok") -> list[tuple[str, dict[str, Any]]]:
    body = {"ordinal": ordinal, "provider": provider, "model": "m"}
    counted = {"input_tokens": 10, "output_tokens": 4, "cached_tokens": 6, "cost_millionths": cost}
    return [("model.asked", body), ("model.answered", {**body, **counted, "status": status})]


def called(ordinal: str) -> tuple[str, dict[str, Any]]:
    return "tool.proposed", {"ordinal": ordinal, "tool": "act"}


def open_turn() -> TraceBuilder:
    builder = TraceBuilder("t1")
    builder.hear("turn.started", {"address": "/user/ada", "session": "main"}, 1)
    return builder


def told_of(builder: TraceBuilder) -> ReplyMetadata:
    metadata = metadata_of(builder.trace())
    assert metadata is not None
    return metadata


def heard(*entries: tuple[str, dict[str, Any]], attempts: int = 1) -> TraceBuilder:
    builder = TraceBuilder("t1")
    for number in range(attempts):
        builder.hear("turn.started", {"address": "/user/ada", "session": "main"}, number)
    for number, (kind, body) in enumerate(entries, attempts):
        builder.hear(kind, body, number)
    builder.hear("turn.ended", {"status": "ok", "stages": SCORED}, 100)
    return builder


def test_what_a_turn_took_is_added_up_and_who_answered_last_is_named() -> None:
    calls = [called("1.0"), called("1.1"), called("4.0")]
    failed = answered("2.0", "busy", 0, "error") + answered("3.0", "good", 70)
    told = told_of(heard(*answered("0.0", "busy", 30), *calls, *failed, attempts=2))
    assert told == {
        "provider": "good",
        "model": "m",
        "tool_rounds": 2,
        "tool_calls": 3,
        "input_tokens": 30,
        "output_tokens": 12,
        "cached_tokens": 18,
        "cost_millionths": 100,
        "cost_unknown": 0,
        "fallback_attempts": 1,
        "attempts": 2,
        "score": "0.87 (completion 1.00)",
    }


@pytest.mark.parametrize(
    ("costs", "told"), [((), (None, 0)), ((-1, -1), (None, 2)), ((-1, 30), (30, 1)), ((0, -1), (0, 1))]
)
def test_a_cost_that_nobody_knows_is_told_as_that(
    costs: tuple[int, ...], told: tuple[int | None, int]
) -> None:
    entries = [entry for n, cost in enumerate(costs) for entry in answered(f"{n}.0", "p", cost)]
    metadata = told_of(heard(*entries))
    assert (metadata["cost_millionths"], metadata["cost_unknown"]) == told


def test_a_turn_that_asked_nobody_names_nobody() -> None:
    told = told_of(heard())
    assert (told["provider"], told["model"], told["tool_calls"], told["fallback_attempts"]) == ("", "", 0, 0)


def test_what_joins_a_turn_that_goes_on_is_told_nothing_of_it() -> None:
    assert metadata_of(open_turn().trace()) is None
    assert metadata_of(None) is None
