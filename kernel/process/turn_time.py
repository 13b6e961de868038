"""What a turn has taken of the time that it may take.

It runs from the delivery on. It stands while the turn waits for what is nobody's work: a person's word, a place at a
provider, the moment at which it wants a question put. Each delivery has the whole of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class TurnTime:
    """``limit_s``: None for any length. ``now_s``: the clock, read from now on. ``over``: why nothing more is begun for
    the turn, empty while it may go on. ``timer``: of whoever looks after it.
    """

    __slots__ = ("_holds", "_now_s", "_since_s", "_used_s", "limit_s", "over", "timer")

    def __init__(self, limit_s: float | None = None, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self.limit_s = limit_s
        self.over = ""
        self.timer: asyncio.TimerHandle | None = None
        self._now_s = now_s
        self._since_s = now_s()
        self._used_s = 0.0
        self._holds = 0

    def hold(self) -> None:
        """It waits for something that does not count; as often as it is said, it has to be said that it does not."""
        if not self._holds:
            self._used_s = self.used_s()
        self._holds += 1

    def go_on(self) -> None:
        """One thing that it waited for has come."""
        if self._holds:
            self._holds -= 1
            self._since_s = self._now_s()

    def used_s(self) -> float:
        """What it has taken."""
        return self._used_s + (0.0 if self._holds else max(0.0, self._now_s() - self._since_s))

    def left_s(self) -> float:
        """What it may still take."""
        return inf if self.limit_s is None else max(0.0, self.limit_s - self.used_s())

    def cancel(self) -> None:
        """Nobody needs to look after it any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
