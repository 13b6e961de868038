"""An event loop whose clock stands still while there is anything to do, and then is at the next timer at once.

For what lies in memory: no silence comes of a machine that is slow, and no test waits for a silence. Threads of the
loop's executor may have a part in it; while one is at work, time passes as it really does.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from tests.patience import HANG_S

LOOK_S = 1e-6
"""A look at the clock takes so long: of two timers that are set for the same delay, the first is the first one due."""

Ready = list[tuple[selectors.SelectorKey, int]]


class _Leap(selectors.DefaultSelector):
    """Nothing is ready and no thread is at work: the wait is over at once."""

    loop: LeapingLoop

    def select(self, timeout: float | None = None) -> Ready:
        ready: Ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.loop.at_work:
            return self._wait(timeout)
        self.loop.now_s += timeout
        return []

    def _wait(self, timeout: float | None) -> Ready:
        began_s = time.monotonic()
        ready: Ready = super().select(timeout)
        waited_s = time.monotonic() - began_s
        self.loop.now_s += waited_s if timeout is None else min(waited_s, timeout)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """``at_work``: calls that the executor has been given and has not answered."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.at_work = 0
        leap = _Leap()
        leap.loop = self
        super().__init__(leap)

    def time(self) -> float:
        self.now_s += LOOK_S
        return self.now_s

    def run_in_executor(  # type: ignore[override]  # the stub has it generic
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        answer = super().run_in_executor(executor, func, *args)
        self.at_work += 1
        answer.add_done_callback(self._answered)
        return answer

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        self.at_work -= 1


def leap(seconds: float) -> None:
    """So much time has passed, on whatever loop is running: what is due within it is due now."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def run(main: Callable[[], Awaitable[None]], *, leaping: bool) -> None:
    """``main`` from its beginning to its end, with the clock of the machine or a leaping one."""

    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await main()

    with asyncio.Runner(loop_factory=LeapingLoop if leaping else None) as runner:
        runner.run(bounded())
