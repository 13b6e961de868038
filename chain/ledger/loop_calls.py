"""What other threads have the loop do: in their order, and one wake-up of the loop for all that has gathered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class LoopCalls:
    """Nothing may be posted before :meth:`start`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._woken = False

    @property
    def started(self) -> bool:
        return self._loop is not None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have them done on ``loop``."""
        self._loop = loop

    def post(self, call: Callable[[Any], None], value: Any) -> None:
        """``call(value)`` on the loop. Any thread. Dropped when the loop is gone, and so all who might wait."""
        loop = self._loop
        assert loop is not None
        self._calls.append((call, value))
        if self._woken:  # the loop clears this before it looks: a wake-up too many does no harm
            return
        self._woken = True
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _deliver(self) -> None:
        self._woken = False
        for _ in range(len(self._calls)):
            call, value = self._calls.popleft()
            try:
                call(value)
            except Exception as error:  # the others are made all the same
                assert self._loop is not None
                self._loop.call_exception_handler(
                    {"message": "a call of the ledger failed", "exception": error}
                )
