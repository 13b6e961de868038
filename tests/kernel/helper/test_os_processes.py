"""Which processes are orphans of a node, and that they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import chain, repeat

import pytest

from kernel.helper.os_processes import (
    SESSION_VARIABLE,
    Mark,
    ProcessRow,
    cpu_ms,
    descendants,
    descends,
    end_tree,
    environment_of,
    kill_all,
    new_mark,
    orphans,
    read_process,
    read_processes,
    run_mark,
    stop_all,
)
from tests.patience import HANG_S

NODE = 100


def rows(*listed: tuple[int, int, int, bool]) -> dict[int, ProcessRow]:
    return {pid: ProcessRow(pid, parent, session, alive) for pid, parent, session, alive in listed}


TABLE = rows(
    (1, 0, 1, True),
    (NODE, 1, NODE, True),
    (101, NODE, NODE, True),  # a helper
    (102, 101, NODE, True),  # what it started
    (103, 1, NODE, True),  # left behind by a dead helper
    (104, 103, NODE, True),  # and what that started
    (105, 1, NODE, False),  # a zombie
    (106, 1, 106, True),  # somebody else's
    (107, 999, NODE, True),  # its parent is gone from the table
)


def test_orphans_are_those_of_the_session_that_do_not_lead_back_to_the_node() -> None:
    assert orphans(TABLE, NODE) == [103, 104, 107]


def test_a_node_that_leads_no_session_owns_nobody_in_it() -> None:
    table = {**TABLE, NODE: ProcessRow(NODE, 1, 1, True)}
    assert orphans(table, NODE) == []
    assert orphans({}, NODE) == []


def test_descendants_are_at_any_depth_and_alive() -> None:
    assert descendants(TABLE, NODE) == [101, 102]
    assert descendants(TABLE, 103) == [104]


def test_a_table_that_changed_while_it_was_read_makes_no_circle() -> None:
    table = rows((5, 6, 1, True), (6, 5, 1, True))
    assert not descends(table, 5, NODE)


def test_killed_processes_are_dead_on_return_and_the_missing_do_not_matter() -> None:
    children = [subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=-1) for _ in range(2)]
    try:
        pids = [child.pid for child in children]
        assert set(pids) <= set(descendants(read_processes(), os.getpid()))
        kill_all([*pids, 2**22 - 1], time.monotonic() + HANG_S)
        assert not set(pids) & set(descendants(read_processes(), os.getpid()))
    finally:
        for child in children:
            child.kill()
            assert child.wait() == -signal.SIGKILL
            assert child.stdin is not None
            child.stdin.close()


PROGRAM = "setsid sh -c 'echo $$ >/dev/fd/$0; exec sleep 1000' $0"


def started(shell: str, mark: Mark) -> tuple[subprocess.Popen[bytes], int]:
    """A process with that mark, and what it has started in a session of its own."""
    told, tell = os.pipe()
    waits = ["sh", "-c", 'read go; eval "$1"', str(tell), shell]
    child = subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=[tell])
    os.close(tell)
    mark.put_on(child.pid)
    assert child.stdin is not None
    with child.stdin as go:
        go.write(b"go\n")
    with open(told) as said:
        return child, int(said.readline())


def lives(pid: int) -> bool:
    row = read_process(pid)
    return row is not None and row.alive


@pytest.mark.parametrize("scrubbed", ["", "env -i PATH=/usr/bin:/bin "])
@pytest.mark.parametrize(
    "shell", ["{} & exec sleep 1000", "({} &) ; exec sleep 1000", "{} & exit", "({} &) ; exit"]
)
def test_a_tree_is_ended_wherever_it_has_gone_and_nothing_of_others(shell: str, scrubbed: str) -> None:
    """Below its root or not, that hangs or has died; with the environment that was handed on, or one of its own."""
    mark = new_mark()
    other, of_the_other = started(shell.format(scrubbed + PROGRAM), new_mark())
    child, its_own = started(shell.format(scrubbed + PROGRAM), mark)
    try:
        root = read_process(child.pid)
        assert root is not None and lives(its_own)
        end_tree(root, mark)
        assert not lives(child.pid) and not lives(its_own)
        assert lives(of_the_other)
    finally:
        kill_all([other.pid, of_the_other, child.pid, its_own], time.monotonic() + HANG_S)
        child.wait()
        other.wait()


FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading
def works():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    os.write(1, b"ended")
    threading.Event().wait()
threading.Thread(target=works).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_lives_and_is_ended_like_any_other() -> None:
    """The system says that it is a zombie, and tells its environment by its other threads alone."""
    command = [sys.executable, "-I", "-S", "-c", FIRST_THREAD_ENDS]
    environment = {"PATH": os.environ["PATH"], "SAID": "so"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        try:
            assert child.stdout is not None and child.stdout.read(5) == b"ended"
            assert lives(child.pid) and child.pid in descendants(read_processes(), os.getpid())
            assert b"SAID=so" in environment_of(child.pid)
            kill_all([child.pid], time.monotonic() + HANG_S)
            assert not lives(child.pid)
        finally:
            child.kill()


def test_a_process_that_ends_while_its_threads_are_listed_has_told_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system says that the listing is over, and not that the process is."""
    monkeypatch.setattr(os, "listdir", lambda path: [])
    assert environment_of(2**22 + 1) == []


