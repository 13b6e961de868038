"""Helpers under /kernel are looked at and ended like any process: on record, with who ordered it as the cause."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.errors import NotFound, Refused
from kernel.helper.helpers import WorkerSeen
from kernel.operations.processes import Processes, Signal
from tests.kernel.control.test_control import on_control
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin

ORDERED: list[tuple[Signal, str, str]] = [("kill", "killed", "killed"), ("term", "shutdown", "terminated")]


class Child:
    """A helper of nothing; it dies when it is told to."""

    def __init__(self, os_pid: int = 4_000_000) -> None:
        self.os_pid = os_pid
        self.starts = 0
        self.ended: list[bool] = []

    async def start(self, on_death: Callable[[str], None]) -> None:
        self.starts += 1
        self._on_death = on_death

    async def end(self, hard: bool) -> None:
        self.ended.append(hard)
        self.die()

    def die(self) -> None:
        self._on_death("exit status -9")

    async def stop(self) -> None: ...


async def up(twin: Twin, child: Child, times: int = 1) -> int:
    """Wait until it has started so often, and give its PID."""
    await until(
        lambda: child.starts == times and twin.kernel.helpers.inspect("gateway")["state"] == "running"
    )
    return int(twin.kernel.helpers.inspect("gateway")["pid"])


@pytest.mark.parametrize(("signal", "reason", "word"), ORDERED)
def test_a_helper_that_is_ended_is_restarted_and_the_order_is_the_cause(
    tmp_path: Path, signal: Signal, reason: str, word: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        child = Child()
        twin.kernel.helpers.add("gateway", child)
        pid = await up(twin, child)
        target = str(pid) if signal == "kill" else "/kernel/gateway"
        answer = await control(Processes.kill, target, signal=signal, why="it is stuck")
        assert answer == {"address": "/kernel/gateway", "pid": pid, "signal": signal}
        assert child.ended == [signal == "kill"]
        assert await up(twin, child, 2) > pid
        [command] = await twin.entries("operator.command")
        [exited] = await twin.entries("process.exited")
        assert exited.entry.cause == command.entry.seq
        assert (exited.body["reason"], exited.body["detail"]) == (
            reason,
            f"{word} by operator:1000: it is stuck",
        )
        found = await control(Processes.inspect, "/kernel/gateway")
        assert (found["type"], found["state"], found["restarts"]) == ("helper", "running", 1)
        assert found["last_exit"] == f"PID {pid}: {reason}: {word} by operator:1000: it is stuck"

    on_control(tmp_path, body)


def test_a_helper_that_dies_by_itself_after_that_is_nobodys_order(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        child = Child()
        twin.kernel.helpers.add("gateway", child)
        await up(twin, child)
        await control(Processes.kill, "/kernel/gateway")
        await up(twin, child, 2)
        child.die()
        exited = (await twin.entries("process.exited"))[-1]
        assert (exited.body["reason"], exited.body["detail"], exited.entry.cause) == (
            "crash",
            "exit status -9",
            -1,
        )

    on_control(tmp_path, body)


@pytest.mark.parametrize(("signal", "reason", "word"), ORDERED)
def test_a_worker_is_ended_by_its_pool(tmp_path: Path, signal: Signal, reason: str, word: str) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        twin.say(WorkerSeen("worker-builtin", 4_000_000))
        await until(lambda: twin.kernel.helpers.find("/kernel/worker-builtin"))
        await control(Processes.kill, "/kernel/worker-builtin", signal=signal)
        told = f"{word} by operator:1000"
        assert twin.workers.ended == [("worker-builtin", signal == "kill", told)]
        twin.say(WorkerSeen("worker-builtin", None))
        [exited] = await twin.entries("process.exited")
        [command] = await twin.entries("operator.command")
        assert (exited.body["reason"], exited.body["detail"], exited.entry.cause) == (
            reason,
            told,
            command.entry.seq,
        )

    on_control(tmp_path, body)


def test_what_is_part_of_the_node_or_does_not_run_is_refused_and_no_order(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        child = Child(os.getpid())
        twin.kernel.helpers.add("gateway", child)
        await up(twin, child)
        with pytest.raises(Refused, match="is part of the node itself"):
            await control(Processes.kill, "/kernel/gateway")
        child.os_pid = 0
        with pytest.raises(NotFound, match="has no process just now"):
            await control(Processes.kill, "/kernel/gateway")
        with pytest.raises(NotFound, match="no process at /kernel/other"):
            await control(Processes.kill, "/kernel/other")
        assert await twin.entries("operator.command") == []

    on_control(tmp_path, body)
