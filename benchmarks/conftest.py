"""How a measurement taken elsewhere (in a cell, in the ledger) becomes one of pytest-benchmark's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pytest

from benchmarks.floors import BareRay, Echo, Floor, bare_ray
from benchmarks.node import BenchNode

Report = Callable[..., None]
Unit = Literal["duration", "rate", "count", "bytes"]


class Tape:
    """A timer that says what it is told: each played sample passes in no time."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def play(self, sample_s: float) -> None:
        self._now_s += sample_s


TAPE = Tape()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=TAPE))
        item.add_marker(pytest.mark.timeout(180))


@pytest.fixture
def report(benchmark: Any) -> Report:
    """``report(label, samples in seconds, floors, aim="", lag_ms=0.0)``: one row of the table.

    ``unit`` "rate" shows how many there are in a second; with "count" and "bytes" the samples are plain numbers.
    """

    def record(
        label: str,
        samples_s: Sequence[float],
        floors: Sequence[Floor],
        *,
        aim: str = "",
        lag_ms: float | None = None,
        unit: Unit = "duration",
    ) -> None:
        samples = iter(samples_s)
        benchmark.extra_info.update(
            label=label,
            floors=[[floor.name, floor.median_s] for floor in floors],
            aim=aim,
            loop_lag_p99_ms=lag_ms,
            unit=unit,
        )
        benchmark.pedantic(lambda: TAPE.play(next(samples)), rounds=len(samples_s), iterations=1)

    return record


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[BenchNode]:
    """The node of a module, with the engine that the module names."""
    with BenchNode(request.module.ENGINE) as running:
        yield running


@pytest.fixture(scope="session")
def ray_floor() -> BareRay:
    """Ray without us, measured once."""
    return bare_ray()


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A fresh echo process."""
    peer = Echo()
    yield peer
    peer.close()
