"""``weftos down`` against real sessions of processes that hold the data directory as a node does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.helper.os_session import session_members
from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.strangers import STRANGER, needs_root
from weftos.lifecycle import stopping
from weftos.lifecycle.initialise import initialise

STAND_IN = """
import os, signal, subprocess, sys
from pathlib import Path
from kernel.helper.os_session import lock, write_boot
data, how, obeys = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "obeys"
if how != "lets go":
    held = lock(data, runs=how != "looks")
if how not in ("boots", "looks"):
    write_boot(data, 1, data)
child = subprocess.Popen(["sleep", "600"])
def stop(*_):
    child.kill()
    child.wait()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop if obeys else signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    initialise(tmp_path)
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def stand_in(shell: Shell) -> Iterator[Callable[[str, str], int]]:
    """Starts a stand-in for a node, with one child; returns its session."""
    started: list[subprocess.Popen[str]] = []

    def start(holds: str, obeys: str) -> int:
        command = [sys.executable, "-c", STAND_IN, str(shell.data), holds, obeys]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_node_that_obeys_is_waited_for(shell: Shell, stand_in: Callable[[str, str], int]) -> None:
    session = stand_in("holds", "obeys")
    assert shell.json("down") == {"was_running": True, "killed": 0}
    assert session_members(session) == []


def test_a_node_that_is_still_booting_is_asked_too(shell: Shell, stand_in: Callable[[str, str], int]) -> None:
    session = stand_in("boots", "obeys")
    assert shell.json("down") == {"was_running": True, "killed": 0}
    assert session_members(session) == []


def test_another_command_that_has_the_directory_is_not_ended(
    shell: Shell, stand_in: Callable[[str, str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another down, doctor, or the launcher of a cluster that ends what was left there."""
    session = stand_in("looks", "obeys")
    monkeypatch.setattr(stopping, "STOP_TIMEOUT_S", 0.2)
    status, out, err = shell.run("down")
    assert (status, out) == (1, "")
    assert f"in use by process {session}: it is no node" in err
    assert stopping.holder(shell.data) == 0
    assert len(session_members(session)) == 2


def test_a_node_that_does_not_is_killed_with_its_session_and_that_is_said(
    shell: Shell, stand_in: Callable[[str, str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stand_in("holds", "ignores")
    monkeypatch.setattr(stopping, "STOP_TIMEOUT_S", 0.2)
    status, out, _ = shell.run("down")
    assert status == 0
    assert "did not stop within 0.2 s: killed 2 processes" in out
    assert session_members(session) == []


def test_what_a_dead_node_left_is_ended(shell: Shell, stand_in: Callable[[str, str], int]) -> None:
    session = stand_in("lets go", "ignores")
    assert shell.json("down") == {"was_running": False, "killed": 2}
    assert session_members(session) == []


def test_where_nothing_runs_down_says_so(shell: Shell) -> None:
    status, out, _ = shell.run("down")
    assert (status, out) == (0, f"no node was running on {shell.data}\n")


def test_a_directory_that_is_no_nodes_is_refused(shell: Shell, tmp_path: Path) -> None:
    status, _, err = shell.run("down", "--data", str(tmp_path / "logs"))
    assert status == 1
    assert "not a data directory" in err


@needs_root
@pytest.mark.parametrize("command", ["down", "up", "doctor"])
def test_in_another_users_directory_nothing_is_written_and_nothing_ended(
    shell: Shell, stand_in: Callable[[str, str], int], tmp_path: Path, command: str
) -> None:
    """What lies there is his word: a lock that leads to a file of ours, a record that names a session of ours."""
    session = stand_in("lets go", "ignores")
    ours = tmp_path.with_name(f"{tmp_path.name}-ours")
    ours.write_text("mine")
    (tmp_path / "lock").symlink_to(ours)
    made = tmp_path.with_name(f"{tmp_path.name}-made")
    (tmp_path / "logs" / "node.out").symlink_to(made)
    os.chown(tmp_path, STRANGER, STRANGER)
    written = tmp_path.stat().st_mtime_ns
    status, out, err = shell.run(command)
    assert status == 1
    assert tmp_path.stat().st_mtime_ns == written
    assert f"belongs to user {STRANGER}" in out + err
    assert ours.read_text() == "mine"
    assert not made.exists()
    assert len(session_members(session)) == 2


def test_a_lock_that_is_a_link_is_not_followed(shell: Shell, tmp_path: Path) -> None:
    ours = tmp_path.with_name(f"{tmp_path.name}-ours")
    ours.write_text("mine")
    (tmp_path / "lock").symlink_to(ours)
    assert shell.run("down")[0] == 1
    assert ours.read_text() == "mine"


@needs_root
def test_no_cluster_is_made_in_another_users_directory(shell: Shell, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    status, _, err = shell.run("cluster", "up", "--engine", "local", "--data", str(theirs / "cluster"))
    assert (status, os.listdir(theirs)) == (1, [])
    assert f"on the way to it belongs to user {STRANGER}" in err
