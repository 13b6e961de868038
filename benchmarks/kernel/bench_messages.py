"""Messages between agents of one node, ends that are told, and dead letters; beside queues, sockets and actors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import BareRay, Echo, append_floor
from benchmarks.kernel.floors import (
    MESSAGE_BYTES,
    pykka_ask_floor,
    pykka_stop_floor,
    pykka_tell_floor,
    queue_floor,
    relay_floor,
)
from benchmarks.node import PLUGINS, BenchNode

MESSAGES = 500
UNMEASURED = 50
WATCHED = 50
LETTERS = 200
RECORD_BYTES = 700
CONFIGURATION = f"""
[behaviours.watcher]
import = "watching:Watcher"
python_path = ["{PLUGINS}"]
isolation = "shared"
"""


@pytest.fixture(scope="module")
def node() -> Iterator[BenchNode]:
    """With one agent that writes to another, which answers with the message."""
    with BenchNode("local", CONFIGURATION) as running:
        running.client.spawn("writer", behaviour="stopwatch", tools=["send_message", "ask"])
        running.client.spawn("reader", behaviour="idle", tools=[])
        running.client.spawn(
            "watcher", behaviour="watcher", tools=["send_message"]
        )  # who may speak may watch
        yield running


def write(node: BenchNode, tool: str) -> list[float]:
    """How long each of many calls took, timed in the cell of who writes."""
    arguments = {"to": "reader", "text": "x" * 100}
    order = {"tool": tool, "arguments": arguments, "count": MESSAGES, "unmeasured": UNMEASURED}
    return [took / 1e9 for took in node.order("writer", do="calls", **order)["took_ns"]]


def test_send(node: BenchNode, report: Report) -> None:
    took = write(node, "send_message")
    floors = [queue_floor(there_and_back=False), pykka_tell_floor()]
    floors.append(append_floor(node.directory, RECORD_BYTES, synced=True, count=300))
    report("an agent sends: until it is accepted", took, floors, lag_ms=node.loop_lag_p99_ms)


def test_send_and_receive(node: BenchNode, report: Report) -> None:
    node.journal.new()
    write(node, "send_message")
    accepted: dict[str, int] = {}
    delivered: list[float] = []

    def all_there() -> bool:
        for record in node.journal.new():
            if record.entry.kind == "message.accepted" and record.body["to"] == "/user/reader":
                accepted[record.body["id"]] = record.entry.time_us
            elif record.entry.kind == "turn.started" and record.body["message"] in accepted:
                delivered.append((record.entry.time_us - accepted[record.body["message"]]) / 1e6)
        return len(delivered) >= MESSAGES

    node.wait("the messages to be read", all_there)
    floors = [queue_floor(there_and_back=False), pykka_tell_floor(), relay_floor()]
    report("a message accepted to its turn", delivered[UNMEASURED:], floors, lag_ms=node.loop_lag_p99_ms)


def test_request_and_reply(node: BenchNode, report: Report, ray_floor: BareRay) -> None:
    took = write(node, "ask")
    floors = [relay_floor(), relay_floor(waits=False), queue_floor(there_and_back=True)]
    floors += [pykka_ask_floor(), ray_floor.call]
    report("request and reply", took, floors, aim="p50 under 2 x the relay", lag_ms=node.loop_lag_p99_ms)


def test_monitor_down(node: BenchNode, report: Report) -> None:
    """From the end of a process, as the ledger has it, to the turn in which its watcher is told."""
    names = [f"watched{number}" for number in range(WATCHED)]
    for name in names:
        node.client.spawn(name, behaviour="idle", tools=[], restart="temporary")
    node.client.send("watcher", json.dumps(names), wait_s=60)
    samples = []
    for name in names:
        node.journal.new()
        node.client.kill(name, signal="kill")
        times: dict[str, int] = {}

        def told(times: dict[str, int] = times) -> bool:
            for record in node.journal.new():
                if record.entry.kind in ("process.exited", "turn.started"):
                    times[record.entry.kind] = record.entry.time_us
            return len(times) == 2

        node.wait(f"{name} to be told", told)
        samples.append((times["turn.started"] - times["process.exited"]) / 1e6)
    floors = [pykka_stop_floor(), queue_floor(there_and_back=False), relay_floor()]
    report("an end to the turn that is told of it (DOWN)", samples, floors, lag_ms=node.loop_lag_p99_ms)


def test_dead_letters(node: BenchNode, report: Report, echo: Echo) -> None:
    """Messages that wait for a process when it is stopped, by the times of their entries."""
    node.client.spawn("doomed", behaviour="idle", tools=[])
    node.client.suspend("doomed")
    for number in range(LETTERS):
        node.client.send("doomed", f"{number}")
    node.journal.new()
    node.client.stop("doomed")
    times: list[int] = []

    def all_dead() -> bool:
        times.extend(r.entry.time_us for r in node.journal.new() if r.entry.kind == "message.dead")
        return len(times) >= LETTERS

    node.wait("the letters to die", all_dead)
    each_s = (max(times) - min(times)) / 1e6 / LETTERS
    floor = append_floor(node.directory, MESSAGE_BYTES, synced=False, count=300)
    report(f"dead letters, {LETTERS} of one process, each", [each_s], [floor], lag_ms=node.loop_lag_p99_ms)


def test_replay(node: BenchNode, report: Report, echo: Echo) -> None:
    """One letter after the other is sent again, to another process, as a person has it done."""
    samples = []
    for letter in node.client.deadletters(to="/user/doomed", limit=LETTERS):
        began = time.perf_counter()
        node.client.replay(letter["id"], to="reader")
        samples.append(time.perf_counter() - began)
    floors = [echo.floor(), append_floor(node.directory, MESSAGE_BYTES, synced=True, count=300)]
    report("the replay of a dead letter", samples, floors, lag_ms=node.loop_lag_p99_ms)