def test_what_is_to_be_killed_is_stopped_first_with_what_it_started_meanwhile() -> None:
    children = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    one, another, spared = (child.pid for child in children)
    looks = chain([[one, spared]], repeat([one, another]))
    try:
        assert stop_all(lambda: next(looks), [spared], time.monotonic() + HANG_S) == {one, another}
        for pid in (one, another):
            assert os.waitid(os.P_PID, pid, os.WSTOPPED) is not None
        assert os.waitid(os.P_PID, spared, os.WSTOPPED | os.WNOHANG) is None
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_tree_is_stopped_before_any_of_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script whose running step was killed before it went on with its next one."""
    mark = new_mark()
    sent: list[int] = []
    child, its_own = started(f"{PROGRAM} & exec sleep 1000", mark)
    stop, kill = os.kill, signal.pidfd_send_signal

    def stops(pid: int, number: int) -> None:
        sent.append(number)
        stop(pid, number)

    def kills(handle: int, number: int) -> None:
        sent.append(number)
        kill(handle, number)

    try:
        root = read_process(child.pid)
        assert root is not None
        with monkeypatch.context() as heard:
            heard.setattr(os, "kill", stops)
            heard.setattr(signal, "pidfd_send_signal", kills)
            end_tree(root, mark)
        assert sent == [signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL]
        assert not lives(its_own)
    finally:
        kill_all([child.pid, its_own], time.monotonic() + HANG_S)
        child.wait()


def test_what_is_born_while_one_looks_is_looked_for() -> None:
    """What becomes a daemon forks and ends, so a listing that began before has neither: it got away."""
    born: list[subprocess.Popen[bytes]] = []

    def look() -> list[int]:
        seen = [child.pid for child in born]
        if not born:
            born.append(subprocess.Popen(["sleep", "1000"]))
        return seen

    try:
        assert stop_all(look, (), time.monotonic() + HANG_S) == {child.pid for child in born}
    finally:
        kill_all([child.pid for child in born], time.monotonic() + HANG_S)
        for child in born:
            child.wait()


def test_the_marks_of_a_run_are_known_as_its_own_and_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, "one")
    one, another = new_mark(), new_mark()
    with subprocess.Popen(["sleep", "1000"], env={}) as child:
        try:
            one.put_on(child.pid)
            assert one.is_on(child.pid) and not another.is_on(child.pid)
            assert run_mark("one").is_on(child.pid) and not run_mark("another").is_on(child.pid)
        finally:
            child.kill()


def test_what_is_still_there_in_the_end_is_said() -> None:
    mark = new_mark()
    child, its_own = started(f"{PROGRAM} & exec sleep 1000", mark)
    try:
        root = read_process(child.pid)
        assert root is not None
        with pytest.raises(TimeoutError, match="1 processes are still there"):
            end_tree(root, mark, 0.0)
    finally:
        kill_all([child.pid, its_own], time.monotonic() + HANG_S)
        child.wait()


def test_the_processor_time_of_a_process_is_what_the_system_says() -> None:
    before = cpu_ms(os.getpid())
    while cpu_ms(os.getpid()) == before:  # it is used by looking
        pass
    used = os.times()
    assert before < cpu_ms(os.getpid()) and before <= 1000 * sum(used[:4]) + 20
    assert cpu_ms(2**22 + 1) == 0
