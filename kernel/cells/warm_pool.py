"""How many spare cells are kept warm: as many as were asked for at once lately. Decisions only, no clock and no I/O.

A dedicated start asks for a cell of its own, and so does the loss of a shared one, for those that were in it. One spare
serves one that comes now and then. What comes together, the children of a supervisor that are restarted as one or a
node's processes after a boot, finds as many as came together at most within ``wave_s``, about what a few cells
need to start, lately: in the last ``warm_s``. So it is the second such wave that finds its cells; and when none comes
for that long, the pool is as small as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

_MOST_KEPT = 256


def wanted(asked_s: Sequence[float], now_s: float, most: int, warm_s: float, wave_s: float) -> int:
    """Spare cells to keep when cells were asked for at these times, the oldest first; ``most`` at most, one at least.
    What was ``warm_s`` ago counts no more, and what is within ``wave_s`` came together.
    """
    lately = [at for at in asked_s if now_s - at < warm_s]
    together, first = 0, 0
    for last, at in enumerate(lately):
        while at - lately[first] > wave_s:
            first += 1
        together = max(together, last - first + 1)
    return max(1, min(most, together))


class WarmPool:
    """What was asked for, and when. ``most`` spare cells are kept at most, for ``warm_s``. What is asked for within
    ``wave_s`` comes together.
    """

    def __init__(self, most: int, warm_s: float, wave_s: float) -> None:
        self.most = most
        self._warm_s = warm_s
        self._wave_s = wave_s
        self._asked_s: deque[float] = deque(maxlen=_MOST_KEPT)

    def asked(self, now_s: float) -> None:
        """A cell was asked for."""
        self._asked_s.append(now_s)

    def wanted(self, now_s: float) -> int:
        """Spare cells to keep now."""
        return wanted(self._asked_s, now_s, self.most, self._warm_s, self._wave_s)

    def quiet_in_s(self, now_s: float) -> float | None:
        """When something that was asked for counts no more, after what was before has been forgotten; None when nothing
        counts.
        """
        while self._asked_s and now_s - self._asked_s[0] >= self._warm_s:
            self._asked_s.popleft()
        return self._asked_s[0] + self._warm_s - now_s if self._asked_s else None
