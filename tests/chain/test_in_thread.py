"""Calls in a thread, and what becomes of them when there is none."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chain.in_thread import in_thread


def test_what_a_call_returns_or_raises_is_its_callers() -> None:
    async def run() -> None:
        assert await in_thread(lambda number, more: number + more, 3, more=4) == 7
        assert await in_thread(threading.get_ident) != threading.get_ident()
        with pytest.raises(ValueError, match="no such thing"):
            await in_thread(_fails)

    asyncio.run(run())


def _fails() -> None:
    raise ValueError("no such thing")


def test_a_call_for_which_there_was_no_thread_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor keeps it, and the first thread that it gets would make it."""

    async def run() -> None:
        made: list[str] = []
        start = threading.Thread.start

        def no_thread(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await in_thread(made.append, "refused")
        monkeypatch.setattr(threading.Thread, "start", start)
        await in_thread(made.append, "another")
        assert made == ["another"]

    asyncio.run(run())


def test_a_call_that_a_thread_has_taken_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was busy a moment ago has it, though no other could be started for it."""

    async def run() -> None:
        submit = ThreadPoolExecutor.submit

        def taken(self: ThreadPoolExecutor, call: object, /, *values: object) -> None:
            submit(self, call).result()  # type: ignore[arg-type]  # a call without arguments
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(ThreadPoolExecutor, "submit", taken)
        made: list[str] = []
        await in_thread(made.append, "once")
        assert made == ["once"]

    asyncio.run(run())


def test_a_caller_that_is_cancelled_goes_on_when_the_call_has_ended() -> None:
    """What its lock guards is free then: a snapshot got its place while the next one was written."""

    async def run() -> None:
        begun, end, order = threading.Event(), threading.Event(), list[str]()

        def call() -> None:
            begun.set()
            end.wait()
            order.append("the call")

        async def caller() -> None:
            try:
                await in_thread(call)
            finally:
                order.append("its caller")

        task = asyncio.create_task(caller())
        while not begun.is_set():
            await asyncio.sleep(0)
        for _ in range(10):
            task.cancel()
            await asyncio.sleep(0)
        end.set()
        await asyncio.wait([task])
        assert task.cancelled() and order == ["the call", "its caller"]

    asyncio.run(run())


def test_a_call_that_has_not_begun_when_its_caller_is_cancelled_is_never_made() -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        end, made = threading.Event(), list[str]()
        busy = asyncio.create_task(in_thread(end.wait))
        await asyncio.sleep(0)
        waits = asyncio.create_task(in_thread(made.append, "late"))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait([waits])
        end.set()
        await busy
        await in_thread(made.append, "another")
        assert waits.cancelled() and made == ["another"]

    asyncio.run(run())
