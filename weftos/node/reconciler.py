"""Looks again and again whether the process table, the cells and the operating system agree, and repairs what does not.

What differs, and when that counts, is said in :mod:`kernel.upkeep.reconciliation`. Each repair is an entry, written
before it is made. What is still there afterwards is tried again each time, and is no other entry: it may be what cannot
be ended, such as a program with rights of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from chain.in_thread import in_thread
from chain.ledger.ledger import Draft
from kernel.errors import fault_of
from kernel.helper.offspring import OFFSPRING, end_strangers
from kernel.kernel import Kernel
from kernel.model.states import NOPROC
from kernel.process.live import LiveProcess
from kernel.upkeep.reconciliation import Repair, Seen, What, agreed, compare

log = logging.getLogger(__name__)
AGAIN_S = 5.0
CHECK_S = 1.0
MOST_REPAIRS = 1_000


class Reconciler:
    """Something that is not as it should be is found by two looks, ``AGAIN_S`` from each other (at most half of
    ``every_s``), and repaired within ``every_s``.
    """

    def __init__(self, kernel: Kernel, every_s: float) -> None:
        self._kernel = kernel
        self._again_s = min(AGAIN_S, every_s / 2)
        self._rest_s = every_s - self._again_s
        self._task: asyncio.Task[None] | None = None
        self._tried: frozenset[Repair] = frozenset()
        self._repairs: Mapping[What, Callable[[Repair], object]] = {
            "ghost": self._ghost,
            "orphan": self._orphan,
            "orphan cell": self._cell,
            "lost cell": self._cell,
        }

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def check(self) -> list[Repair]:
        """What two looks find now; nothing is repaired."""
        return await self._found(CHECK_S)

    async def _run(self) -> None:
        while True:
            try:
                await self._repair(await self._found(self._again_s))
            except Exception as error:  # the boundary: no descriptor, no thread; the next look may have one
                log.warning("nothing could be reconciled: %s", fault_of(error))
            await asyncio.sleep(self._rest_s)

    async def _found(self, again_s: float) -> list[Repair]:
        before = await self._look()
        if not before:
            return []
        await asyncio.sleep(again_s)
        return agreed(before, await self._look())[:MOST_REPAIRS]

    async def _look(self) -> frozenset[Repair]:
        """The copies are made on the loop, in one go; all else in a thread."""
        kernel = self._kernel
        census = await kernel.cells.census()
        views, live, marks = kernel.cells.list(), kernel.live.all(), kernel.workers.marks()

        def differences() -> frozenset[Repair]:
            return compare(
                Seen(
                    table=_workers(live),
                    cells={view.cell: view.pids for view in views},
                    connected=[view.cell for view in views if view.os_pid],
                    engine=None if census is None else census.cells,
                    strays=() if census is None else census.strays,
                    strangers=OFFSPRING.strangers(marks),
                )
            )

        return await in_thread(differences)

    async def _repair(self, repairs: list[Repair]) -> None:
        strangers: dict[int, int] = {}
        tried, self._tried = self._tried, frozenset(repairs)
        for repair in repairs:
            if repair not in tried:
                self._record(repair)
            if repair.what == "orphan process":
                strangers[int(repair.of)] = int(repair.mark)
            else:
                self._repairs[repair.what](repair)
                await asyncio.sleep(0)
        if strangers:
            await in_thread(end_strangers, strangers, self._kernel.workers.marks())

    def _record(self, repair: Repair) -> None:
        body = {"what": repair.what, "of": repair.of, "why": repair.text}
        self._kernel.recorder.must([Draft("node.reconciled", body)])
        log.warning("reconciled: %s", repair.text)

    def _ghost(self, repair: Repair) -> None:
        if not self._kernel.cells.place_of(int(repair.of)).cell:
            self._kernel.processes.exit(int(repair.of), NOPROC, repair.text)

    def _orphan(self, repair: Repair) -> None:
        if self._kernel.live.get(int(repair.of)) is None:
            self._kernel.cells.stop(int(repair.of), NOPROC)

    def _cell(self, repair: Repair) -> None:
        self._kernel.cells.end_cell(repair.of, repair.text)


def _workers(live: list[LiveProcess]) -> list[int]:
    return [process.pid for process in live if process.spec.type == "worker"]
