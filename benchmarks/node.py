"""A node to be measured: a data directory of its own, driven through the command line and the client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx

from chain.disk import Disk
from chain.entry.reader import EntryRecord, JournalReader
from kernel.operations.processes import ProcessRow
from tests.own_code import own_code
from weftos import Client

PLUGINS = own_code(Path(__file__).with_name("plugins"))
WAIT_S = 60.0
POLL_S = 0.02
PER_CALLER = 50
"""Connections to the control API. It gives no process more than 64."""
CALLERS = 4
_CONFIGURATION = f"""
[tools.look]
import = "timing:look"
python_path = ["{PLUGINS}"]

[tools.act]
import = "timing:act"
python_path = ["{PLUGINS}"]

[tools.breed]
import = "timing:breed"
python_path = ["{PLUGINS}"]

[behaviours.stopwatch]
import = "timing:Stopwatch"
python_path = ["{PLUGINS}"]
isolation = "shared"

[behaviours.idle]
import = "idle:Idle"
python_path = ["{PLUGINS}"]
isolation = "shared"

[limits]
agent_children = 1000
agent_spawns_per_trace = 1000
same_calls = 0
"""


class Journal:
    """What the node writes, read beside it: :meth:`new` gives the entries since the last time."""

    def __init__(self, data: Path) -> None:
        self._reader = JournalReader(data / "journal", Disk())

    def new(self) -> list[EntryRecord]:
        return [
            record
            for group in self._reader.groups()
            for record in group.records
            if isinstance(record, EntryRecord)
        ]


def post_all(
    control_socket: Path, path: str, bodies: list[dict[str, Any]], connections: int
) -> list[dict[str, Any]]:
    """The answers of the control API to requests that this process makes."""

    async def all_of_them() -> list[dict[str, Any]]:
        transport = httpx.AsyncHTTPTransport(
            uds=str(control_socket),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )
        async with httpx.AsyncClient(
            transport=transport, base_url="http://weftos/v1", timeout=WAIT_S * 2
        ) as http:
            answers = await asyncio.gather(*(http.post(path, json=body) for body in bodies))
        return [answer.raise_for_status().json() for answer in answers]

    return asyncio.run(all_of_them())


class BenchNode:
    """``with BenchNode("local") as node``: booted, and down again without a trace."""

    def __init__(self, engine: str, configuration: str = "") -> None:
        self.engine = engine
        self.directory = Path(tempfile.mkdtemp(prefix="wb-", dir="/tmp"))
        self.data = self.directory / "node"
        self._cli("init", str(self.data))
        with (self.data / "weftos.toml").open("a") as file:
            file.write(_CONFIGURATION + configuration)
        self.journal = Journal(self.data)
        self.client: Client
        self._callers = ProcessPoolExecutor(CALLERS, get_context("spawn"))

    def __enter__(self) -> BenchNode:
        self.up()
        return self

    def __exit__(self, *error: object) -> None:
        self.down()
        self._callers.shutdown()
        shutil.rmtree(self.directory)

    def up(self) -> None:
        self._cli("up", "--detach", "--engine", self.engine, "--data", str(self.data))
        self.client = Client(self.data)
        self._socket = Path(self.client.status()["runtime"]) / "control.sock"

    def down(self) -> None:
        self.client.close()
        self._cli("down", "--data", str(self.data))

    def _cli(self, *words: str) -> None:
        argv = [sys.executable, "-P", "-m", "weftos", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"weftos {' '.join(words)}: {done.stdout}{done.stderr}")

    def order(self, target: str, **order: Any) -> dict[str, Any]:
        """Have a stopwatch do something, and its answer."""
        return self._answer(self.client.send(target, json.dumps(order), wait_s=WAIT_S))

    def orders(self, targets: Iterable[str], **order: Any) -> list[dict[str, Any]]:
        """The same for many at once."""
        bodies = [{"target": name, "text": json.dumps(order), "wait_s": WAIT_S} for name in targets]
        return [self._answer(answer) for answer in self.post("/send", bodies)]

    @staticmethod
    def _answer(answer: Mapping[str, Any]) -> dict[str, Any]:
        if answer["status"] != "ok":
            raise RuntimeError(f"a stopwatch stopped: {answer['reply']}")
        measured: dict[str, Any] = json.loads(answer["reply"])
        if measured.get("failed"):
            raise RuntimeError(f"{measured['failed']} calls were not ok")
        return measured

    def post(self, path: str, bodies: list[dict[str, Any]], connections: int = 200) -> list[dict[str, Any]]:
        """Many requests to the control API, as many at once as there are connections.

        One process may have only so many; more of them ask through others.
        """
        if min(connections, len(bodies)) <= PER_CALLER:
            return post_all(self._socket, path, bodies, connections)
        shares = [bodies[at : at + PER_CALLER] for at in range(0, len(bodies), PER_CALLER)]
        asking = [self._callers.submit(post_all, self._socket, path, share, PER_CALLER) for share in shares]
        return [answer for asked in asking for answer in asked.result()]

    def spawn_all(self, names: list[str], **request: Any) -> None:
        """Stopwatches in shared cells, all at once."""
        self.post("/spawn", [{"name": name, "behaviour": "stopwatch", **request} for name in names], 16)

    def rows(self) -> list[ProcessRow]:
        return self.client.ps()

    def wait(self, what: str, true: Callable[[], bool], within_s: float = WAIT_S) -> None:
        """Wait for something of the node, looking now and then. Raises RuntimeError after ``within_s``."""
        until = time.monotonic() + within_s
        while not true():
            if time.monotonic() > until:
                raise RuntimeError(f"{what} did not come about within {within_s:g} s")
            threading.Event().wait(POLL_S)

    def wait_spare(self) -> None:
        """Wait until a spare cell is warm."""

        def spare() -> bool:
            used = {row["cell"] for row in self.rows() if row["cell"]}
            return bool(self.client.status()["cells"] > len(used))

        self.wait("a spare cell", spare)

    @property
    def loop_lag_p99_ms(self) -> float:
        return float(self.client.status()["loop_lag_p99_ms"])


def now_us() -> int:
    """The ledger's clock."""
    return time.time_ns() // 1000


def kill_now(os_pid: int) -> int:
    """SIGKILL; when, on the ledger's clock."""
    at = now_us()
    os.kill(os_pid, 9)
    return at
