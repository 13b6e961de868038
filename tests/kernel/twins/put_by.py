"""Workers of a test that only know how to ``run`` a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kernel.worker.workers import Came

_KEPT: set[asyncio.Task[None]] = set()


def put_by(run: Callable[[], Awaitable[Any]], ended: Callable[[Came], None]) -> Callable[[], None]:
    """As :meth:`kernel.worker.workers.Workers.put`, by a task; what is taken back before its first step never runs."""

    async def work() -> None:
        try:
            came: Came = await run()
        except Exception as error:  # whatever the test has them raise
            came = error
        ended(came)

    task = asyncio.get_running_loop().create_task(work())
    _KEPT.add(task)
    task.add_done_callback(_KEPT.discard)

    def take_back() -> None:
        task.cancel()

    return take_back
