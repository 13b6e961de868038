"""What is repaired of table and cells, over a kernel whose cells say what a test has them say."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernel.cells.cell_events import CellView, Place
from kernel.cells.engines.engine import Census
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin, TwinCells
from weftos.node.reconciler import Reconciler

SOON_S = 0.02


class SeenCells(TwinCells):
    """All processes are in one cell, but for those that are ``lost``; ``extra`` are in it besides."""

    lost: frozenset[int] = frozenset()
    extra: tuple[int, ...] = ()
    engine: tuple[str, ...] = ("c1",)
    looks = 0

    def list(self) -> list[CellView]:
        self.looks += 1
        pids = [one.pid for one in self.placed if one.pid not in self.lost]
        return [CellView("c1", 77, (*pids, *self.extra), "shared", "agent")]

    async def census(self) -> Census:
        return Census(self.engine)

    def place_of(self, pid: int) -> Place:
        return Place() if pid in self.lost else Place("c1", 77)

    def end_cell(self, name: str, why: str) -> None:
        self.engine = tuple(cell for cell in self.engine if cell != name)


def test_a_ghost_exits_with_noproc_and_comes_back(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        assert isinstance(twin.cells, SeenCells)
        pid = await twin.spawn("ada")
        twin.cells.lost = frozenset({pid})
        reconciler = Reconciler(twin.kernel, SOON_S)
        assert [one.text for one in await reconciler.check()] == [
            f"PID {pid} is alive by the process table, and in no cell"
        ]
        assert await twin.entries("node.reconciled") == []
        reconciler.start()
        await until(lambda: (live := twin.kernel.live.at("/user/ada")) is not None and live.pid > pid)
        await reconciler.stop()
        [entry], [exited] = await twin.entries("node.reconciled"), await twin.entries("process.exited")
        assert (entry.body["what"], entry.body["of"]) == ("ghost", str(pid))
        assert (exited.body["pid"], exited.body["reason"]) == (pid, "noproc")
        assert entry.entry.seq < exited.entry.seq

    on_twin(tmp_path, body, make_cells=SeenCells)


def test_what_the_table_does_not_know_is_stopped_in_its_cell_and_a_cell_of_nobody_ended(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        assert isinstance(twin.cells, SeenCells)
        cells = twin.cells
        cells.extra, cells.engine = (999,), ("c1", "c9")
        reconciler = Reconciler(twin.kernel, SOON_S)
        reconciler.start()
        await until(lambda: (999, "noproc") in cells.stopped and cells.engine == ("c1",))
        await reconciler.stop()

    on_twin(tmp_path, body, make_cells=SeenCells)


def test_what_is_there_in_one_look_alone_is_left(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        assert isinstance(twin.cells, SeenCells)
        cells, pid = twin.cells, await twin.spawn("ada")
        cells.lost, looks = frozenset({pid}), cells.looks
        checking = asyncio.create_task(Reconciler(twin.kernel, SOON_S).check())
        await until(lambda: cells.looks > looks)
        cells.lost = frozenset()
        assert await checking == []

    on_twin(tmp_path, body, make_cells=SeenCells)


def test_what_cannot_be_ended_is_tried_again_and_recorded_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        assert isinstance(twin.cells, SeenCells)
        cells = twin.cells
        cells.extra = (999,)
        reconciler = Reconciler(twin.kernel, SOON_S)
        reconciler.start()
        await until(lambda: cells.stopped.count((999, "noproc")) >= 3)
        assert len(await twin.entries("node.reconciled")) == 1
        cells.extra, looks = (), cells.looks
        await until(lambda: cells.looks > looks + 2)
        cells.extra = (999,)
        tried = len(cells.stopped)
        await until(lambda: len(cells.stopped) > tried)
        await reconciler.stop()
        assert len(await twin.entries("node.reconciled")) == 2

    on_twin(tmp_path, body, make_cells=SeenCells)
