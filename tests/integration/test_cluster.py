"""``weftos cluster``: real launchers and real nodes, killed in every way; one of the clusters on a real Ray."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.os_processes import read_processes
from kernel.helper.os_session import read_boot, session_members
from tests.patience import HANG_S

WAIT_S = HANG_S


class Terminal:
    """Runs ``weftos`` beside one cluster directory."""

    def __init__(self, place: Path) -> None:
        self.data = place / "c"
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": str(place)}
        self.leaders: set[int] = set()

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit status, stdout, stderr."""
        command = [sys.executable, "-P", "-m", "weftos", *words]
        done = subprocess.run(command, text=True, capture_output=True, timeout=HANG_S, env=self._environment)
        for boot in (self.data, *self.data.glob("n*")):
            if record := read_boot(boot):
                self.leaders.add(record.session_leader)
        return done.returncode, done.stdout, done.stderr

    def json(self, *words: str) -> Any:
        status, out, err = self.run(*words, "--json")
        assert status == 0, err
        return json.loads(out)

    def up(self, *words: str) -> Any:
        return self.json("cluster", "up", "--data", str(self.data), *words)

    def status(self) -> Any:
        return json.loads(self.run("cluster", "status", "--json", "--data", str(self.data))[1])

    def node(self, name: str, *words: str) -> Any:
        return self.json(*words, "--data", str(self.data / name))

    def living(self) -> list[int]:
        """Processes of every session that a launcher or a node here has ever led."""
        return [pid for leader in self.leaders - {0} for pid in session_members(leader)]


def wait_until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {WAIT_S:g} s: {what}"
        time.sleep(0.05)


