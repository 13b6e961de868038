"""What the machine does anyway: the floors beside which the node is measured, in the same run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import msgpack

REPOSITORY = Path(__file__).resolve().parents[1]
_LENGTH_BYTES = 4
_ECHO = "import sys; from benchmarks.floors import echo_until_closed; echo_until_closed(int(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Floor:
    """A floor's name and its median, in seconds for one of what is measured beside it."""

    name: str
    median_s: float


def time_each(call: Callable[[], object], count: int) -> list[float]:
    """Durations of ``count`` calls, in seconds."""
    took = []
    for _ in range(count):
        started = time.perf_counter_ns()
        call()
        took.append((time.perf_counter_ns() - started) / 1e9)
    return took


class SyncedFile:
    """A file that is appended to by ``pwrite``, in a directory of the file system that is measured."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "floor"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._offset = 0

    def append(self, data: bytes) -> None:
        """Write without a sync."""
        self._offset += os.pwrite(self._fd, data, self._offset)

    def append_synced(self, data: bytes) -> None:
        """Write and wait for the disk."""
        self.append(data)
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)
        self._path.unlink()


def append_floor(directory: Path, size: int, *, synced: bool, count: int) -> Floor:
    """``pwrite`` of ``size`` random bytes at the end of a file, with or without ``fdatasync``."""
    file, data = SyncedFile(directory), os.urandom(size)
    took = time_each(lambda: file.append_synced(data) if synced else file.append(data), count)
    file.close()
    name = f"pwrite{'+fdatasync' if synced else ''} of {size} bytes"
    return Floor(name, median(took))


def duckdb_floor(directory: Path, count: int = 200) -> Floor:
    """One row in a transaction of its own, in DuckDB as it comes."""
    database = duckdb.connect(str(directory / "floor.duckdb"))
    database.execute("CREATE TABLE t (seq BIGINT, body BLOB)")
    data = os.urandom(400)
    took = time_each(lambda: database.execute("INSERT INTO t VALUES (1, ?)", [data]).fetchall(), count)
    database.close()
    return Floor("a bare DuckDB commit of one row", median(took))


def by_hand_floor(directory: Path, size: int, count: int = 300) -> Floor:
    """A tool call without a node: record it, call the function, record what came of it, each record on the disk."""
    file, data = SyncedFile(directory), os.urandom(size)

    def call() -> None:
        file.append_synced(data)
        str(data[0])
        file.append_synced(data)

    took = time_each(call, count)
    file.close()
    return Floor(f"by hand: call, 2 x pwrite+fdatasync of {size} bytes", median(took))


def _send(peer: socket.socket, value: object) -> None:
    payload = msgpack.packb(value)
    peer.sendall(len(payload).to_bytes(_LENGTH_BYTES, "big") + payload)


def _receive(peer: socket.socket) -> Any:
    head = peer.recv(_LENGTH_BYTES, socket.MSG_WAITALL)
    if not head:
        return None
    return msgpack.unpackb(peer.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))


def echo_until_closed(fd: int) -> None:
    """The other end of :class:`Echo`."""
    with socket.socket(fileno=fd) as peer:
        while (value := _receive(peer)) is not None:
            _send(peer, value)


class Echo:
    """A process that sends every msgpack frame back, at the other end of a Unix stream."""

    VALUE = ("call", 17, "t123", 4, 0, "tool", {"name": "look", "arguments": '{"text":"x"}', "id": ""})

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        argv = [sys.executable, "-c", _ECHO, str(theirs.fileno())]
        self._process = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), cwd=REPOSITORY)
        theirs.close()
        for _ in range(50):
            self._round_trip()

    def _round_trip(self) -> None:
        _send(self._ours, self.VALUE)
        _receive(self._ours)

    def floor(self, count: int = 2000) -> Floor:
        """One frame there and back."""
        return Floor("bare socket echo", median(time_each(self._round_trip, count)))

    def crowd_floor(self, callers: int, rounds: int = 100) -> Floor:
        """The share of one frame when ``callers`` of them go there and back at once."""

        def together() -> None:
            for _ in range(callers):
                _send(self._ours, self.VALUE)
            for _ in range(callers):
                _receive(self._ours)

        return Floor(f"bare socket echo, {callers} at once", median(time_each(together, rounds)) / callers)

    def end_of_file_floor(self) -> Floor:
        """Kill the echo process; until its end of file is seen."""
        started = time.perf_counter()
        self._process.kill()
        self._ours.recv(1)
        return Floor("bare process killed to end of file", time.perf_counter() - started)

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


def interpreter_floor(count: int = 5) -> Floor:
    """Start a Python that does nothing, and wait for its end."""
    took = time_each(lambda: subprocess.run([sys.executable, "-P", "-c", "pass"], check=True), count)
    return Floor("a bare Python process", median(took))


@dataclass(frozen=True, slots=True)
class BareRay:
    """Ray without us. ``init``: from the start of a process to the return of ``ray.init``; ``actor``: from
    the order to the first answer. ``call``: of one that runs, and its answer."""

    init: Floor
    actor: Floor
    call: Floor


def bare_ray() -> BareRay:
    """Measure Ray in a process of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="wb-ray-", dir="/tmp", ignore_cleanup_errors=True) as runtime:
        argv = [sys.executable, "-P", str(Path(__file__).with_name("bare_ray.py")), runtime]
        started = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            init_s, actors, calls = 0.0, [], []
            for line in process.stdout:
                match line.split(" ", 1):
                    case ["initialised\n"]:
                        init_s = time.perf_counter() - started
                    case ["actors", text]:
                        actors = json.loads(text)
                    case ["calls", text]:
                        calls = json.loads(text)
            if process.wait() or not calls:
                raise RuntimeError("Ray by itself cannot be measured: run benchmarks/bare_ray.py to see why")
    return BareRay(
        Floor("a bare ray.init", init_s),
        Floor("a bare Ray actor", median(actors)),
        Floor("a call of a bare Ray actor", median(calls)),
    )
