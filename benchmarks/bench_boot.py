"""From ``weftos up`` at the prompt to the first agent that runs, by the ledger."""

from __future__ import annotations

import time

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import BareRay, interpreter_floor
from benchmarks.node import BenchNode, now_us
from chain.entry.reader import EntryRecord

BOOTS = {"local": 5, "ray": 2}


def boot(engine: str) -> tuple[list[float], list[float], float]:
    """Boots that have one agent to bring back: seconds to its ``process.started`` and to the return of ``up``;
    and the loop lag behind the last."""
    first, listens = [], []
    with BenchNode(engine) as node:
        node.client.spawn("first")
        for _ in range(BOOTS[engine]):
            node.down()
            node.journal.new()
            began, began_us = time.perf_counter(), now_us()
            node.up()
            listens.append(time.perf_counter() - began)
            started: list[int] = []

            def runs(started: list[int] = started) -> bool:
                started += [record.entry.time_us for record in node.journal.new() if _is_first(record)]
                return bool(started)

            node.wait("the agent of before", runs)
            first.append((started[0] - began_us) / 1e6)
        return first, listens, node.loop_lag_p99_ms


def _is_first(record: EntryRecord) -> bool:
    return record.entry.kind == "process.started" and record.body["address"] == "/user/first"


@pytest.fixture(scope="module")
def local() -> tuple[list[float], list[float], float]:
    return boot("local")


def test_boot_local(local: tuple[list[float], list[float], float], report: Report) -> None:
    first, _, lag_ms = local
    report("boot to first PID, local", first, [interpreter_floor()], aim="under 1 s", lag_ms=lag_ms)


def test_boot_local_listens(local: tuple[list[float], list[float], float], report: Report) -> None:
    report("boot to return of up --detach, local", local[1], [interpreter_floor()])


def test_boot_ray(ray_floor: BareRay, report: Report) -> None:
    first, _, lag_ms = boot("ray")
    report("boot to first PID, ray", first, [ray_floor.init], aim="under 6 s", lag_ms=lag_ms)
