"""How a turn went, in numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cognition.scoring.scores import WEIGHTS, Went, scores_of
from kernel.abi import Message, ModelAnswer
from tests.cognition.test_agent import agent, call, says, turn
from tests.cognition.test_context import tool
from tests.cognition.twins.scripted_node import Node

WENT = Went("Which colour has the ocean?", "The ocean has the colour blue, which is deep.", True, False, ())


def failed(ident: str) -> dict[str, Any]:
    return {**tool(ident), "status": "error"}


def test_a_whole_answer_in_the_words_of_its_question_is_the_best_there_is() -> None:
    assert scores_of(WENT).overall == pytest.approx(1)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"answer": "42"}, "relevance", 0),
        ({"answer": "The ocean"}, "relevance", 1 / 3),
        ({"answer": "", "exchange": (tool("1", "ocean colour which"),)}, "relevance", 1),
        ({"question": "2+2", "answer": "4"}, "relevance", 1),
        ({"question": "2+2", "answer": " "}, "relevance", 0),
        ({"answer": "this line is said over and over\n" * 4}, "coherence", 0.25),
        ({"answer": "```python\nx = 1"}, "coherence", 0.75),
        ({"answer": "so (it is"}, "coherence", 0.9),
        ({"ok": False}, "completion", 0),
        ({"cut": True}, "completion", 0.5),
        ({"unanswered": 1}, "efficiency", 0.5),
        ({"exchange": (tool("1"), failed("2"), failed("3"))}, "efficiency", 1 / 3),
        ({"exchange": (tool("1"), failed("2"), failed("3"))}, "tool_use", 1 / 3),
    ],
)
def test_each_respect_is_made_of_what_can_be_counted(
    changes: dict[str, Any], name: str, value: float
) -> None:
    assert getattr(scores_of(replace(WENT, **changes)), name) == pytest.approx(value)
    assert scores_of(replace(WENT, **changes)).overall < 1 or value == 1


def test_the_numbers_stand_in_the_trace_of_the_turn_and_are_told_apart() -> None:
    node = Node([says("", call("f"), call("g", "c2")), says("f gave nothing")], {"f": lambda: "x"})
    [found] = [stage for stage in turn(node).stages if stage.stage == "score"]
    assert "tool use 0.50" in found.why and "efficiency 0.50" in found.why


def test_a_turn_that_failed_is_scored_as_well() -> None:
    [found] = [s for s in turn(Node([ModelAnswer("error", "down")])).stages if s.stage == "score"]
    assert "completion 0.00" in found.why


@pytest.mark.parametrize("answer", [ModelAnswer("ok", "half of it", stop_reason="length")])
def test_an_answer_that_was_cut_is_half_of_one(answer: ModelAnswer) -> None:
    message = Message("m1", "operator", "do it", "default", True)
    result = asyncio.run(agent().handle(message, Node([answer])))
    [found] = [stage for stage in result.stages if stage.stage == "score"]
    assert "completion 0.50" in found.why
