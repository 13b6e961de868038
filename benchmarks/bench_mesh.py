"""The links between nodes, beside bare ZeroMQ and ZeroMQ with CURVE: round trip, messages a second, handshake.

Each with its other end in a process of its own, on this machine.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import pytest
import zmq

from benchmarks.conftest import Report
from benchmarks.floors import REPOSITORY, Floor, time_each
from benchmarks.mesh_peer import CLIENT_KEYS, SERVER_KEYS, MeshEnd, identity
from kernel.upkeep.loop_lag import LoopLag
from mesh.errors import LinkFull
from mesh.links.transport import Dial

ROUND_TRIPS = 3000
UNMEASURED = 200
HANDSHAKES = 50
RUNS = 5
# Size of a message in bytes, and how many of it make a run.
RATES = ((200, 20_000), (4_096, 10_000), (65_000, 1_500), (2**20, 100))


@contextmanager
def peer(kind: str) -> Iterator[str]:
    """Another process; its address."""
    argv = [sys.executable, "-P", "-m", "benchmarks.mesh_peer", kind]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def dealer(kind: str, address: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    if kind == "curve":
        socket.curve_publickey, socket.curve_secretkey = CLIENT_KEYS
        socket.curve_serverkey = SERVER_KEYS[0]
    socket.connect(address)
    return socket


NAMES = {"bare": "bare ZeroMQ", "curve": "ZeroMQ with CURVE"}


def round_trip_floor(kind: str, message: bytes) -> Floor:
    """A DEALER and a ROUTER, both with blocking calls."""
    with peer(kind) as address:
        socket = dealer(kind, address)

        def once() -> None:
            socket.send(message)
            socket.recv()

        time_each(once, UNMEASURED)
        took = time_each(once, ROUND_TRIPS)
        socket.close()
    return Floor(NAMES[kind], median(took))


def rate_floor(kind: str, size: int, count: int) -> Floor:
    """The share of one message when ``count`` are sent in a row and counted at the other end."""
    message, took = b"c" * size, []
    with peer(kind) as address:
        socket = dealer(kind, address)
        for _ in range(RUNS):
            started = time.perf_counter()
            for _ in range(count):
                socket.send(message)
            socket.send(b"?")
            socket.recv()
            took.append((time.perf_counter() - started) / count)
        socket.close()
    return Floor(NAMES[kind], median(took))


def handshake_floor(kind: str) -> Floor:
    """From ``connect`` to the first answer."""
    with peer(kind) as address:

        def once() -> None:
            socket = dealer(kind, address)
            socket.send(b"e")
            socket.recv()
            socket.close()

        took = time_each(once, HANDSHAKES)
    return Floor(NAMES[kind], median(took))


async def connected(address: str) -> MeshEnd:
    end = MeshEnd(1)
    await end.links.open(end, None)
    end.links.dial(Dial(address, identity(2).origin))
    await end.up.wait()
    return end


async def round_trips(address: str, message: bytes) -> tuple[list[float], float]:
    end = await connected(address)
    origin, loop, lag = identity(2).origin, asyncio.get_running_loop(), LoopLag()
    took: list[float] = []
    for number in range(ROUND_TRIPS + UNMEASURED):
        if number == UNMEASURED:
            lag.start()
        answer: asyncio.Future[bytes] = loop.create_future()
        end.take = lambda origin, data, answer=answer: answer.set_result(data)  # type: ignore[misc]
        started = time.perf_counter_ns()
        end.links.send(origin, message)
        await answer
        took.append((time.perf_counter_ns() - started) / 1e9)
    lag.stop()
    await end.links.close()
    return took[UNMEASURED:], lag.p99_ms()


async def rate(address: str, size: int, count: int) -> tuple[list[float], float]:
    end = await connected(address)
    origin, loop, lag = identity(2).origin, asyncio.get_running_loop(), LoopLag()
    message, took = b"c" * size, []
    lag.start()
    for _ in range(RUNS):
        answer: asyncio.Future[bytes] = loop.create_future()
        end.take = lambda origin, data, answer=answer: answer.set_result(data)  # type: ignore[misc]
        started = time.perf_counter()
        for number in range(count):
            await _send(end, origin, message)
            if number % 100 == 99:
                await asyncio.sleep(0)
        await _send(end, origin, b"?")
        await answer
        took.append((time.perf_counter() - started) / count)
    lag.stop()
    await end.links.close()
    return took, lag.p99_ms()


async def _send(end: MeshEnd, origin: str, message: bytes) -> None:
    while True:
        try:
            end.links.send(origin, message)
            return
        except LinkFull:
            await asyncio.sleep(0)


async def handshakes(address: str) -> list[float]:
    """From the call to the first answer over the new link."""
    took = []
    for _ in range(HANDSHAKES):
        end = MeshEnd(1)
        await end.links.open(end, None)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        end.take = lambda origin, data, answer=answer: answer.set_result(data)  # type: ignore[misc]
        started = time.perf_counter_ns()
        end.links.dial(Dial(address, identity(2).origin))
        await end.up.wait()
        end.links.send(identity(2).origin, b"e")
        await answer
        took.append((time.perf_counter_ns() - started) / 1e9)
        await end.links.close()
    return took


@pytest.mark.parametrize("size", [200, 65_000])
def test_round_trip(report: Report, size: int) -> None:
    message = b"e" * size
    with peer("mesh") as address:
        took, lag_ms = asyncio.run(round_trips(address, message))
    floors = [round_trip_floor(kind, message) for kind in NAMES]
    report(f"mesh round trip, {size} bytes", took, floors, aim="under 3 x", lag_ms=lag_ms)


@pytest.mark.parametrize(("size", "count"), RATES)
def test_rate(report: Report, size: int, count: int) -> None:
    with peer("mesh") as address:
        took, lag_ms = asyncio.run(rate(address, size, count))
    floors = [rate_floor(kind, size, count) for kind in NAMES]
    report(f"mesh messages of {size} bytes", took, floors, lag_ms=lag_ms, unit="rate")


def test_handshake(report: Report) -> None:
    with peer("mesh") as address:
        took = asyncio.run(handshakes(address))
    report("mesh handshake, to the first answer", took, [handshake_floor(kind) for kind in NAMES])
