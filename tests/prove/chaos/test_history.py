"""What is written of a thing that is asked: done, surely not done, or nobody knows; and the percentiles of times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.prove.chaos.history import REFUSALS, History, Unknown
from tests.prove.chaos.timings import measured
from weftos import WeftosError


def raising(code: str) -> Any:
    def act() -> None:
        raise WeftosError("no", code)

    return act


def attempted(path: Path, act: Any) -> tuple[object, list[str]]:
    history = History(path)
    try:
        answer = history.attempt("send", "m1", act, lambda answer: {"message": answer}, route=["a"])
    except Unknown:
        answer = Unknown
    rows = [json.loads(line) for line in path.open()]
    assert rows[0]["route"] == ["a"] and {row["op"] for row in rows} == {"m1"}
    return answer, [row["type"] for row in rows]


def test_what_was_done_is_ok_with_what_was_told(tmp_path: Path) -> None:
    assert attempted(tmp_path / "h", lambda: "x9") == ("x9", ["invoke", "ok"])
    assert '"message": "x9"' in (tmp_path / "h").read_text()


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_what_was_refused_has_failed(code: str, tmp_path: Path) -> None:
    assert attempted(tmp_path / "h", raising(code)) == (None, ["invoke", "fail"])


@pytest.mark.parametrize("code", ["unavailable", "timeout", "internal", "not_running", "error"])
def test_of_what_broke_off_nobody_knows(code: str, tmp_path: Path) -> None:
    assert attempted(tmp_path / "h", raising(code)) == (Unknown, ["invoke", "info"])


def test_percentiles_are_by_nearest_rank() -> None:
    timing = measured("x", "y", [3.0, 1.0, 2.0])
    assert (timing.count, timing.p50_s, timing.p99_s, timing.max_s) == (3, 2.0, 3.0, 3.0)
    timing = measured("x", "y", [float(n) for n in range(1, 201)])
    assert (timing.p50_s, timing.p99_s, timing.max_s) == (100.0, 198.0, 200.0)
