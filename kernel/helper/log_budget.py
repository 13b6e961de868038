"""How much a cell may write into the log of its node: what it prints there must not drive out what others say."""

from __future__ import annotations

from collections.abc import Callable

from kernel.helper.output_log import Allowance

RATE_BYTES = 2**12
BURST_BYTES = 2**18
OVERHEAD_BYTES = 256  # a line's time, address and names


class LogBudget:
    """One cell's. ``now`` in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._allowance = Allowance(now(), RATE_BYTES, BURST_BYTES)
        self._dropped = 0

    def admit(self, text: str) -> str | None:
        """What is logged of ``text``: itself, after a word about lines that were dropped before; None: dropped too."""
        size = len(text.encode(errors="replace")) + OVERHEAD_BYTES
        if self._allowance.left(self._now()) < size:
            self._dropped += 1
            return None
        self._allowance.take(size)
        dropped, self._dropped = self._dropped, 0
        return f"[{dropped} lines of this cell were too many and are not kept]\n{text}" if dropped else text
