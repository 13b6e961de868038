"""Supervisors with few children and with many: made by one apply, and taken away by one delete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import BareRay
from benchmarks.kernel.floors import pykka_start_floor, pykka_stop_floor, tasks_floor
from benchmarks.node import BenchNode
from benchmarks.processes import processor_s
from kernel.operations.applications import DeclaredSpawn

LIMITS = """
processes = 220000
children = 110000
processes_per_cell = 4096
"""
COUNTS = [10, 1_000, pytest.param(99_999, marks=pytest.mark.long)]
"""An application has 100,000 processes at most, of which one is the supervisor."""
SPAWNS = 100

patient = pytest.mark.timeout(1_800)


@dataclass(frozen=True)
class Life:
    """Of a supervisor with so many children: seconds to start and stop all, and of the node's processors for each."""

    count: int
    start_s: float
    stop_s: float
    start_processor_s: float
    stop_processor_s: float
    lag_ms: float


@pytest.fixture(scope="module")
def node() -> Iterator[BenchNode]:
    with BenchNode("local", LIMITS) as running:
        running.client.spawn("first", behaviour="idle", tools=[])
        running.wait_spare()
        yield running


@pytest.fixture(scope="module", params=COUNTS)
def life(request: pytest.FixtureRequest, node: BenchNode) -> Life:
    count, name = request.param, f"s{request.param}"
    os_pid = int(node.client.status()["os_pid"])
    root = DeclaredSpawn(name, supervisor=True)
    children = DeclaredSpawn("c", behaviour="idle", tools=[], under=f"/user/{name}", replicas=count)
    used_s, began = processor_s(os_pid), time.perf_counter()
    applied = node.client.applications.apply(name, [root, children])
    start_s, start_used_s = time.perf_counter() - began, processor_s(os_pid) - used_s
    assert not applied["failed"]
    lag_ms = node.loop_lag_p99_ms
    used_s, began = processor_s(os_pid), time.perf_counter()
    node.client.applications.delete(name)
    stop_s, stop_used_s = time.perf_counter() - began, processor_s(os_pid) - used_s
    return Life(count, start_s, stop_s, start_used_s / count, stop_used_s / count, lag_ms)


@patient
def test_start(life: Life, report: Report) -> None:
    floors = [tasks_floor(life.count)]
    report(f"a supervisor with {life.count:,} children, start", [life.start_s], floors, lag_ms=life.lag_ms)


@patient
def test_stop(life: Life, report: Report) -> None:
    floors = [tasks_floor(life.count)]
    report(f"a supervisor with {life.count:,} children, stop and removal", [life.stop_s], floors)


@patient
@pytest.mark.parametrize("what", ["start", "stop"])
def test_processor_time_of_each(life: Life, report: Report, what: str) -> None:
    each_s = life.start_processor_s if what == "start" else life.stop_processor_s
    floor = pykka_start_floor() if what == "start" else pykka_stop_floor()
    label = f"processor time of the node for each of {life.count:,} children, {what}"
    report(label, [each_s], [floor], aim="at 100,000 2 x that at 1,000")


def test_spawn(node: BenchNode, report: Report, ray_floor: BareRay) -> None:
    """One after the other, as a person has it done, until it runs."""
    samples = []
    for number in range(SPAWNS):
        began = time.perf_counter()
        node.client.spawn(f"one{number}", behaviour="idle", tools=[])
        samples.append(time.perf_counter() - began)
    report(
        "spawn until it runs", samples, [pykka_start_floor(), ray_floor.actor], lag_ms=node.loop_lag_p99_ms
    )
