"""The node's clock: it shows the time of the machine, and never jumps.

Theory of operation. The machine's clock may be set, by a person, a time server or a virtual machine that wakes:
forward, and everything that has a deadline is suddenly late; back, and entries whose time may not fall would all bear
the same one until it has caught up. So the node counts for itself, by a clock that nobody sets and that goes on while
the machine sleeps (CLOCK_BOOTTIME), and only leans towards the machine's: by a tenth of the time that has passed, at
most. A small difference is gone at once; one of an hour in ten. A start takes the machine's time as it is, but never
one before the newest entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEAN = 10


def _boot_time_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock:
    """``wall_ns``: the machine's time, nanoseconds since 1970; ``steady_ns``: one that only goes on. One thread."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = _boot_time_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._seen_ns = steady_ns()
        self._now_ns = wall_ns()

    def now_us(self) -> int:
        """Microseconds since 1970, never falling."""
        self._go_on()
        return self._now_ns // 1000

    def ahead_us(self) -> int:
        """How far the machine's clock is ahead of this one."""
        self._go_on()
        return (self._wall_ns() - self._now_ns) // 1000

    def not_before(self, time_us: int) -> None:
        """Go on from ``time_us``, when it is later."""
        self._now_ns = max(self._now_ns, time_us * 1000)

    def _go_on(self) -> None:
        seen_ns = self._steady_ns()
        passed_ns = seen_ns - self._seen_ns
        self._seen_ns = seen_ns
        if passed_ns < 0:
            passed_ns = 0
        now_ns, leaning_ns, wall_ns = self._now_ns + passed_ns, passed_ns // LEAN, self._wall_ns()
        if wall_ns > now_ns + leaning_ns:
            self._now_ns = now_ns + leaning_ns
        else:
            self._now_ns = wall_ns if wall_ns > now_ns - leaning_ns else now_ns - leaning_ns
