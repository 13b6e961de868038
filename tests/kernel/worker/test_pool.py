"""One pool of worker processes: what becomes of its queue when something goes wrong in the moment of a hand-over."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernel.worker.pool import (
    Came,
    WorkerCall,
    WorkerLimits,
    WorkerLost,
    WorkerPool,
    WorkerResult,
    WorkerUnavailable,
)
from kernel.worker.requests import Configure
from kernel.worker.workers import worker_command
from tests.kernel.worker.conftest import Mint
from tests.patience import HANG_S

QUICK = WorkerLimits(calls_at_once=32, backoff_base_s=0.01)
ONE = WorkerLimits(calls_at_once=1)
SETUP = Configure((Mint().keys.ed25519.text,), True, (), ())


def a_pool(
    home: Path,
    on_process: Callable[[int | None], None] = lambda os_pid: None,
    limits: WorkerLimits = QUICK,
    **changes: Any,
) -> WorkerPool:
    """``changes``: to how its processes are started."""
    command = replace(worker_command("worker-x", home, home, limits), **changes)
    return WorkerPool(lambda: command, 1, SETUP, limits, on_process)


def a_call(home: Path) -> WorkerCall:
    """One with effects and without a receipt: a worker that hears of it refuses it."""
    return WorkerCall("file_write", "{}", b"", b"", b"", str(home), HANG_S)


def kill(os_pid: int) -> None:
    """And wait until it is gone."""
    pidfd = os.pidfd_open(os_pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    select.select([pidfd], [], [])
    os.close(pidfd)


def test_a_worker_that_dies_as_the_queue_is_handed_over_to_it_takes_one_call_along(tmp_path: Path) -> None:
    """That which found it dead. The others were not begun, and go to the next process."""
    processes: list[int] = []
    begun: Counter[int] = Counter()
    came: list[Came] = []

    async def main() -> None:
        all_came = asyncio.Event()

        def on_process(os_pid: int | None) -> None:
            if os_pid is not None:
                processes.append(os_pid)
                if len(processes) == 1:
                    kill(os_pid)

        def begin(number: int) -> bool:
            begun[number] += 1
            return True

        def ended(one: Came) -> None:
            came.append(one)
            if len(came) == 200:
                all_came.set()

        pool = a_pool(tmp_path, on_process)
        try:
            for number in range(200):
                pool.put(a_call(tmp_path), partial(begin, number), ended)
            await asyncio.wait_for(all_came.wait(), HANG_S)
        finally:
            await pool.close()

    asyncio.run(main())
    assert (len(processes), set(begun.values())) == (2, {1})
    assert Counter(type(one) is WorkerLost for one in came) == {True: 1, False: 199}


def test_who_fails_to_hear_what_came_of_a_call_holds_up_no_other(tmp_path: Path) -> None:
    """One call at a time is with the process: the next goes there when this one has ended."""
    faults: list[object] = []

    def fails(came: Came) -> None:
        raise ValueError("it was not taken")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: faults.append(context["exception"]))
        pool, heard = a_pool(tmp_path, limits=ONE), loop.create_future()
        try:
            pool.put(a_call(tmp_path), lambda: True, fails)
            pool.put(a_call(tmp_path), lambda: True, heard.set_result)
            assert (await asyncio.wait_for(heard, HANG_S)).status == "refused"
        finally:
            await pool.close()

    asyncio.run(main())
    assert [str(fault) for fault in faults] == ["it was not taken"]


def test_whatever_a_start_fails_by_who_waits_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        pool = a_pool(tmp_path, argv=("no\0program",))
        try:
            with pytest.raises(WorkerUnavailable, match=r"^worker-x: ValueError: embedded null byte; see "):
                await asyncio.wait_for(pool.run(a_call(tmp_path), lambda: True), HANG_S)
        finally:
            await pool.close()

    asyncio.run(main())


@pytest.mark.parametrize("hard", [True, False])
def test_a_worker_that_is_ended_makes_way_for_another_with_the_next_call(tmp_path: Path, hard: bool) -> None:
    async def main() -> None:
        processes: list[int | None] = []
        pool = a_pool(tmp_path, processes.append)
        try:
            pool.end(hard, "nobody is there yet")
            for _ in range(2):
                result = await asyncio.wait_for(pool.run(a_call(tmp_path), lambda: True), HANG_S)
                assert result.status == "refused"
                pool.end(hard, "ended by a test")
            first, gone, second, last = processes[:4]
            assert (gone, last) == (None, None) and first != second
        finally:
            await pool.close()

    asyncio.run(main())


def test_a_call_under_way_is_lost_with_a_worker_that_is_killed_and_ends_with_one_that_is_not(
    tmp_path: Path,
) -> None:
    async def main(hard: bool) -> Came:
        pool, came = a_pool(tmp_path), asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(pool.run(a_call(tmp_path), lambda: True), HANG_S)
            assert pool._current is not None
            if hard:  # it may have answered before it is dead, unless it stands still
                os.kill(pool._current.helper.os_pid, signal.SIGSTOP)
            pool.put(a_call(tmp_path), lambda: True, came.set_result)
            pool.end(hard, "ended by a test")  # it was handed over in that very moment
            return await asyncio.wait_for(came, HANG_S)
        finally:
            await pool.close()

    killed = asyncio.run(main(True))
    assert isinstance(killed, WorkerLost) and "ended by a test" in str(killed)
    kept = asyncio.run(main(False))
    assert isinstance(kept, WorkerResult) and kept.status == "refused"
