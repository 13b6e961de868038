"""How long the loop may wait for a disk: a moment, where the disk is quick, and not all the time. Pure."""

from __future__ import annotations

WAIT_S = 0.002
SHARE = 4
"""The loop waits for the disk for at most one part of its time in so many: those who come one upon the other are many,
and while a thread writes for them they gather.
"""
_WEIGHT = 1 / 8


class Pace:
    """Told how long each sync took. Times in seconds, of a clock that never goes back."""

    def __init__(self) -> None:
        self._mean_s = 0.0
        self._again_s = float("-inf")

    def took(self, seconds: float) -> None:
        self._mean_s += (seconds - self._mean_s) * _WEIGHT

    def waited(self, now_s: float, seconds: float) -> None:
        """The loop has waited so long, until now."""
        self._again_s = now_s + seconds * (SHARE - 1)

    def wait_s(self, now_s: float) -> float:
        """How long to wait for the next one; 0.0 for not at all: the loop has waited just now, or of late they took
        longer than that.
        """
        return WAIT_S if self._mean_s <= WAIT_S and now_s >= self._again_s else 0.0
