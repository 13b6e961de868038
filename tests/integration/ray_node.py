"""A node of cells on Ray, driven over stdin and stdout by a test: one JSON document a line, both ways.

In: ``[method, arguments...]``, a method of :class:`Cells` or ``reopen``, ``os_pids``, ``close``. Out: the
events.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from kernel.cells.cell_entrance import UnixEntrance
from kernel.cells.cell_events import CellCall
from kernel.cells.cells import Cells
from kernel.cells.engines.engine_ray import RayEngine
from kernel.helper.helper import HelperCommand
from kernel.shapes import told
from tests.kernel.twins.cell_node import BOOT, ENV, Notes, message, placement


class Spoken(Notes):
    """Notes that are also printed."""

    def _note(self, *event: Any) -> None:
        super()._note(*event)
        shown = [vars_of(part) if isinstance(part, CellCall) else part for part in event]
        print(json.dumps(shown), flush=True)


def vars_of(call: CellCall) -> dict[str, Any]:
    return {
        "turn": call.turn,
        "round": call.round,
        "index": call.index,
        "op": call.op,
        "args": told(call.args),
    }


class Commands:
    def __init__(self, cells: Cells, engine: RayEngine) -> None:
        self.cells = cells
        self.engine = engine

    async def run(self, name: str, *arguments: Any) -> Any:
        match name, arguments:
            case "place", (pid, behaviour, changes):
                self.cells.place(placement(pid, behaviour, **changes))
            case "deliver", (pid, text, turn):
                self.cells.deliver(pid, turn, message(text), [], [])
            case "stop", (pid,):
                self.cells.stop(pid, "killed")
            case "reopen", ():
                await self.cells.open()
            case "os_pids", ():
                cells = {view.cell: view.os_pid for view in self.cells.list()}
                where = {pid: view.cell for view in self.cells.list() for pid in view.pids}
                return {"placer": self.engine.os_pid, "cells": cells, "where": where, **self.engine.info()}
        return None


async def main(runtime: Path) -> None:
    command = HelperCommand(
        "placer",
        [sys.executable, "-P", "-m", "kernel.cells.engines.placer"],
        ENV,
        runtime,
        runtime / "placer.log",
    )
    entrance = UnixEntrance(runtime / "cells.sock")
    engine = RayEngine(command, BOOT, entrance.dial, runtime)
    notes = Spoken()
    cells = Cells(engine, BOOT, entrance, runtime / "slots", notes.signals())
    notes.cells = cells
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(0, "rb")
    )
    await cells.open()
    print(json.dumps(["answer", "open", sorted(sys.modules)]), flush=True)
    commands = Commands(cells, engine)
    while line := await lines.readline():
        name, *arguments = json.loads(line)
        if name == "close":
            break
        print(json.dumps(["answer", name, await commands.run(name, *arguments)]), flush=True)
    await cells.close()
    print(json.dumps(["answer", "close", None]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