def command_line(pid: int) -> bytes:
    """Empty when the process has ended meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def unburied(parent: int) -> list[int]:
    """Its children that have ended, and of whose end it has not taken note."""
    return [pid for pid, row in read_processes().items() if row.parent == parent and not row.alive]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory(prefix="wc-") as place:
        terminal = Terminal(Path(place))
        try:
            yield terminal
        finally:
            for log in (*terminal.data.glob("logs/*"), *terminal.data.glob("n*/logs/node.jsonl")):
                print(f"--- {log}\n{log.read_text()[-6000:]}")
            terminal.run("cluster", "down", "--data", str(terminal.data))
            assert terminal.living() == []


def test_a_cluster_from_first_start_to_stop_and_back(terminal: Terminal) -> None:
    first = terminal.up("-n", "3", "--engine", "local")
    assert (first["running"], [node["name"] for node in first["nodes"]]) == (True, ["n1", "n2", "n3"])
    assert len({node["os_pid"] for node in first["nodes"]} | {first["launcher"]}) == 4
    peers = json.loads((terminal.data / "n2" / "mesh" / "peers.json").read_text())["peers"]
    assert {peer["origin"] for peer in peers} == {first["nodes"][0]["origin"], first["nodes"][2]["origin"]}
    ready = terminal.node("n2", "status")
    assert (ready["name"], ready["origin"]) == ("n2", first["nodes"][1]["origin"])

    os.kill(first["nodes"][1]["os_pid"], signal.SIGKILL)
    wait_until(lambda: not session_members(first["nodes"][1]["os_pid"]), "nothing of the node is left")
    status, out, _ = terminal.run("cluster", "status", "--data", str(terminal.data))
    assert (status, "stopped" in out) == (1, True)
    again = terminal.up()
    assert again["launcher"] == first["launcher"]
    same = ("name", "origin", "listen")
    assert [[node[key] for key in same] for node in again["nodes"]] == [
        [node[key] for key in same] for node in first["nodes"]
    ]
    assert [a["os_pid"] == b["os_pid"] for a, b in zip(again["nodes"], first["nodes"], strict=True)] == [
        True,
        False,
        True,
    ]

    status, _, err = terminal.run("cluster", "up", "-n", "2", "--data", str(terminal.data))
    assert (status, "a cluster of 3 nodes with engine local runs" in err) == (1, True)
    wait_until(lambda: not unburied(first["launcher"]), "what the killed node left to the launcher is buried")
    victim = terminal.data.parent / "weftos-notes"
    victim.mkdir()
    record = terminal.data / "boot.json"
    runtime = json.loads(record.read_text())["runtime"]
    record.write_text(record.read_text().replace(runtime, str(victim)))
    down = terminal.json("cluster", "down", "--data", str(terminal.data))
    assert down == {"was_running": True, "nodes": [], "killed": 0}
    assert victim.exists() and not Path(runtime).exists(), (
        "a launcher removes what it made, whatever boot.json says"
    )
    assert terminal.living() == []
    assert terminal.status()["running"] is False
    assert [node["origin"] for node in terminal.up()["nodes"]] == [node["origin"] for node in first["nodes"]]


@pytest.mark.slow
def test_a_new_up_ends_what_a_dead_launcher_has_left(terminal: Terminal) -> None:
    first = terminal.up("-n", "2", "--engine", "local")
    os.kill(first["launcher"], signal.SIGKILL)
    wait_until(lambda: not session_members(first["launcher"]), "the launcher is gone")
    assert terminal.status()["launcher"] == 0
    assert terminal.node("n1", "status")["name"] == "n1"
    second = terminal.up("-n", "1")
    assert second["running"]
    assert [pid for node in first["nodes"] for pid in session_members(node["os_pid"])] == []
    stopped = terminal.node("n1", "chain", "log", "--kind", "node.stopped")["rows"]
    assert len(stopped) == 1, "it was killed, and not stopped"
    os.kill(second["launcher"], signal.SIGKILL)
    wait_until(lambda: not session_members(second["launcher"]), "the launcher is gone")
    down = terminal.json("cluster", "down", "--data", str(terminal.data))
    assert (down["was_running"], down["nodes"]) == (False, ["n1"])


@pytest.mark.slow
def test_a_cluster_with_a_node_that_cannot_boot_says_which_and_leaves_nothing(terminal: Terminal) -> None:
    terminal.up("-n", "2", "--engine", "local")
    terminal.json("cluster", "down", "--data", str(terminal.data))
    (terminal.data / "n2" / "weftos.toml").write_text("[node]\nengin = 'local'\n")
    status, _, err = terminal.run("cluster", "up", "--data", str(terminal.data))
    assert (status, "n2: " in err, "node.engine" in err) == (1, True, True)
    assert terminal.living() == []


def test_a_cluster_does_not_move_into_a_nodes_directory(terminal: Terminal) -> None:
    terminal.json("init", str(terminal.data))
    status, _, err = terminal.run("cluster", "up", "--engine", "local", "--data", str(terminal.data))
    assert (status, "is a node's data directory" in err) == (1, True)


@pytest.mark.ray
@pytest.mark.slow
def test_nodes_of_a_cluster_share_one_ray_that_comes_back_at_its_address(terminal: Terminal) -> None:
    first = terminal.up("-n", "2", "--engine", "ray")
    for name in ("n1", "n2"):
        terminal.node(name, "spawn", "ada")
    session = session_members(first["launcher"])
    cells = {terminal.node(name, "inspect", "ada")["os_pid"] for name in ("n1", "n2")}
    assert len(cells) == 2
    assert cells <= set(session)
    gcs = [pid for pid in session if b"gcs/gcs_server" in command_line(pid)]
    os.kill(gcs[0], signal.SIGKILL)
    wait_until(lambda: not cells & set(session_members(first["launcher"])), "the cells went with it")

    def runs(name: str) -> bool:
        return bool(terminal.node(name, "inspect", "ada")["state"] == "running")

    for name in ("n1", "n2"):
        wait_until(partial(runs, name), f"{name} is back")
        assert (
            terminal.run("send", "ada", "what is 17*23", "--wait", "--data", str(terminal.data / name))[0]
            == 0
        )
    assert terminal.status()["ray_address"] == first["ray_address"]
    down = terminal.json("cluster", "down", "--data", str(terminal.data))
    assert (down["was_running"], down["nodes"]) == (True, [])
    assert terminal.living() == []
