"""Helpers that are borne: closed from birth, known by their end, and gone with nursery or node."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.os_processes import ProcessRow, descendants, read_process, read_processes
from tests.kernel.twins.nursery_node import BOOT
from tests.patience import HANG_S
from tests.places import ROOT

BEARER = "tests.kernel.twins.nursery_node"


class Node:
    """The process that has the nursery; ``node("ask")`` has it do one thing."""

    def __init__(self, log: Path, module: str = BEARER) -> None:
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", BEARER, module, str(log)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, *command: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def nursery(self) -> int:
        [pid] = [row.pid for row in read_processes().values() if row.parent == self.process.pid]
        return pid


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def begin(*module: str) -> Node:
        nodes.append(Node(tmp_path / "log", *module))
        return nodes[-1]

    yield begin
    for node in nodes:
        below = rows_below(node)
        node.process.communicate(timeout=HANG_S)
        gone(below)


def rows_below(node: Node) -> list[ProcessRow]:
    rows = read_processes()
    return [rows[pid] for pid in descendants(rows, node.process.pid)]


def gone(rows: list[ProcessRow]) -> None:
    """Wait until they are."""

    def has_ended(row: ProcessRow) -> bool:
        return not is_alive(row)

    for row in rows:
        wait(partial(has_ended, row), f"{row} has ended")


def is_alive(row: ProcessRow) -> bool:
    now = read_process(row.pid)
    return now is not None and now.alive and now.start_ticks == row.start_ticks


def wait(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {HANG_S:g} s: {what}"
        time.sleep(0.01)


def test_what_is_borne_is_closed_and_has_what_it_was_told_and_its_link_alone(
    begin: Callable[..., Node],
) -> None:
    node = begin()
    node("tell", "a secret")
    pid = node("start")
    assert node("ask") == {
        "told": "a secret",
        "boot": BOOT,
        "pid": pid,
        "parent": node.nursery(),
        "dumpable": 0,
        "sockets": 1,
        "name": "weftos-tester",
    }
    node("stop")
    assert node("end") == 0
    wait(lambda: "asked ask" in node.log.read_text(), "what it printed is in its log")


def test_one_that_was_killed_is_a_death_with_its_status_and_another_is_borne(
    begin: Callable[..., Node],
) -> None:
    node = begin()
    node("tell", "x" * 2**20)
    first = node("start")
    os.kill(first, signal.SIGKILL)
    assert node("end") == -signal.SIGKILL
    second = node("start")
    answer = node("ask")
    assert answer["pid"] == second != first
    assert answer["told"] == "x" * 2**20


@pytest.mark.parametrize(("told", "status", "said"), [("ends", 3, ""), ("fails", 1, "does not want to")])
def test_one_that_ends_by_itself_is_one_too(
    begin: Callable[..., Node], told: str, status: int, said: str
) -> None:
    node = begin()
    node("tell", told)
    node("start")
    assert node("end") == status
    wait(lambda: said in node.log.read_text(), "its log says why")


def test_a_module_that_cannot_be_imported_is_said_in_the_log(begin: Callable[..., Node]) -> None:
    node = begin("tests.kernel.no_such_module")
    node("tell", "")
    node("start")
    assert node("end") == 1
    wait(lambda: "no_such_module" in node.log.read_text(), "its log says why")


@pytest.mark.parametrize("module", [BEARER, "tests.kernel.twins.unbound"])
def test_with_the_nursery_ends_what_it_bore_and_there_is_no_other(
    begin: Callable[..., Node], module: str
) -> None:
    node = begin(module)
    node("tell", "")
    node("start")
    below = rows_below(node)
    assert len(below) == 2
    os.kill(node.nursery(), signal.SIGKILL)
    assert node("end") is None
    gone(below)
    for _ in range(2):
        kind, words = node("start")
        assert kind == "HelperOver"
        assert "that alone can start the tester is gone" in words and "restart the node" in words
    assert "is not running" in node("ask")


@pytest.mark.parametrize(
    ("module", "kind", "number"),
    [("barren", "BlockingIOError", errno.EAGAIN), ("unheld", "OSError", errno.ENFILE)],
)
def test_what_cannot_be_borne_now_is_an_error_and_may_be_tried_again(
    begin: Callable[..., Node], module: str, kind: str, number: int
) -> None:
    node = begin(f"tests.kernel.twins.{module}")
    node("tell", "")
    for _ in range(2):
        assert node("start") == [kind, f"[Errno {number}] {os.strerror(number)}"]
    assert len(rows_below(node)) == 1


def test_the_end_of_what_a_stopped_nursery_bore_is_known_and_then_that_it_is_lost(
    begin: Callable[..., Node],
) -> None:
    node = begin()
    node("tell", "")
    pid = node("start")
    node("impatient")
    os.kill(node.nursery(), signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    assert node("end") is None
    assert "no answer within 0.1 s" in node("start")[1]
    os.kill(node.nursery(), signal.SIGCONT)


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "it has ended"), (signal.SIGSTOP, "another process has answered in its place")],
)
def test_nobody_else_bears_what_a_nursery_is_asked_for(
    begin: Callable[..., Node], number: signal.Signals, why: str
) -> None:
    node = begin("tests.kernel.twins.robbed")
    node("tell", "")
    node("start")
    nursery = node.nursery()
    below = rows_below(node)
    os.kill(nursery, number)
    kind, words = node("start")
    assert (kind, why in words) == ("HelperOver", True), words
    if number == signal.SIGSTOP:
        os.kill(nursery, signal.SIGCONT)
    gone(below)


def test_what_a_nursery_was_told_it_has_heard_and_nobody_can_find_it_on_the_way(
    begin: Callable[..., Node],
) -> None:
    node = begin()
    node("impatient")
    os.kill(node.nursery(), signal.SIGSTOP)
    kind, words = node("tell", "a secret")
    assert kind == "HelperOver"
    assert "no answer within 0.1 s" in words
    os.kill(node.nursery(), signal.SIGCONT)


def test_a_nursery_that_does_not_answer_is_lost(begin: Callable[..., Node]) -> None:
    node = begin()
    node("tell", "")
    node("impatient")
    os.kill(node.nursery(), signal.SIGSTOP)
    kind, words = node("start")
    assert kind == "HelperOver"
    assert "no answer within 0.1 s" in words
    os.kill(node.nursery(), signal.SIGCONT)  # its node has nothing more to say, so it ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_mean_the_node_leave_its_nursery_alone(
    begin: Callable[..., Node], number: signal.Signals
) -> None:
    node = begin()
    node("tell", "")
    node("start")  # by then it minds no signal
    os.kill(node.nursery(), number)
    node("stop")
    assert node("end") == 0
    assert isinstance(node("start"), int)


def test_nothing_outlives_a_node_that_is_killed(begin: Callable[..., Node]) -> None:
    node = begin()
    node("tell", "")
    node("start")
    below = rows_below(node)
    assert len(below) == 2
    node.process.kill()
    gone(below)
