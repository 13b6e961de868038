"""The clock of the process tree: what time it is, and what is due later. A test has one that it winds itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """What is due later."""

    def cancel(self) -> None:
        """It is not to happen any more."""


class Clock(Protocol):
    """Seconds of a clock that never goes back, and calls in the future of it."""

    def now_s(self) -> float: ...

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer: ...


class LoopClock:
    """The clock of the running event loop."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, call)
