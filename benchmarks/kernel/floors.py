"""What actors, queues and sockets take without a kernel: the floors of this folder, measured in the same run."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pykka

from benchmarks.floors import REPOSITORY, Floor, SyncedFile, time_each

MESSAGE_BYTES = 700  # as an entry and its body have, of a short message
LAZY_S = 0.04  # as old as what nobody waits for may be before it goes to the disk
_ECHO = "import sys; from benchmarks.kernel.floors import send_back; send_back(int(sys.argv[1]))"
_RELAY = (
    "import sys; from benchmarks.kernel.floors import relay; relay(*map(int, sys.argv[1:3]), *sys.argv[3:])"
)


# -- an asyncio queue ---------------------------------------------------------------------------------------------


def queue_floor(*, there_and_back: bool, count: int = 5_000) -> Floor:
    """Two tasks of one loop, a queue each."""

    async def main() -> float:
        there: asyncio.Queue[int] = asyncio.Queue()
        back: asyncio.Queue[int] = asyncio.Queue()

        async def other() -> None:
            while True:
                await back.put(await there.get())

        task = asyncio.create_task(other())
        began = time.perf_counter()
        for number in range(count):
            await there.put(number)
            await back.get()
        took_s = time.perf_counter() - began
        task.cancel()
        return took_s / count

    each_s = asyncio.run(main())
    return (
        Floor("asyncio queue, there and back", each_s)
        if there_and_back
        else Floor("asyncio queue", each_s / 2)
    )


def tasks_floor(count: int) -> Floor:
    """As many tasks of one loop, each at a queue of its own, made and cancelled."""

    async def agent(queue: asyncio.Queue[int]) -> None:
        await queue.get()

    async def main() -> float:
        began = time.perf_counter()
        tasks = [asyncio.create_task(agent(asyncio.Queue())) for _ in range(count)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return time.perf_counter() - began

    return Floor(f"{count} asyncio tasks", asyncio.run(main()))


# -- a relay over sockets, as durable as what is sent, or as what is asked -------------------------------------------


def send_back(fd: int) -> None:
    """The receiver: it sends each message back."""
    with socket.socket(fileno=fd) as peer:
        while data := peer.recv(MESSAGE_BYTES, socket.MSG_WAITALL):
            peer.sendall(data)


def relay(asker_fd: int, receiver_fd: int, directory: str, durability: str) -> None:
    """Between the two. ``waits``: a message is on the disk before the receiver has it, its answer before who asked has
    that. ``lazy``: it is written before, and on the disk within some 40 ms.
    """
    file = SyncedFile(Path(directory))
    synced_s = time.monotonic()

    def record(data: bytes) -> None:
        nonlocal synced_s
        if durability == "waits" or time.monotonic() - synced_s > LAZY_S:
            file.append_synced(data)
            synced_s = time.monotonic()
        else:
            file.append(data)

    with socket.socket(fileno=asker_fd) as asker, socket.socket(fileno=receiver_fd) as receiver:
        while data := asker.recv(MESSAGE_BYTES, socket.MSG_WAITALL):
            record(data)
            receiver.sendall(data)
            answer = receiver.recv(MESSAGE_BYTES, socket.MSG_WAITALL)
            record(answer)
            asker.sendall(answer)
    file.close()


@contextmanager
def _relayed(durability: str) -> Iterator[socket.socket]:
    """The asker's end of a relay and a receiver, which are two processes."""
    ours, theirs = socket.socketpair()
    relays, receivers = socket.socketpair()
    with tempfile.TemporaryDirectory(prefix="wb-relay-") as directory:
        receiver = _process(_ECHO, [receivers])
        between = _process(_RELAY, [theirs, relays], directory, durability)
        try:
            with ours:
                yield ours
        finally:
            between.wait()
            receiver.wait()


def _process(program: str, ends: list[socket.socket], *words: str) -> subprocess.Popen[bytes]:
    fds = [end.fileno() for end in ends]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, fds), *words], pass_fds=fds, cwd=REPOSITORY
    )
    for end in ends:
        end.close()
    return process


def relay_floor(count: int = 500, *, waits: bool = True) -> Floor:
    """One message there and its answer back, both on the disk before they go on, or written and no more."""
    data = os.urandom(MESSAGE_BYTES)
    with _relayed("waits" if waits else "lazy") as peer:

        def ask() -> None:
            peer.sendall(data)
            peer.recv(MESSAGE_BYTES, socket.MSG_WAITALL)

        time_each(ask, 20)
        how = "on the disk" if waits else "written, on the disk within 40 ms"
        return Floor(f"socket relay, both ways {how}", median(time_each(ask, count)))


# -- pykka, whose actors are threads ---------------------------------------------------------------------------------


class _Actor(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()

    def on_receive(self, message: Any) -> Any:
        return message

    def on_stop(self) -> None:
        self.stopped.set()


def pykka_ask_floor(count: int = 2_000) -> Floor:
    """A message and its answer."""
    actor = _Actor.start()
    took = time_each(lambda: actor.ask(b"x"), count)
    actor.stop()
    return Floor("pykka ask", median(took))


def pykka_tell_floor(count: int = 2_000) -> Floor:
    """A message that nobody waits for, by the time that as many take until the last is handled."""
    actor = _Actor.start()
    began = time.perf_counter()
    for _ in range(count):
        actor.tell(b"x")
    actor.ask(b"last")
    took_s = time.perf_counter() - began
    actor.stop()
    return Floor("pykka tell", took_s / count)


def pykka_start_floor(count: int = 200) -> Floor:
    """The start of an actor, until it has answered."""
    actors: list[Any] = []

    def start() -> None:
        actor = _Actor.start()
        actor.ask(b"x")
        actors.append(actor)

    took = time_each(start, count)
    for actor in actors:
        actor.stop()
    return Floor("pykka start", median(took))


def pykka_stop_floor(count: int = 200) -> Floor:
    """The stop of an actor, until whoever waits for its end knows."""
    actors = [_Actor.start() for _ in range(count)]

    def stop(stops: Callable[[], Any]) -> None:
        stops()

    took = [time_each(lambda actor=actor: stop(actor.stop), 1)[0] for actor in actors]  # type: ignore[misc]
    return Floor("pykka stop", median(took))
