"""How much processor time each process has used that has a cell to itself. Pure."""

from __future__ import annotations


class CpuMeter:
    """Told what the whole cell of a process has used up to now, again and again, first when the process is handed to
    it. What was used before, for the cell to start, is nobody's.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, int]] = {}

    def read(self, pid: int, address: str, used_ms: int) -> int:
        """What the process at ``address`` has used since it was read before."""
        _, before_ms = self._seen.get(pid, (address, used_ms))
        now_ms = max(before_ms, used_ms)
        self._seen[pid] = address, now_ms
        return now_ms - before_ms

    def address_of(self, pid: int) -> str:
        """Of a process that was read; empty for any other."""
        return self._seen.get(pid, ("", 0))[0]

    def forget(self, pid: int) -> None:
        """It has left its cell."""
        self._seen.pop(pid, None)
