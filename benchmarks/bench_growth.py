"""How a node grows: 1,000 to 50,000 idle agents of a tiny behaviour, in shared local cells.

Beside them, in the same run, as many tasks of one bare event loop, each of which waits at a queue of its own: agents
that nobody records, supervises or lists, and that a crash takes away.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Echo, Floor, interpreter_floor
from benchmarks.node import BenchNode, now_us
from benchmarks.processes import held_bytes, processor_s
from kernel.helper.os_processes import descendants, read_processes
from kernel.operations.spawning import SpawnRequest

COUNTS = [1_000, pytest.param(10_000, marks=pytest.mark.long), pytest.param(50_000, marks=pytest.mark.long)]
PER_GROUP = 5_000
"""A supervisor takes 10,000 children, of which some are for the operator alone."""
AT_ONCE = 1_000
ROUNDS = 100
IDLE_S = 65.0
"""More than the minute over which the node tells its lag."""
SAMPLED_S = 2.0
"""So that the lag of a short boot has been sampled more than once or twice."""
PATIENCE_S = 900.0
KIB = 1024
LIMITS = "processes = 100000\n"
_TASKS = """
import asyncio, json, sys, time

async def agent(queue):
    await queue.get()

async def main(count):
    began = time.perf_counter()
    waiting = [asyncio.create_task(agent(asyncio.Queue())) for _ in range(count)]
    await asyncio.sleep(0)
    print(time.perf_counter() - began, flush=True)
    sys.stdin.read()

asyncio.run(main(int(sys.argv[1])))
"""
_LINES = """
import sys
for number in range(int(sys.argv[1])):
    print(number, "/user/g0/agent", "worker", "idle", "running", 0, 0)
