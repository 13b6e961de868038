"""Whether a disk is quick: how long the loop may wait for it. Pure."""

from __future__ import annotations

WAIT_S = 0.001
_WEIGHT = 1 / 8


class Pace:
    """Told how long each sync took, in seconds."""

    def __init__(self) -> None:
        self._mean_s = 0.0

    def took(self, seconds: float) -> None:
        self._mean_s += (seconds - self._mean_s) * _WEIGHT

    @property
    def wait_s(self) -> float:
        """How long to wait for the next one; 0.0 for not at all: of late they took longer than that."""
        return WAIT_S if self._mean_s <= WAIT_S else 0.0
