"""What is measured on a running node, whatever its engine: used by ``bench_local.py`` and ``bench_ray.py``."""

from __future__ import annotations

import re
import time

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Echo, Floor, by_hand_floor
from benchmarks.node import BenchNode, kill_now

RECORD_BYTES = 1500  # of the four entries of a call about half are written before it runs, half behind
CALLS = 500
AGENTS = 200
CROWD_CALLS = 40
CHILDREN = 1000
KILLS = 3
TOOLS = ["calculator", "file_read", "look", "act", "send_message", "spawn_agent"]


def _spawn(node: BenchNode, name: str) -> str:
    if not any(row["name"] == name for row in node.rows()):
        node.client.spawn(name, behaviour="stopwatch", tools=TOOLS)
    return name


def mailbox(node: BenchNode, report: Report, echo: Echo) -> None:
    """From the acceptance of a message, as the ledger has it, to the first line of the behaviour."""
    name = _spawn(node, "clock")
    delivered_us = {}
    for _ in range(300):
        answer = node.client.send(name, '{"do": "stamp"}', wait_s=10)
        delivered_us[answer["message"]] = int(re.findall(r"\d+", answer["reply"])[0])
    accepted = [record for record in node.journal.new() if record.entry.kind == "message.accepted"]
    samples = [
        (delivered_us[record.entry.subject] - record.entry.time_us) / 1e6
        for record in accepted
        if record.entry.subject in delivered_us
    ]
    report(
        f"message accepted to turn delivered, {node.engine} cell",
        samples[20:],
        [echo.floor()],
        lag_ms=node.loop_lag_p99_ms,
    )


def tool_call(
    node: BenchNode, report: Report, echo: Echo, what: tuple[str, str, dict[str, str], str]
) -> None:
    """One call after the other, timed in the cell."""
    label, tool, arguments, aim = what
    name = _spawn(node, "clock")
    answer = node.order(name, do="calls", tool=tool, arguments=arguments, count=CALLS, unmeasured=50)
    report(
        f"tool call {label}, {node.engine} cell",
        [took / 1e9 for took in answer["took_ns"]],
        [echo.floor(), by_hand_floor(node.directory, RECORD_BYTES)],
        aim=aim,
        lag_ms=node.loop_lag_p99_ms,
    )


def crowd(node: BenchNode, report: Report, echo: Echo, tool: str, aim: str) -> None:
    """Two hundred agents that call at once, without a pause: calls a second."""
    names = [f"crowd{number}" for number in range(AGENTS)]
    if not any(row["name"] == names[0] for row in node.rows()):
        node.spawn_all(names, tools=TOOLS)
    samples = []
    for _ in range(2):
        answers = node.orders(
            names,
            do="calls",
            tool=tool,
            arguments={"text": "x"},
            count=CROWD_CALLS,
            unmeasured=1,
            begin_s=time.monotonic() + 2.0,
        )
        begin_s, end_s = min(a["begin_s"] for a in answers), max(a["end_s"] for a in answers)
        samples.append((end_s - begin_s) / (AGENTS * CROWD_CALLS))
    report(
        f"{AGENTS} agents, calls of {tool} in a worker, {node.engine} cells",
        samples,
        [echo.crowd_floor(AGENTS)],
        aim=aim,
        lag_ms=node.loop_lag_p99_ms,
        unit="rate",
    )


def cell_killed(node: BenchNode, report: Report, floors: list[Floor]) -> None:
    """SIGKILL a cell of two hundred agents; until the last of them runs again, by the ledger.

    New agents each time: a second restart soon after the first would wait for its back-off.
    """
    samples = []
    for number in range(KILLS):
        names = [f"mortal{number}-{agent}" for agent in range(AGENTS)]
        node.spawn_all(names, tools=["calculator", "file_list"])
        samples.append(_kill_and_time(node, {f"/user/{name}" for name in names}))
        node.post("/stop", [{"target": name} for name in names])
    report(
        f"cell of {AGENTS} agents killed to all running, {node.engine}",
        samples,
        floors,
        aim="under 0.5 s",
        lag_ms=node.loop_lag_p99_ms,
    )


def _kill_and_time(node: BenchNode, addresses: set[str]) -> float:
    node.wait_spare()
    node.journal.new()
    [victim] = {row["os_pid"] for row in node.rows() if row["address"] in addresses}
    killed_us = kill_now(victim)
    started: list[int] = []

    def all_back() -> bool:
        for record in node.journal.new():
            if record.entry.kind == "process.started" and record.body["address"] in addresses:
                started.append(record.entry.time_us)
        return len(started) >= len(addresses)

    node.wait("the agents of the killed cell", all_back)
    return (max(started) - killed_us) / 1e6


def spawn_one(node: BenchNode, report: Report, isolation: str, floors: list[Floor]) -> None:
    """From the ledger's ``process.spawned`` to ``process.started``, one after the other."""
    names = [f"{isolation}{number}" for number in range(20 if isolation == "shared" else 6)]
    node.journal.new()
    for name in names:
        node.wait_spare()
        node.client.spawn(
            name, behaviour="stopwatch", isolation="dedicated" if isolation == "dedicated" else "shared"
        )
    took = _spawn_times(node)
    report(f"spawn one, {isolation} cell, {node.engine}", took, floors, lag_ms=node.loop_lag_p99_ms)
    for name in names:
        node.client.stop(name)


def _spawn_times(node: BenchNode) -> list[float]:
    spawned, took = {}, []
    for record in node.journal.new():
        if record.entry.kind == "process.spawned":
            spawned[record.body["address"]] = record.entry.time_us
        elif record.entry.kind == "process.started" and record.body["address"] in spawned:
            took.append((record.entry.time_us - spawned[record.body["address"]]) / 1e6)
    return took


def spawn_many(node: BenchNode, report: Report, floors: list[Floor]) -> None:
    """An agent spawns a thousand below itself, fifty a round; from the first ``process.spawned`` to the last
    ``process.started``."""
    name = "boss"
    node.client.spawn(name, behaviour="stopwatch", tools=TOOLS)
    node.journal.new()
    node.order(name, do="spawn", count=CHILDREN)
    times: list[int] = []
    started = 0

    def all_running() -> bool:
        nonlocal started
        for record in node.journal.new():
            if record.entry.kind in ("process.spawned", "process.started"):
                times.append(record.entry.time_us)
                started += record.entry.kind == "process.started"
        return started >= CHILDREN

    node.wait("a thousand running children", all_running)
    report(
        f"spawn {CHILDREN} shared agents, {node.engine} cells",
        [(max(times) - min(times)) / 1e6],
        floors,
        aim="under 1 s",
        lag_ms=node.loop_lag_p99_ms,
    )


CALL_KINDS = [
    pytest.param(
        ("in the node, no effects", "calculator", {"expression": "17*23"}, "under 0.8 ms"), id="node"
    ),
    pytest.param(("in a worker, no effects", "look", {"text": "x"}, ""), id="worker"),
    pytest.param(("in a worker, with effects", "act", {"text": "x"}, "under 1.5 ms"), id="effects"),
]
