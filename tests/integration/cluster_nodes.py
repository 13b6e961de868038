"""Real nodes on loopback, joined by tokens over real ZeroMQ."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernel.helper.os_session import read_boot, session_members
from tests.integration.commands import command
from tests.patience import HANG_S
from tests.prove.processes import kill
from weftos import Client, WeftosError

LIMIT_S = HANG_S
POLL_S = 0.05


class RealNode:
    """One node with a data directory and a runtime directory of its own. ``address`` is where it listens."""

    def __init__(self, place: Path, name: str) -> None:
        self.name = name
        self.data = place / name
        self.address = ""
        self.os_pid = 0
        self._place = place
        runtime = place / f"r{name}"
        runtime.mkdir(mode=0o700)
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit status, stdout, stderr of one command; what starts a node is a process of its own."""
        words = (*words, "--data", str(self.data))
        if words[0] != "up":
            return command(self._environment, *words)
        argv = [sys.executable, "-P", "-m", "weftos", *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=self._environment, timeout=HANG_S)
        return done.returncode, done.stdout, done.stderr

    def json(self, *words: str) -> Any:
        status, out, err = self.run(*words, "--json")
        assert status == 0, err
        return json.loads(out)

    def configure(self, text: str) -> None:
        """Make the data directory, and add ``text`` to its configuration."""
        self.json("init")
        with (self.data / "weftos.toml").open("a") as file:
            file.write(text)

    def up(self, *options: str) -> None:
        """Start it; where it was before, when it was."""
        listen = self.address.removeprefix("tcp://") or "127.0.0.1:0"
        ready = self.json(
            "up", "--engine", "local", "--detach", "--name", self.name, "--listen", listen, *options
        )
        self.address, self.os_pid = ready["listen"], ready["os_pid"]

    def kill(self) -> None:
        """kill -9 of the node process."""
        kill(self.os_pid)

    def client(self) -> Client:
        return Client(self.data)

    def peer(self, name: str) -> Mapping[str, Any]:
        """The row of ``weftos nodes`` for a peer, empty when there is none."""
        with self.client() as node:
            return next((row for row in node.cluster.nodes() if row["name"] == name), {})

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """The bodies of the newest entries of a kind."""
        with self.client() as node:
            return [row["body"] for row in node.log(kind=kind, limit=200)["rows"]]

    def end(self) -> None:
        """Stop it, however it stands; nothing of it may be left."""
        if self.data.exists():
            self.run("down")
            record = read_boot(self.data)
            assert record is None or session_members(record.session_leader) == []


def until(what: str, condition: Any) -> Any:
    """Ask until the answer is true. What is not there yet (a node that boots) counts as no."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        with contextlib.suppress(WeftosError):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}"
        time.sleep(POLL_S)


@contextlib.contextmanager
def real_nodes(*names: str, configuration: str = "") -> Iterator[list[RealNode]]:
    """Nodes that have joined the first; each later one knows only it."""
    with tempfile.TemporaryDirectory(prefix="wm-") as directory:
        place = Path(directory)
        nodes = [RealNode(place, name) for name in names]
        try:
            for node in nodes:
                if configuration:
                    node.configure(configuration)
            first = nodes[0]
            first.up()
            for node in nodes[1:]:
                token = place / f"{node.name}.token"
                first.json("token", "create", "--out", str(token))
                node.up("--join", first.address.removeprefix("tcp://"), "--token", str(token))
                until(f"{node.name} has joined", lambda node=node: first.peer(node.name).get("state") == "up")
            yield nodes
        finally:
            for node in nodes:
                node.end()
