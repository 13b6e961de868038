"""What the classifier comes to on messages that it was not made on: the half of the corpus that was held out.

Who tunes looks at the other half, and at what this prints, and never at these messages.
"""

from __future__ import annotations

import json
from functools import cache
from statistics import mean

from cognition.classification.classifier import Task, classify
from cognition.classification.task_types import TASK_TYPES
from tests.places import ROOT

CORPUS = ROOT / "tests" / "corpora" / "tasks.jsonl"
LEAST_MACRO_F1 = 0.85
LEAST_F1 = 0.75
"""Of each type."""


@cache
def held_out() -> list[tuple[dict[str, str], Task]]:
    rows = (json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines())
    return [(row, classify(row["text"])) for row in rows if row["split"] == "held_out"]


def f1_of(task_type: str) -> float:
    right = sum(task.type == row["label"] == task_type for row, task in held_out())
    said = sum(task.type == task_type for _, task in held_out())
    there = sum(row["label"] == task_type for row, _ in held_out())
    return 2 * right / (said + there)


def test_macro_f1_on_what_was_held_out() -> None:
    scores = {task_type: f1_of(task_type) for task_type in TASK_TYPES}
    assert mean(scores.values()) >= LEAST_MACRO_F1, scores
    assert min(scores.values()) >= LEAST_F1, scores


def test_what_is_called_more_complex_is_found_more_complex() -> None:
    found: dict[str, list[float]] = {"low": [], "mid": [], "high": []}
    for row, task in held_out():
        found[row["complexity"]].append(task.complexity)
    low, mid, high = (mean(each) for each in found.values())
    assert low + 0.1 <= mid <= high - 0.1


def test_most_pairs_of_a_simple_and_a_hard_message_stand_in_that_order() -> None:
    low = [task.complexity for row, task in held_out() if row["complexity"] == "low"]
    high = [task.complexity for row, task in held_out() if row["complexity"] == "high"]
    assert sum(one < other for one in low for other in high) >= 0.95 * len(low) * len(high)
