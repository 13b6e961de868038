"""Whether the cells are there: each is pinged and measured, and those on other machines hold a lease that is renewed.

What is found is judged by :mod:`kernel.cells.health.pulse`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol
from weakref import WeakKeyDictionary

from kernel.cells.cell_table import CellLimits
from kernel.cells.health.pulse import (
    Blame,
    Seen,
    counted_s,
    crowded,
    filled_by,
    look_s,
    stuck,
    swollen,
)
from kernel.cells.started_cell import StartedCell
from kernel.model.states import CRASH, TIMEOUT


class Lose(Protocol):
    def __call__(
        self, cell: StartedCell, why: str, *, blame: Blame = Blame.RUNNING, reason: str = CRASH
    ) -> None:
        """The cell is to be killed; who is to blame, if anybody, exits for that reason."""


class CellWatch:
    """``cells()`` are those there are now. ``memory_bytes(cell)``: what it has of its own, 0 when unknown.
    ``meter(cell)`` has what it has used read.
    """

    def __init__(
        self,
        cells: Callable[[], Iterable[StartedCell]],
        limits: CellLimits,
        lose: Lose,
        memory_bytes: Callable[[StartedCell], int],
        meter: Callable[[StartedCell], None],
    ) -> None:
        self._cells = cells
        self._limits = limits
        self._lose = lose
        self._memory_bytes = memory_bytes
        self._measured: WeakKeyDictionary[StartedCell, int] = WeakKeyDictionary()
        self._meter = meter
        self._looked_s = 0.0
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def start(self, remote: bool) -> None:
        """``remote``: cells are on other machines."""
        self._looked_s = asyncio.get_running_loop().time()
        self._again(look_s(self._limits), self._look)
        if remote:
            self._again(self._limits.beat_s, self._renew)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _again(self, delay_s: float, call: Callable[[], None]) -> None:
        self._timers[call] = asyncio.get_running_loop().call_later(delay_s, call)

    def _look(self) -> None:
        """Look at each cell; one that is stuck, or has too much memory, is killed."""
        self._again(look_s(self._limits), self._look)
        now_s = asyncio.get_running_loop().time()
        passed_s = counted_s(self._limits, now_s - self._looked_s)
        self._looked_s = now_s
        for cell in list(self._cells()):
            if cell.connection is not None:
                self._meter(cell)
                self._judge(cell, passed_s)

    def _judge(self, cell: StartedCell, passed_s: float) -> None:
        running = cell.running()
        cell.passed(passed_s, running)
        memory_bytes = self._memory_bytes(cell) if self._limits.memory_bytes else 0
        grown_bytes = memory_bytes - self._measured.get(cell, 0)
        self._measured[cell] = memory_bytes
        seen = Seen(cell.silent_s, cell.held_s, cell.port.is_starting(running), memory_bytes, grown_bytes)
        if why := swollen(self._limits, seen):
            self._lose(cell, why, blame=filled_by(self._limits, seen))
        elif why := stuck(self._limits, seen):
            self._lose(cell, why, reason=TIMEOUT)
        elif why := crowded(self._limits, seen):
            self._lose(cell, why, blame=Blame.NOBODY)
        elif cell.silent_s is None:
            cell.ping()

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
