"""How much processor time each process has used that has a cell to itself. Pure."""

from __future__ import annotations


class CpuMeter:
    """Told what the whole cell of a process has used up to now, again and again. What was used before the first time,
    for the cell to start, is nobody's.
    """

    def __init__(self) -> None:
        self._seen_ms: dict[int, int] = {}

    def read(self, pid: int, used_ms: int) -> int:
        """What the process has used since it was read before."""
        before_ms = self._seen_ms.get(pid, used_ms)
        self._seen_ms[pid] = max(before_ms, used_ms)
        return self._seen_ms[pid] - before_ms

    def forget(self, pid: int) -> None:
        """It has left its cell."""
        self._seen_ms.pop(pid, None)
