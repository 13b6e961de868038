"""Fits cognition/classification/weights.py: ``python -m tools.task_weights``; a test tells when it is stale.

A multinomial logistic regression with a penalty on large weights, over the half ``tune`` of tests/corpora/tasks.jsonl
and the messages of tools/task_messages.tsv, which were written for this, by another hand than the corpus; and for the
complexity a linear one, to what low, mid and high are taken for. The other half is not read. Whoever changes a cue or a
feature runs this again. The penalty was chosen by leaving parts of the same messages out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cognition.classification.complexity import PARTS, parts_of
from cognition.classification.features import seen_in
from cognition.classification.task_types import TASK_TYPES

Floats = npt.NDArray[np.float64]

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "corpora" / "tasks.jsonl"
MORE = ROOT / "tools" / "task_messages.tsv"
TARGET = ROOT / "cognition" / "classification" / "weights.py"
PENALTY = 0.02
STEPS = 3_000
RIDGE = 2.0
COMPLEXITIES = {"low": 0.08, "mid": 0.27, "high": 0.60}
"""Inside of the tiers free, standard and premium; elite is for what asks for more than one such task."""

_HEAD = '''\
"""What each feature of a message is worth: made by ``python -m tools.task_weights``, not by hand.

:data:`WEIGHTS` and :data:`BIAS`: hundredths, a column for each of
:data:`cognition.classification.task_types.TASK_TYPES`.
:data:`BASES` and :data:`PARTS`: thousandths of complexity, by type and by part
(:data:`cognition.classification.complexity.PARTS`).
"""

from __future__ import annotations

from collections.abc import Mapping

'''


def tuning_rows() -> list[dict[str, Any]]:
    """The rows that may be looked at: of the corpus, and those written for the fit alone."""
    rows = (json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines())
    lines = (line.split("\t") for line in MORE.read_text(encoding="utf-8").splitlines())
    more = (
        {"label": label, "complexity": complexity, "text": text.replace("\\n", "\n")}
        for label, complexity, text in lines
    )
    return [*(row for row in rows if row["split"] == "tune"), *more]


def fitted(rows: list[dict[str, Any]], penalty: float = PENALTY) -> tuple[list[str], Floats]:
    """The names of the features, and their weights: a row for each feature and one for the bias, a column for each
    type. By Nesterov's accelerated descent.
    """
    seen = [seen_in(row["text"]).features for row in rows]
    names = sorted({name for each in seen for name in each})
    given = np.array([[*(each.get(name, 0.0) for name in names), 1.0] for each in seen])
    wanted = np.eye(len(TASK_TYPES))[[TASK_TYPES.index(row["label"]) for row in rows]]
    step = 1.0 / (0.5 * float(np.linalg.norm(given, 2)) ** 2 / len(rows) + penalty)
    held = np.full((len(names) + 1, 1), penalty)
    held[-1] = 0.0
    last = ahead = np.zeros((len(names) + 1, len(TASK_TYPES)))
    for number in range(STEPS):
        logits = given @ ahead
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        missed = odds / odds.sum(axis=1, keepdims=True) - wanted
        new = ahead - step * (given.T @ missed / len(rows) + held * ahead)
        last, ahead = new, new + number / (number + 3) * (new - last)
    return names, last


def fitted_complexity(rows: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    """Bases by type, and the weight of each part."""
    given = [
        [
            *(float(row["label"] == each) for each in TASK_TYPES),
            *parts_of(seen_in(row["text"]).features).values(),
        ]
        for row in rows
    ]
    wanted = [COMPLEXITIES[row["complexity"]] for row in rows]
    table, goal = np.array(given), np.array(wanted)
    solved = np.linalg.solve(table.T @ table + RIDGE * np.eye(table.shape[1]), table.T @ goal)
    return solved[: len(TASK_TYPES)], solved[len(TASK_TYPES) :]


def text() -> str:
    """The module as it should be."""
    rows = tuning_rows()
    names, weights = fitted(rows)
    bases, parts = fitted_complexity(rows)
    lines = [f"    {_quoted(name)}: {_whole(row, 100)}," for name, row in zip(names, weights, strict=False)]
    based = [
        f"    {_quoted(name)}: {round(base * 1000)}," for name, base in zip(TASK_TYPES, bases, strict=True)
    ]
    told = [f"    {round(part * 1000)},  # {name}" for name, part in zip(PARTS, parts, strict=True)]
    return "\n".join(
        [
            f"{_HEAD}BIAS = {_whole(weights[-1], 100)}",
            "WEIGHTS: Mapping[str, tuple[int, ...]] = {",
            *lines,
            "}",
            "BASES: Mapping[str, int] = {",
            *based,
            "}",
            "PARTS = (",
            *told,
            ")\n",
        ]
    )


def _whole(row: Floats, parts: int) -> str:
    return f"({', '.join(str(round(float(each) * parts)) for each in row)})"


def _quoted(name: str) -> str:
    return f'"{name}"'


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
