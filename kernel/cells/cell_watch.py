"""Whether the cells are there: each is pinged, and those on other machines hold a lease that is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kernel.cells.cell_table import CellLimits
from kernel.cells.started_cell import StartedCell


class CellWatch:
    """``cells()`` are those there are now; ``lose(cell, why)`` hears of one that is not heard any more."""

    def __init__(
        self,
        cells: Callable[[], Iterable[StartedCell]],
        limits: CellLimits,
        lose: Callable[[StartedCell, str], None],
    ) -> None:
        self._cells = cells
        self._limits = limits
        self._lose = lose
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def start(self, remote: bool) -> None:
        """``remote``: cells are on other machines."""
        self._again(self._limits.hang_s / 4, self._ping)
        if remote:
            self._again(self._limits.beat_s, self._renew)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _again(self, delay_s: float, call: Callable[[], None]) -> None:
        self._timers[call] = asyncio.get_running_loop().call_later(delay_s, call)

    def _ping(self) -> None:
        """Ping each cell; one that has not answered for ``hang_s`` is held by somebody and is killed."""
        self._again(self._limits.hang_s / 4, self._ping)
        now_s = asyncio.get_running_loop().time()
        for cell in list(self._cells()):
            if cell.connection is None:
                continue
            if cell.pinged_at is None:
                cell.ping(now_s)
            elif now_s - cell.pinged_at > self._limits.hang_s:
                self._lose(cell, f"it did not answer for {self._limits.hang_s:g} s")

    def _renew(self) -> None:
        """Renew the lease of each cell that has been heard; one that has not has ended by now."""
        self._again(self._limits.beat_s, self._renew)
        now_s = asyncio.get_running_loop().time()
        for cell in list(self._cells()):
            if cell.lease is None:
                continue
            if cell.lease.is_over(now_s):
                self._lose(cell, f"nothing heard of it for {self._limits.lease_s:g} s")
            else:
                cell.send(["lease", cell.lease.heard])
