"""Cells on a real Ray: one node process for the module, in a session of its own; Ray is killed and comes back."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.os_processes import read_processes
from tests.patience import HANG_S
from tests.places import ROOT

pytestmark = [pytest.mark.ray]
WAIT_S = HANG_S


class RayNode:
    """The node process. ``events`` holds all it has said; pids are given out once."""

    def __init__(self, runtime: Path) -> None:
        self.events: list[list[Any]] = []
        self._lines: queue.Queue[list[Any] | None] = queue.Queue()
        self._pid = 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.integration.ray_node", str(runtime)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=runtime,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def wait(self, matches: Callable[[list[Any]], bool], since: int = 0) -> list[Any]:
        """The first event from number ``since`` on that matches."""
        deadline = time.monotonic() + WAIT_S
        at = since
        while True:
            for event in self.events[at:]:
                if matches(event):
                    return event
            at = len(self.events)
            try:
                came = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing such in {WAIT_S:g} s: {self.events[since:]}") from None
            assert came is not None, f"the node ended: {self.events[since:]}"
            self.events.append(came)

    def tell(self, name: str, *arguments: Any) -> Any:
        since = len(self.events)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self.process.stdin.flush()
        return self.wait(lambda event: event[:2] == ["answer", name], since)[2]

    def start(self, behaviour: str, **changes: Any) -> int:
        self._pid += 1
        pid = self._pid
        since = len(self.events)
        self.tell("place", pid, behaviour, changes)
        self.wait(lambda event: event[0] in ("started", "start_failed") and event[1] == pid, since)
        return pid

    def turn(self, pid: int, text: str) -> str:
        since = len(self.events)
        self.tell("deliver", pid, text, "t1")
        reply: str = self.wait(lambda event: event[:2] == ["turn_done", pid], since)[3]["reply"]
        return reply

    def cell_pid(self, pid: int) -> int:
        """The operating system's process id of the cell that a process lives in."""
        known = self.tell("os_pids")
        os_pid: int = known["cells"][known["where"][str(pid)]]
        return os_pid

    def session(self) -> set[int]:
        """Every living process of the node's session, by pid."""
        return {row.pid for row in read_processes().values() if row.alive and row.session == self.process.pid}

    def named(self, *words: str) -> int:
        """The one process below the node whose command line holds one of ``words``; a child has it too at first."""
        found: list[int] = []

        def one() -> bool:
            found[:] = [pid for pid in self.session() if any(word in _command_line(pid) for word in words)]
            return len(found) == 1

        wait_until(one, f"one process is {words}")
        return found[0]


