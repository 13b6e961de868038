"""A node for the tests of cells: the real Cells, and a kernel that notes what it hears."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from kernel.abi import Message, ModelAnswer, ToolCall
from kernel.cell.protocol import CallOutcome, ToolOutcome, Value
from kernel.cells.cell_entrance import UnixEntrance
from kernel.cells.cell_events import (
    CellAsked,
    CellCall,
    CellCrashed,
    CellLeft,
    CellLogged,
    CellLost,
    CellRefused,
    CellStarted,
    CellStartFailed,
    CellUsed,
    EngineLost,
    Placement,
    TurnDiffers,
    TurnDone,
)
from kernel.cells.cell_table import CellLimits
from kernel.cells.cells import Cells
from kernel.cells.engines.engine_local import LocalEngine
from kernel.shapes import told
from kernel.signals import Signal, Signals
from tests.patience import HANG_S
from tests.places import ROOT

BEHAVIOURS = ROOT / "tests" / "behaviours"
BOOT = 0xB007
ENV = {"PATH": os.environ.get("PATH", ""), "PYTHONUNBUFFERED": "1"}
OUTCOMES: dict[str, CallOutcome] = {
    "tool": ToolOutcome("ok", "three", False),
    "model": ModelAnswer("ok", "hello", (), 1, 1),
    "now": Value(12.5),
    "random": Value(2**64 - 1),
}


NAMES: dict[type[Signal], str] = {
    CellStarted: "started",
    CellStartFailed: "start_failed",
    CellRefused: "refused",
    CellAsked: "syscall",
    TurnDone: "turn_done",
    TurnDiffers: "differs",
    CellCrashed: "crashed",
    CellLeft: "exited",
    CellLogged: "log",
    CellUsed: "used",
    CellLost: "cell_lost",
    EngineLost: "engine_lost",
}


class Notes:
    """Every event in order, as (name, *arguments); answers each syscall unless its tool is ``slow``. What came of a
    turn is told as the map that crossed the link, and that an end was beside the open turn only where it was. ``ends``:
    for what reason whoever ran in each lost cell exits, and who has taken it down; ``lost`` is done while that is
    heard.
    """

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self.cells: Cells | None = None
        self.answers: Callable[[int, CellCall], CallOutcome | None] = default_answer
        self.ends: list[tuple[str, tuple[str, int] | None]] = []
        self.lost: Callable[[], None] = lambda: None
        self._new = asyncio.Event()

    def _note(self, *event: Any) -> None:
        self.all.append(event)
        self._new.set()

    def of(self, name: str, pid: int | None = None) -> list[tuple[Any, ...]]:
        return [event for event in self.all if event[0] == name and (pid is None or event[1] == pid)]

    async def wait(self, name: str, pid: int | None = None, count: int = 1) -> tuple[Any, ...]:
        """The last of at least ``count`` such events."""
        await self.until(lambda: len(self.of(name, pid)) >= count)
        return self.of(name, pid)[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Looks again at each event."""
        async with asyncio.timeout(HANG_S):
            while not holds():
                self._new.clear()
                await self._new.wait()

    def signals(self) -> Signals:
        """The queue of cells that are heard here."""
        signals = Signals()
        signals.connect(dict.fromkeys(NAMES, (self._heard,)))
        return signals

    def _heard(self, said: Any) -> None:
        values = [getattr(said, field.name) for field in fields(said)]
        if isinstance(said, TurnDone):
            values[-1] = told(said.result)
        if isinstance(said, CellCrashed | CellLeft) and not said.beside:
            values.pop()
        if isinstance(said, CellStarted):
            for pid in said.pids:
                self._note(NAMES[CellStarted], pid)
            return
        if isinstance(said, CellLost):
            values, self.ends = values[:-2], [*self.ends, (said.reason, said.felled_by)]
        self._note(NAMES[type(said)], *values)
        if isinstance(said, CellLost):
            self.lost()
        if isinstance(said, CellAsked):
            call = said.call
            outcome = self.answers(said.pid, call)
            if outcome is not None and self.cells is not None:
                self.cells.result(said.pid, call.turn, call.round, call.index, outcome)


