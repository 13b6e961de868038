"""Threads for synchronous tools: like the standard executor, for a third of its cost.

A tool call is short, so the way into a thread and back is much of it. Here a call is one queue entry, its
answer one future of the loop, and answers that come together wake the loop once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Threads(Generic[T]):
    """At most ``count`` daemon threads, started as they are needed. For the loop's thread alone."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._waiting: SimpleQueue[tuple[asyncio.Future[T], Callable[[], T]]] = SimpleQueue()
        self._ended: deque[tuple[asyncio.Future[T], T | None, BaseException | None]] = deque()
        self._woken = False

    def run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Call in a thread, at once or when one is free. What it raises is the future's.

        Raises RuntimeError when no thread can be started and none is there: the call is not made then, nor later.
        """
        loop = asyncio.get_running_loop()
        if len(self._threads) < min(self._busy + 1, self._count):
            self._start_thread(loop)
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put((future, call))
        self._busy += 1
        return future

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, args=(loop,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            future, call = self._waiting.get()
            try:
                self._ended.append((future, call(), None))
            except BaseException as error:  # the caller's, whatever it is; this thread goes on
                self._ended.append((future, None, error))
            del future, call
            if not self._woken:  # a wake-up too many does no harm; the loop clears this before it looks
                self._woken = True
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._ended:
            future, value, error = self._ended.popleft()
            self._busy -= 1
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)  # type: ignore[arg-type]  # None only where T has it
