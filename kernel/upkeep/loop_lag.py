"""How long the event loop keeps a timer waiting: the node's own measure of its aim of 5 ms (p99).

The 99th percentile says what is usual, and hides one stall of seconds among a thousand samples; so the longest wait is
kept beside it, of the last minute and since the start. What holds the loop for an interval or longer is always seen, a
shorter wait by chance.
"""

from __future__ import annotations

import asyncio
from collections import deque

INTERVAL_S = 0.2  # each sample wakes a node that has nothing else to do, and is most of what that takes
SAMPLES = 300  # those of a minute


class LoopLag:
    """Samples while started; forgets what is older than a minute."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._handle: asyncio.TimerHandle | None = None
        self._longest_s = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + INTERVAL_S
        self._handle = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._sample(now - self._due)
        self._due = now + INTERVAL_S
        self._handle = loop.call_at(self._due, self._tick)

    def _sample(self, late_s: float) -> None:
        self._samples.append(late_s)
        self._longest_s = max(self._longest_s, late_s)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def p99_ms(self) -> float:
        """The 99th percentile of the last minute, in milliseconds; 0 before the first sample."""
        if not self._samples:
            return 0.0
        ordered = sorted(self._samples)
        return round(1000 * ordered[int(len(ordered) * 0.99)], 3)

    def max_ms(self) -> float:
        """The longest of the last minute, in milliseconds; 0 before the first sample."""
        return round(1000 * max(self._samples, default=0.0), 3)

    def longest_ms(self) -> float:
        """The longest since the start, in milliseconds."""
        return round(1000 * self._longest_s, 3)