"""

patient = pytest.mark.timeout(2 * PATIENCE_S)


@dataclass(frozen=True)
class Bare:
    """Tasks of one loop: seconds to make them, and what each holds, in KiB."""

    made_s: float
    kib: float


@dataclass
class Grown:
    """What came of a node with so many agents: seconds, KiB for each agent, shares of a core."""

    count: int
    bare: Bare
    spawned_s: float = 0.0
    spawn_processor_s: float = 0.0
    node_kib: float = 0.0
    cells_kib: float = 0.0
    idle: float = 0.0
    idle_lag_ms: float = 0.0
    ps_s: float = 0.0
    took_s: dict[str, list[float]] = field(default_factory=dict)
    processor_s: dict[str, float] = field(default_factory=dict)
    down_s: float = 0.0
    up_s: float = 0.0
    running_s: float = 0.0
    boot_processor_s: float = 0.0
    boot_lag_ms: float = 0.0
    boot_longest_ms: float = 0.0


def bare_tasks(count: int) -> Bare:
    """As many tasks, in a process of their own."""
    with (
        subprocess.Popen(
            [sys.executable, "-c", _TASKS, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as one,
        subprocess.Popen(
            [sys.executable, "-c", _TASKS, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as all_of_them,
    ):
        assert one.stdout is not None and all_of_them.stdout is not None
        one.stdout.readline()
        made_s = float(all_of_them.stdout.readline())
        held = held_bytes(all_of_them.pid) - held_bytes(one.pid)
    return Bare(made_s, held / KIB / count)


def name_of(number: int) -> str:
    return f"a{number}"


class Growth:
    """A node while it grows, and what is measured of it."""

    def __init__(self, node: BenchNode, count: int) -> None:
        self.node = node
        self.grown = Grown(count, bare_tasks(count))
        self.groups = -(-count // PER_GROUP)

    @property
    def os_pid(self) -> int:
        return int(self.node.client.status()["os_pid"])

    def measure(self) -> Grown:
        """All of it, one after the other."""
        self.spawn()
        self.look()
        self.idle()
        self.work()
        self.again()
        return self.grown

    def held(self) -> tuple[int, int]:
        """What the node holds, and all that it has started."""
        node = self.os_pid
        return held_bytes(node), sum(held_bytes(pid) for pid in descendants(read_processes(), node))

    def spawn(self) -> None:
        node, grown = self.node, self.grown
        for group in range(self.groups):
            node.client.spawn(f"g{group}", supervisor=True, intensity=(10_000, 60.0))
        node.client.spawn("first", behaviour="idle")  # so that a cell is there, and another one is warm
        node.wait_spare()
        before, used_s, began = self.held(), processor_s(self.os_pid), time.perf_counter()
        for group in range(self.groups):
            numbers = range(group, grown.count, self.groups)
            spawns = [
                SpawnRequest(name_of(number), behaviour="idle", under=f"/user/g{group}") for number in numbers
            ]
            for at in range(0, len(spawns), AT_ONCE):
                made = node.client.spawn_all(spawns[at : at + AT_ONCE])
                assert not made["failed"]
        grown.spawned_s = time.perf_counter() - began
        grown.spawn_processor_s = processor_s(self.os_pid) - used_s
        behind = self.held()
        grown.node_kib = (behind[0] - before[0]) / KIB / grown.count
        grown.cells_kib = (behind[1] - before[1]) / KIB / grown.count

    def look(self) -> None:
        """``ps`` of all of them, as a program reads it."""
        argv = [sys.executable, "-P", "-m", "weftos", "ps", "--data", str(self.node.data)]
        began = time.perf_counter()
        told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        self.grown.ps_s = time.perf_counter() - began
        assert len(told.splitlines()) > self.grown.count

    def idle(self) -> None:
        used_s, began = processor_s(self.os_pid), time.perf_counter()
        threading.Event().wait(IDLE_S)
        self.grown.idle = (processor_s(self.os_pid) - used_s) / (time.perf_counter() - began)
        self.grown.idle_lag_ms = self.node.loop_lag_p99_ms

    def work(self) -> None:
        """What people do, to one process after the other among all of these."""
        client = self.node.client
        names = [f"w{number}" for number in range(ROUNDS)]
        self.each("spawn", names, lambda name: client.spawn(name, behaviour="idle", under="/user/g0"))
        self.each("inspect", names, client.inspect)
        self.each("a page of ps", names, lambda name: client.ps(after=f"/user/g0/{name}", limit=100))
        self.each("status", names, lambda name: client.status())
        self.each("stop", names, client.stop)
        self.each("start", names, client.start)
        self.each("kill", names, lambda name: client.kill(name, signal="kill"))
        self.node.wait("the killed", lambda: all(self.runs(name) for name in names))
        for name in names:
            client.stop(name)
        self.each("rm", names, client.remove)
        for name in names:
            client.spawn(name, behaviour="idle", under="/user/g0", restart="temporary")
        self.each("kill, temporary", names, lambda name: client.kill(name, signal="kill"))

    def runs(self, name: str) -> bool:
        return self.node.client.inspect(name)["state"] == "running"

    def each(self, what: str, names: list[str], call: Callable[[str], object]) -> None:
        """How long each took, and what it cost the node on the average."""
        used_s = processor_s(self.os_pid)
        took = self.grown.took_s[what] = []
        for name in names:
            began = time.perf_counter()
            call(name)
            took.append(time.perf_counter() - began)
        self.grown.processor_s[what] = (processor_s(self.os_pid) - used_s) / len(names)

    def again(self) -> None:
        """Down, up, and until all run again, by the ledger's own times."""
        node, grown = self.node, self.grown
        node.journal.new()
        began = time.perf_counter()
        node.down()
        grown.down_s = time.perf_counter() - began
        node.journal.new()
        began, began_us = time.perf_counter(), now_us()
        node.up()
        grown.up_s = time.perf_counter() - began
        last = name_of(grown.count - 1)
        node.wait("the last to run", lambda: self.runs(last), PATIENCE_S)
        started: list[int] = []

        def all_run() -> bool:
            found = (record.entry for record in node.journal.new())
            started.extend(entry.time_us for entry in found if entry.kind == "process.started")
            return len(started) >= grown.count

        node.wait("all to run", all_run, PATIENCE_S)
        grown.running_s = (max(started) - began_us) / 1e6
        grown.boot_processor_s = processor_s(self.os_pid)
        threading.Event().wait(SAMPLED_S)
        status = node.client.status()
        grown.boot_lag_ms, grown.boot_longest_ms = status["loop_lag_p99_ms"], status["loop_lag_longest_ms"]


