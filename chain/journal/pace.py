"""How long the loop may wait for a disk: a moment, for a lone caller, where the disk is quick. Pure."""

from __future__ import annotations

WAIT_S = 0.002
SHARE = 4
"""The loop waits for the disk for at most one part of its time in so many."""
LONE_GROUPS = 32
"""After so many groups in a row that one caller alone waited for, there is one caller. While a thread writes for many
they gather; while the loop waits they do not.
"""
_WEIGHT = 1 / 8


class Pace:
    """Told how long each sync took. Times in seconds, of a clock that never goes back."""

    def __init__(self) -> None:
        self._mean_s = 0.0
        self._again_s = float("-inf")
        self._lone = LONE_GROUPS

    def comes(self, *, alone: bool) -> None:
        """A group is about to be written, and whether one caller alone waits for it, and nothing is before it."""
        self._lone = self._lone + 1 if alone else 0

    def took(self, seconds: float) -> None:
        self._mean_s += (seconds - self._mean_s) * _WEIGHT

    def waited(self, now_s: float, seconds: float) -> None:
        """The loop has waited so long, until now."""
        self._again_s = now_s + seconds * (SHARE - 1)

    def wait_s(self, now_s: float) -> float:
        """How long to wait for the next one; 0.0 for not at all: there are many callers, the loop has waited just now,
        or of late they took longer than that.
        """
        quick = self._mean_s <= WAIT_S and now_s >= self._again_s
        return WAIT_S if quick and self._lone > LONE_GROUPS else 0.0

    @property
    def lone(self) -> bool:
        """Whether there has been one caller alone of late, so that nobody gathers."""
        return self._lone >= LONE_GROUPS
