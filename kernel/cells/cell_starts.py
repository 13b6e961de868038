"""The cells that are to be started: in order, some at once, and none while there is no engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kernel.cells.cell_table import CellLimits
from kernel.cells.engines.engine import Engine, EngineError
from kernel.cells.started_cell import StartedCell


class CellStarts:
    """A start is under way until its cell has dialled in (:meth:`over`). ``expect(cell)`` has it let in when it comes;
    ``never(cell, why)`` hears that it will not.
    """

    def __init__(
        self,
        engine: Engine,
        limits: CellLimits,
        expect: Callable[[StartedCell], None],
        never: Callable[[StartedCell, str], None],
    ) -> None:
        self.engine_up = False
        self._engine = engine
        self._limits = limits
        self._expect = expect
        self._never = never
        self._queue: deque[StartedCell] = deque()
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def up(self) -> None:
        """There is an engine."""
        self.engine_up = True
        self._go_on()

    def down(self) -> None:
        """There is none any more."""
        self.engine_up = False

    def close(self) -> None:
        """Start nothing any more."""
        self.engine_up = False
        for task in tuple(self._tasks):
            task.cancel()

    def add(self, cells: list[StartedCell]) -> None:
        self._queue += cells
        self._go_on()

    def under_way(self, name: str) -> bool:
        return name in self._under_way

    def over(self, name: str) -> None:
        """The cell has come, or is not waited for any more."""
        self._under_way.discard(name)
        self._go_on()

    def _go_on(self) -> None:
        while self.engine_up and self._queue and len(self._under_way) < self._limits.parallel_starts:
            cell = self._queue.popleft()
            if not cell.gone:
                self._under_way.add(cell.name)
                self._expect(cell)
                task = asyncio.get_running_loop().create_task(self._start(cell))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _start(self, cell: StartedCell) -> None:
        if cell.gone:
            return
        cell.later(self._limits.connect_s, self._check_connected, cell)
        try:
            cell.prepare()
            await self._engine.start_cell(cell.name, cell.token)
        except (EngineError, OSError) as error:
            self._never(cell, str(error))

    def _check_connected(self, cell: StartedCell) -> None:
        if cell.connection is None:
            self._never(cell, f"it did not connect within {self._limits.connect_s:g} s")