def default_answer(pid: int, call: CellCall) -> CallOutcome | None:
    slow = isinstance(call.args, ToolCall) and call.args.name == "slow"
    return None if slow else OUTCOMES[call.op]


def placement(pid: int, behaviour: str, **changes: Any) -> Placement:
    import_string = behaviour if ":" in behaviour else f"cell_behaviours:{behaviour}"
    fields: dict[str, Any] = {
        "pid": pid,
        "address": f"/user/p{pid}",
        "name": f"p{pid}",
        "behaviour": behaviour,
        "import_string": import_string,
        "domain": "tests",
        "python_path": (str(BEHAVIOURS),),
    }
    return Placement(**(fields | changes))


def message(text: str) -> Message:
    return Message("m1", "operator", text, "main", wants_reply=True)


def relimit(limits: CellLimits, **changed: float) -> None:
    """Other limits from now on for all that were given these: what has to be short in one step of a test is long in all
    the others. What waits already waits as long as it was to.
    """
    for name, value in changed.items():
        object.__setattr__(limits, name, value)


class Node:
    """Cells on the local engine in a directory of their own."""

    def __init__(self, cells: Cells, notes: Notes, socket_path: Path, limits: CellLimits) -> None:
        self.cells = cells
        self.notes = notes
        self.socket_path = socket_path
        self._limits = limits

    def limit(self, **changed: float) -> None:
        """As :func:`relimit`."""
        relimit(self._limits, **changed)

    def watch(self, hang_s: float) -> None:
        """Look from now on whether each cell answers within ``hang_s``."""
        self.cells._watch.stop()
        self.limit(hang_s=hang_s)
        self.cells._watch.start(self.cells.remote)

    async def running(self, *pids: int) -> None:
        """Wait until the cells run these, and nobody else."""
        async with asyncio.timeout(HANG_S):
            while self._in_slots() - {0} != {*pids}:
                await asyncio.sleep(0.001)

    def _in_slots(self) -> set[int]:
        slots = (path for path in self.cells.slots_dir.iterdir() if not path.suffix)
        return {int.from_bytes(slot.read_bytes(), sys.byteorder) for slot in slots}

    async def start(self, pid: int, behaviour: str, **changes: Any) -> None:
        self.cells.place(placement(pid, behaviour, **changes))
        await self.notes.wait("started", pid)

    async def turn(self, pid: int, text: str, turn: str = "t1") -> dict[str, Any]:
        before = len(self.notes.of("turn_done", pid))
        self.deliver(pid, text, turn)
        done = await self.notes.wait("turn_done", pid, before + 1)
        result: dict[str, Any] = done[3]
        return result

    def deliver(self, pid: int, text: str, turn: str = "t1") -> None:
        self.cells.deliver(pid, turn, message(text), [{"old": 1}], ["add"])


@asynccontextmanager
async def local_node(waiting: Sequence[Placement] = (), **limits: Any) -> AsyncIterator[Node]:
    """A node whose cells are open; ``waiting`` was placed before they were."""
    with tempfile.TemporaryDirectory(prefix="wc") as directory:
        base = Path(directory)
        notes = Notes()
        entrance = UnixEntrance(base / "cells.sock")
        engine = LocalEngine(BOOT, entrance.dial, ENV, base, base / "cells.log")
        bounds = CellLimits(**({"hang_s": HANG_S} | limits))
        cells = Cells(engine, BOOT, entrance, base / "slots", notes.signals(), bounds)
        notes.cells = cells
        try:
            for early in waiting:
                cells.place(early)
            await cells.open()
            yield Node(cells, notes, base / "cells.sock", bounds)
        finally:
            await cells.close()
