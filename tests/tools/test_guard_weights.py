"""The weights of the guard are what their tool comes to."""

from __future__ import annotations

import json

import pytest

from cognition.guard.weights import WEIGHTS
from tools import guard_weights


def test_the_weights_are_those_that_the_tool_makes() -> None:
    made = guard_weights.fitted()
    assert WEIGHTS.keys() == made.keys(), "run python -m tools.guard_weights"
    for name, (user, other) in made.items():
        assert WEIGHTS[name] == pytest.approx((user, other, other), abs=0.051), (
            "run python -m tools.guard_weights"
        )


def test_no_text_of_the_held_out_half_is_among_those_written_for_the_fit() -> None:
    texts = {text for _, _, text in guard_weights.tuning_rows()}
    held_out = {
        row["text"]
        for row in map(json.loads, guard_weights.CORPUS.read_text("utf-8").splitlines())
        if row["split"] == "held_out"
    }
    assert not texts & held_out
