"""Threads for synchronous tools: what comes back, how many there are, and what a raising call costs."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from kernel.worker.threads import Threads
from tests.patience import HANG_S


def test_each_call_gets_its_own_answer_with_more_calls_than_threads() -> None:
    async def main() -> list[int]:
        threads: Threads[int] = Threads(4, "t")

        def square(n: int) -> int:
            return n * n

        return await asyncio.gather(*(threads.run(partial(square, n)) for n in range(200)))

    assert asyncio.run(main()) == [n * n for n in range(200)]


def test_no_more_calls_run_at_once_than_there_are_threads_and_as_many_do() -> None:
    gate = threading.Barrier(3)
    lock = threading.Lock()
    running = most = 0

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(HANG_S)  # opens only when three are here at once
        with lock:
            running -= 1

    async def main() -> None:
        threads: Threads[None] = Threads(3, "t")
        await asyncio.wait_for(asyncio.gather(*(threads.run(call) for _ in range(9))), HANG_S)

    asyncio.run(main())
    assert most == 3


def test_an_idle_thread_is_used_again() -> None:
    async def main() -> set[str]:
        threads: Threads[str] = Threads(8, "t")
        return {await threads.run(lambda: threading.current_thread().name) for _ in range(20)}

    assert asyncio.run(main()) == {"t-0"}


class Unstartable(threading.Thread):
    """What Python gives when the system has no thread left."""

    left = 0

    def start(self) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        type(self).left -= 1
        super().start()


def test_a_call_for_which_no_thread_can_be_started_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(threading, "Thread", Unstartable)

    async def main() -> None:
        threads: Threads[None] = Threads(4, "t")
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.run(lambda: made.append("refused"))
        monkeypatch.setattr(Unstartable, "left", 1)
        both = [threads.run(partial(made.append, name)) for name in ("in its thread", "in the same")]
        await asyncio.wait_for(asyncio.gather(*both), HANG_S)

    asyncio.run(main())
    assert made == ["in its thread", "in the same"]


def test_what_a_call_raises_is_its_callers_and_the_thread_goes_on() -> None:
    def fail() -> str:
        raise SystemExit("enough")

    async def main() -> str:
        threads: Threads[str] = Threads(1, "t")
        with pytest.raises(SystemExit, match="enough"):
            await threads.run(fail)
        return await asyncio.wait_for(threads.run(lambda: "still here"), HANG_S)

    assert asyncio.run(main()) == "still here"


def test_a_caller_that_has_gone_does_not_keep_others_from_their_answers() -> None:
    async def main() -> int:
        threads: Threads[int] = Threads(1, "t")
        gone = threads.run(lambda: 1)
        stays = threads.run(lambda: 2)
        gone.cancel()
        return await asyncio.wait_for(stays, HANG_S)

    assert asyncio.run(main()) == 2
