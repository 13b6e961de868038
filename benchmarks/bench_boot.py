"""From ``weftos up`` at the prompt to the first running PID."""

from __future__ import annotations

import time

from benchmarks.conftest import Report
from benchmarks.floors import BareRay, interpreter_floor
from benchmarks.node import BenchNode

BOOTS = {"local": 5, "ray": 2}


def boot(engine: str) -> tuple[list[float], float]:
    """Durations in seconds of boots that have one agent to bring back, and the loop lag behind the last."""
    took = []
    with BenchNode(engine) as node:
        node.client.spawn("first")
        for _ in range(BOOTS[engine]):
            node.down()
            started = time.perf_counter()
            node.up()
            node.wait_running("first", 1)
            took.append(time.perf_counter() - started)
        return took, node.loop_lag_p99_ms


def test_boot_local(report: Report) -> None:
    took, lag_ms = boot("local")
    report("boot to first PID, local", took, [interpreter_floor()], aim="under 1 s", lag_ms=lag_ms)


def test_boot_ray(ray_floor: BareRay, report: Report) -> None:
    took, lag_ms = boot("ray")
    report("boot to first PID, ray", took, [ray_floor.init], aim="under 6 s", lag_ms=lag_ms)