def _command_line(pid: int) -> str:
    """Empty when the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    return ""


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {WAIT_S:g} s: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def node() -> Iterator[RayNode]:
    runtime = Path(tempfile.mkdtemp(prefix="wr"))
    node = RayNode(runtime)
    try:
        node.wait(lambda event: event[:2] == ["answer", "open"])
        yield node
        node.tell("close")
        wait_until(lambda: node.session() <= {node.process.pid}, "only the node is left after it closed")
        assert not (runtime / "ray").exists()
        assert node.process.wait(WAIT_S) == 0
    finally:
        orphans = node.session()
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        node.process.wait()
        log = runtime / "placer.log"
        print(log.read_text() if log.exists() else "no placer log")
        shutil.rmtree(runtime)
    assert not orphans


def test_the_node_itself_does_not_load_ray(node: RayNode) -> None:
    loaded = node.wait(lambda event: event[:2] == ["answer", "open"])[2]
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {"ray", "duckdb", "numpy", "hnswlib"}


def test_shared_processes_run_in_one_actor_and_a_dedicated_one_in_its_own(node: RayNode) -> None:
    first, second = node.start("Echo"), node.start("Echo")
    alone = node.start("Echo", isolation="dedicated")
    assert node.turn(first, "hi") == f"p{first}: hi"
    assert node.turn(alone, "hi") == f"p{alone}: hi"
    assert node.cell_pid(first) == node.cell_pid(second) != node.cell_pid(alone)


def test_an_actor_holds_nothing_of_ours_but_the_abi_and_the_cells_own_shell(node: RayNode) -> None:
    loaded = node.turn(node.start("Modules"), "x").split()
    assert "kernel.cell.actor" in loaded
    allowed = {"kernel", "kernel.abi", "kernel.cell", "kernel.shapes", "mesh", "mesh.bounded"}
    assert [name for name in loaded if name not in allowed and not name.startswith("kernel.cell.")] == []


def test_calls_come_back_from_a_ray_cell(node: RayNode) -> None:
    assert node.turn(node.start("Loop"), "50") == "done"


def test_a_killed_actor_is_one_event_that_names_the_running_pid(node: RayNode) -> None:
    killed, other = node.start("Kills", domain="killed"), node.start("Echo", domain="killed")
    since = len(node.events)
    node.tell("deliver", killed, "x", "t1")
    lost = node.wait(lambda event: event[0] == "cell_lost", since)
    assert lost[2:] == [killed, [killed, other], "end of file", True]
    again = node.start("Echo", domain="killed")
    assert node.turn(again, "hi") == f"p{again}: hi"


def test_a_start_that_raises_in_an_actor_says_why(node: RayNode) -> None:
    pid = node.start("StartRaises")
    failed = node.wait(lambda event: event[:2] == ["start_failed", pid])
    assert "RuntimeError: no such start" in failed[2]


def test_a_coroutine_that_survives_cancel_costs_its_actor(node: RayNode) -> None:
    stubborn = node.start("Stubborn", domain="stubborn")
    other = node.start("Echo", domain="stubborn")
    os_pid = node.cell_pid(stubborn)
    since = len(node.events)
    node.tell("deliver", stubborn, "x", "t1")
    node.wait(lambda event: event[:2] == ["log", stubborn], since)
    node.tell("stop", stubborn)
    lost = node.wait(lambda event: event[0] == "cell_lost", since)
    assert lost[2:4] == [0, [other]]
    wait_until(lambda: os_pid not in node.session(), "the actor is dead")


@pytest.mark.parametrize(
    "words",
    [
        ("raylet/raylet",),
        *(
            pytest.param((one,), marks=pytest.mark.slow)
            for one in ("kernel.cells.engines.placer", "gcs/gcs_server")
        ),
    ],
)
def test_rays_end_is_an_event_that_leaves_nothing_over_and_ray_comes_back(
    node: RayNode, words: tuple[str, ...]
) -> None:
    first = node.start("Echo", domain="one")
    blocked = node.start("Blocks", domain="two")
    since = len(node.events)
    node.tell("deliver", blocked, "x", "t1")
    node.wait(lambda event: event[:2] == ["log", blocked], since)
    before = node.session() - {node.process.pid}
    os.kill(node.named(*words), signal.SIGKILL)
    node.wait(lambda event: event[0] == "engine_lost", since)
    lost = [event for event in node.events[since:] if event[0] == "cell_lost"]
    assert sorted(pid for event in lost for pid in event[3] if pid in (first, blocked)) == [first, blocked]
    waiting = node._pid = node._pid + 1
    node.tell("place", waiting, "Echo", {"domain": "one"})
    wait_until(lambda: not before & node.session(), f"nothing of {words} is left over")
    node.tell("reopen")
    node.wait(lambda event: event == ["started", waiting], since)
    assert node.turn(waiting, "hi") == f"p{waiting}: hi"


def test_nothing_outlives_a_killed_node() -> None:
    runtime = Path(tempfile.mkdtemp(prefix="wr"))
    node = RayNode(runtime)
    try:
        node.wait(lambda event: event[:2] == ["answer", "open"])
        blocked = node.start("Blocks")
        since = len(node.events)
        node.tell("deliver", blocked, "x", "t1")
        node.wait(lambda event: event[:2] == ["log", blocked], since)
        os.kill(node.process.pid, signal.SIGKILL)
        node.process.wait()
        wait_until(lambda: not node.session(), "nothing of the node is left over")
    finally:
        for pid in node.session():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(runtime, ignore_errors=True)
