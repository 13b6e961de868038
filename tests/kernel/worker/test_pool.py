"""One pool of worker processes: what becomes of its queue when something goes wrong in the moment of a hand-over."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kernel.worker.pool import Came, WorkerCall, WorkerLimits, WorkerLost, WorkerPool
from kernel.worker.requests import Configure
from kernel.worker.workers import worker_command
from tests.kernel.worker.conftest import Mint
from tests.patience import HANG_S

QUICK = WorkerLimits(calls_at_once=32, backoff_base_s=0.01)


def a_pool(home: Path, on_process: Callable[[int | None], None]) -> WorkerPool:
    setup = Configure((Mint().keys.ed25519.text,), True, (), ())
    return WorkerPool(partial(worker_command, "worker-x", home, home, QUICK), 1, setup, QUICK, on_process)


def a_call(home: Path) -> WorkerCall:
    """One with effects and without a receipt: a worker that hears of it refuses it."""
    return WorkerCall("file_write", "{}", b"", b"", b"", str(home), 20.0)


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
