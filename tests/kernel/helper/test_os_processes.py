"""Which processes are orphans of a node, and that they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from kernel.helper.os_processes import ProcessRow, descendants, descends, kill_all, orphans, read_processes
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
