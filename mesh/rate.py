"""How often something may happen. Pure: the caller has the clock."""

from __future__ import annotations


class Bucket:
    """At most ``burst`` at once, and ``per_s`` in the long run (a token bucket)."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = burst
        self._at_s = float("-inf")

    def take(self, now_s: float, count: int = 1) -> bool:
        """Whether it may happen now, on a monotonic clock, ``count`` times; if so that counts."""
        if self._at_s > float("-inf"):
            self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < count:
            return False
        self._left -= count
        return True
