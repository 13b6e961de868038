"""Turns that are cancelled while they act: until nothing more of them begins, and until what they started is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor, time_each
from benchmarks.node import POLL_S, BenchNode, now_us

CANCELS = 100
TREES = 30
ENDLESS = 10**6
LOOK_S = 0.0005


@pytest.fixture(scope="module")
def node() -> Iterator[BenchNode]:
    """With one agent that calls tools until it is told to stop."""
    with BenchNode("local") as running:
        running.client.spawn("busy", behaviour="stopwatch", tools=["act", "breed"])
        running.order("busy", do="calls", tool="act", arguments={"text": "x"}, count=1, unmeasured=1)
        yield running


def begin(node: BenchNode, tool: str, **arguments: str) -> None:
    order = {"do": "calls", "tool": tool, "arguments": arguments, "count": ENDLESS, "unmeasured": 0}
    node.client.send("busy", json.dumps(order))


def settle(node: BenchNode) -> None:
    """Say of what the cancelled had under way that nothing came of it."""
    for doubt in node.client.doubts.list():
        node.client.doubts.resolve(doubt["id"], "lost")


def until_nothing_begins(node: BenchNode) -> float:
    """Cancel a turn that calls a tool with effects without pause; seconds until its end is recorded. Raises
    RuntimeError when an effect began behind that.
    """
    node.journal.new()
    begin(node, "act", text="x")
    intents, turn = list[int](), ""

    def acts() -> bool:
        nonlocal turn
        for record in node.journal.new():
            if record.entry.kind == "tool.intent":
                intents.append(record.entry.seq)
                turn = record.body["turn"]
        return len(intents) > 1

    node.wait("its first calls", acts)
    asked_us = now_us()
    node.client.cancel("busy")
    ended: dict[str, tuple[int, int]] = {}

    def over() -> bool:
        for record in node.journal.new():
            if record.entry.kind == "tool.intent":
                intents.append(record.entry.seq)
            elif record.entry.kind == "turn.ended":
                ended[record.body["turn"]] = record.entry.seq, record.entry.time_us
        return turn in ended

    node.wait("the end of the turn", over)
    time.sleep(POLL_S)  # for what must not come
    intents.extend(record.entry.seq for record in node.journal.new() if record.entry.kind == "tool.intent")
    seq, at_us = ended[turn]
    if max(intents) > seq:
        raise RuntimeError(f"an effect began behind the end of {turn}")
    settle(node)
    return (at_us - asked_us) / 1e6


def until_the_tree_is_dead(node: BenchNode, note: Path) -> float:
    """Cancel a turn whose tool has started a process of its own; seconds until that is gone."""
    note.unlink(missing_ok=True)
    begin(node, "breed", note=str(note))
    node.wait("the process of the tool", lambda: note.exists() and bool(note.read_text().strip()))
    child = int(note.read_text())
    began = time.perf_counter()
    node.client.cancel("busy")
    while runs(child):
        time.sleep(LOOK_S)
    took_s = time.perf_counter() - began
    settle(node)
    return took_s


def runs(os_pid: int) -> bool:
    """Whether a process acts: one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{os_pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def kill_floor() -> Floor:
    """A bare process is killed, until its parent knows."""

    def once() -> None:
        process = subprocess.Popen(["sleep", "60"])
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    return Floor("a bare process, started, killed, waited for", median(time_each(once, 50)))


def test_nothing_begins_any_more(node: BenchNode, report: Report) -> None:
    took = [until_nothing_begins(node) for _ in range(CANCELS)]
    report(
        "cancel until no further effect begins",
        took,
        [kill_floor()],
        aim="p99 under 250 ms",
        lag_ms=node.loop_lag_p99_ms,
    )


def test_the_tree_of_a_tool_is_dead(node: BenchNode, report: Report) -> None:
    took = [until_the_tree_is_dead(node, node.directory / "child") for _ in range(TREES)]
    report("cancel until the process that a tool started is gone", took, [kill_floor()], aim="under 2 s")
