"""Parts of a test that only know how to ``run`` a call, as parts that are left one and call back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kernel.helper.helper import Answered
from kernel.worker.pool import Placed
from kernel.worker.workers import Came

_KEPT: set[asyncio.Task[None]] = set()


def put_by(
    run: Callable[[], Awaitable[Any]],
    ended: Callable[[Came], None],
    stop: Callable[[str], None] = lambda why: None,
) -> Placed:
    """As :meth:`kernel.worker.workers.Workers.put`, by a task; what is taken back before its first step never runs, and
    how to stop is for ``stop`` to say.
    """
    take_back = answer_by(run, lambda value, error: ended(value if error is None else error))
    return Placed(take_back, stop)


def answer_by(run: Callable[[], Awaitable[Any]], answered: Answered) -> Callable[[], None]:
    """As :meth:`kernel.helper.helpers.LinkedHelper.call`, by a task."""

    async def work() -> None:
        told: Callable[[], None]
        try:
            told = partial(answered, await run(), None)
        except Exception as error:  # whatever the test has them raise
            told = partial(answered, None, error)
        told()

    task = asyncio.get_running_loop().create_task(work())
    _KEPT.add(task)
    task.add_done_callback(_KEPT.discard)

    def take_back() -> None:
        task.cancel()

    return take_back
