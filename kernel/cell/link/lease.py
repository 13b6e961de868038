"""The lease of a cell on another machine: values only, the clock is the caller's.

Every second the node sends ``lease n``, where n is the number of the newest beat it has heard; the cell answers each
with ``beat k running-pid``, k = 1, 2, 3 and so on. The node declares the cell lost when it has heard no beat for
``lease_s``. The cell's lease runs ``lease_s`` from when it *sent* the beat that the node says it has heard. It sent
that beat before the node heard it, so the cell ends no later than the node declares it lost, however long anything was
under way; both count seconds alike, and no clock need agree with another.
"""

from __future__ import annotations

from collections import deque

from kernel.cell.link.frames import FrameError

MAX_UNHEARD = 256


class CellLease:
    """The cell's end. Begins with the dialling."""

    def __init__(self, lease_s: float, now_s: float) -> None:
        self._lease_s = lease_s
        self._until_s = now_s + lease_s
        self._sent: deque[tuple[int, float]] = deque(maxlen=MAX_UNHEARD)
        self._number = 0

    def beat(self, now_s: float) -> int:
        """The number of the beat that is sent now."""
        self._number += 1
        self._sent.append((self._number, now_s))
        return self._number

    def renew(self, heard: int) -> None:
        """The node has heard that beat."""
        while self._sent and self._sent[0][0] <= heard:
            number, sent_s = self._sent.popleft()
            if number == heard:
                self._until_s = sent_s + self._lease_s

    def is_over(self, now_s: float) -> bool:
        return now_s >= self._until_s


class NodeLease:
    """The node's end. Begins when the cell is admitted."""

    def __init__(self, lease_s: float, now_s: float) -> None:
        self._lease_s = lease_s
        self._heard_s = now_s
        self.heard = 0

    def beat(self, number: int, now_s: float) -> None:
        """Raises :class:`FrameError` for a number that is not the next one."""
        if number != self.heard + 1:
            raise FrameError(f"beat {number} after beat {self.heard}")
        self.heard = number
        self._heard_s = now_s

    def is_over(self, now_s: float) -> bool:
        return now_s - self._heard_s >= self._lease_s