@pytest.fixture(scope="module", params=COUNTS)
def grown(request: pytest.FixtureRequest) -> Iterator[Grown]:
    with BenchNode("local", LIMITS) as node:
        yield Growth(node, request.param).measure()


def agents(grown: Grown) -> str:
    return f"{grown.count:,} agents"


def task(grown: Grown) -> Floor:
    return Floor("a task of a bare loop", grown.bare.made_s / grown.count)


@patient
def test_spawns(grown: Grown, report: Report) -> None:
    each_s = grown.spawned_s / grown.count
    report(f"spawns, {agents(grown)}", [each_s], [task(grown)], aim="5,000/s", unit="rate")


@patient
def test_processor_time_of_a_spawn(grown: Grown, report: Report) -> None:
    used_s = grown.spawn_processor_s / grown.count
    report(f"processor time of the node a spawn, {agents(grown)}", [used_s], [task(grown)])


@patient
@pytest.mark.parametrize("part", ["node", "cells"])
def test_memory(grown: Grown, report: Report, part: str) -> None:
    kib = grown.node_kib if part == "node" else grown.cells_kib
    floor = Floor("a task of a bare loop", grown.bare.kib)
    report(f"KiB an agent, {part}, {agents(grown)}", [kib], [floor], aim="20 together", unit="count")


@patient
def test_ps(grown: Grown, report: Report) -> None:
    argv = [sys.executable, "-P", "-c", _LINES, str(grown.count)]
    began = time.perf_counter()
    subprocess.run(argv, capture_output=True, check=True)
    floor = Floor("as many lines of a bare Python", time.perf_counter() - began)
    report(f"ps into a pipe, {agents(grown)}", [grown.ps_s], [floor], aim="under 1 s")


@patient
def test_idle(grown: Grown, report: Report) -> None:
    label = f"idle, thousandths of a core, {agents(grown)}"
    floor = Floor("none", 0.0)
    report(label, [1000 * grown.idle], [floor], aim="under 3", lag_ms=grown.idle_lag_ms, unit="count")


WORK = ("spawn", "inspect", "a page of ps", "status", "stop", "start", "kill", "rm", "kill, temporary")


@patient
@pytest.mark.parametrize("what", WORK)
def test_work(grown: Grown, report: Report, echo: Echo, what: str) -> None:
    report(f"{what} among {agents(grown)}", grown.took_s[what], [echo.floor()], aim="p99 under 50 ms")


@patient
@pytest.mark.parametrize("what", WORK)
def test_processor_time_of_work(grown: Grown, report: Report, echo: Echo, what: str) -> None:
    label = f"processor time of the node, {what} among {agents(grown)}"
    report(label, [grown.processor_s[what]], [echo.floor()])


@patient
def test_down(grown: Grown, report: Report) -> None:
    report(f"down, {agents(grown)}", [grown.down_s], [interpreter_floor()])


@patient
def test_up(grown: Grown, report: Report) -> None:
    report(f"boot to return of up, {agents(grown)}", [grown.up_s], [interpreter_floor()])


@patient
def test_running_again(grown: Grown, report: Report) -> None:
    floor = Floor("as many tasks of a bare loop", grown.bare.made_s)
    label = f"boot to all running, {agents(grown)} (longest lag {grown.boot_longest_ms:.0f} ms)"
    report(label, [grown.running_s], [floor], aim="under 10 s", lag_ms=grown.boot_lag_ms)


@patient
def test_processor_time_of_a_boot(grown: Grown, report: Report) -> None:
    floor = Floor("as many tasks of a bare loop", grown.bare.made_s)
    report(f"processor time of the node, boot with {agents(grown)}", [grown.boot_processor_s], [floor])
