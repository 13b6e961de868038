"""The command line against a real node (engine local), each command a process of its own, as a person types them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.os_session import read_boot, session_members
from tests.integration.live_node import until
from tests.patience import HANG_S
from tests.places import ROOT

MEANT = {  # by the numbers of entries in the README
    "why": ("tool.outcome", "/user/bob", "file_write"),
    "receipt": ("tool.outcome", "/user/ada", "calculator"),
    "erase": ("turn.ended", "/user/ada", ""),
}


class Terminal:
    """Runs ``weftos`` on one data directory, with a runtime directory of its own."""

    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        self.environment = {**os.environ, "WEFTOS_DATA": str(self.data), "XDG_RUNTIME_DIR": str(place)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "weftos", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=self.environment, **pipes)  # type: ignore[call-overload, no-any-return]  # pipes as data

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, stdout, stderr."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=HANG_S)
        return process.returncode, out, err

    def json(self, *arguments: str) -> Any:
        status, out, err = self.run(*arguments, "--json")
        assert status == 0, err
        return json.loads(out)

    def living(self) -> list[int]:
        """Processes of the node's session."""
        record = read_boot(self.data)
        return session_members(record.session_leader) if record else []


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory(prefix="w-") as place:
        terminal = Terminal(Path(place))
        yield terminal
        if terminal.data.exists():
            terminal.run("down")
            assert terminal.living() == []


def test_a_node_from_first_start_to_stop(terminal: Terminal) -> None:
    ready = terminal.json("up", "--engine", "local", "--name", "bob", "--detach")
    assert (ready["ready"], ready["name"]) == (True, "bob")
    assert terminal.json("status")["origin"] == ready["origin"]
    terminal.json("spawn", "team", "--supervisor", "--intensity", "3/10")
    ada = terminal.json("spawn", "ada", "--under", "/user/team")
    assert terminal.json("tree")[0]["children"][0]["children"][0]["pid"] == ada["pid"]
    status, out, _ = terminal.run("send", "ada", "what is 17*23", "--wait")
    assert (status, "391" in out) == (0, True)
    outcome = terminal.json("chain", "log", "--kind", "tool.outcome", "--limit", "1")["rows"][0]
    path = terminal.json("chain", "why", str(outcome["seq"]))
    assert [row["kind"] for row in path][:2] == ["operator.command", "message.accepted"]
    assert path[1]["body"]["sender"] == "operator"
    status, _, err = terminal.run("up", "--engine", "local", "--detach")
    assert (status, "in use" in err) == (1, True)
    assert terminal.json("chain", "verify")["ok"] is True
    assert terminal.json("down") == {"was_running": True, "killed": 0}
    assert terminal.living() == []
    assert terminal.json("chain", "status")["stopped_cleanly"] is True


@pytest.mark.slow
def test_a_node_in_the_foreground_stops_with_its_terminal_and_comes_back_with_its_processes(
    terminal: Terminal,
) -> None:
    first = terminal.start("up", "--engine", "local", "--json")
    assert _document(first)["ready"] is True
    before = terminal.json("spawn", "ada")
    first.send_signal(signal.SIGINT)
    assert first.wait(HANG_S) == 0
    assert terminal.living() == []
    terminal.json("up", "--engine", "local", "--detach")
    until(lambda: terminal.json("inspect", "ada")["state"] == "running", "ada runs again")
    after = terminal.json("inspect", "ada")
    assert (after["address"], after["pid"] > before["pid"]) == (before["address"], True)


def test_the_numbers_of_entries_are_those_of_what_the_readme_says(terminal: Terminal) -> None:
    terminal.json("up", "--engine", "local", "--detach")
    steps = _typed("First steps")
    for words in steps:
        if words[0] in ("spawn", "send"):
            status, _, err = terminal.run(*words)
            assert status == 0, err
    named = _numbered(steps + _typed("The ledger, for somebody who was not there"))
    assert {name: _meaning(terminal, seq) for name, seq in named.items()} == MEANT


def test_a_follower_sees_what_happens_and_ends_with_the_node(terminal: Terminal) -> None:
    terminal.json("up", "--engine", "local", "--detach")
    follower = terminal.start("events", "-f", "--json")
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["kind"] == "node.booted"
    terminal.json("spawn", "ada")
    rows = (json.loads(line) for line in follower.stdout)
    spawned = next(row for row in rows if (row["kind"], row["subject"]) == ("operator.command", "spawn"))
    assert next(row for row in rows if row["cause"] == spawned["seq"])["kind"] == "process.spawned"
    terminal.json("down")
    _, err = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 1
    assert "the node is stopping" in err


def test_a_node_that_cannot_boot_says_why_and_leaves_nothing(terminal: Terminal) -> None:
    terminal.json("init")
    (terminal.data / "weftos.toml").write_text("[node]\nengin = 'local'\n")
    status, out, err = terminal.run("up", "--detach")
    assert (status, out) == (1, "")
    assert "node.engine" in err
    assert terminal.living() == []


def _typed(section: str) -> list[list[str]]:
    """The command lines of ``weftos`` in a section."""
    text = re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    [lines] = [part.splitlines() for part in text if part.startswith(f"{section}\n")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    weftos ")]


def _numbered(lines: list[list[str]]) -> dict[str, int]:
    """What is asked of the ledger by an entry's number, and that number."""
    return {
        words[1]: int(words[2])
        for words in lines
        if words[0] == "chain" and words[2:3] and words[2].isdigit()
    }


def _meaning(terminal: Terminal, seq: int) -> tuple[str, str, str]:
    """Kind of an entry, the address of its process, and the tool that it is of."""
    shown: dict[str, Any] = terminal.json("chain", "show", str(seq))
    [address] = [row["address"] for row in terminal.json("ps") if row["pid"] == shown["pid"]]
    return shown["kind"], address, shown["body"].get("tool", "")


def _document(process: subprocess.Popen[str]) -> Any:
    """The JSON document that a running process prints over several lines."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    return json.loads("".join(lines))
