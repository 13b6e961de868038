"""The Ray engine, the node's side of it: a placer process holds Ray, and is told what to start and what to
kill.

The placer's death is the death of all its cells. What it leaves behind, Ray's own processes first, is ended
before the next placer is started; the node must lead a session of its own for that (:mod:`kernel.helper.os_processes`).
A Ray cluster that is there already belongs to somebody else: the placer is one of its drivers, and of what it leaves
only actors that bear the node's name are ended, by the next placer.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.cells.engines.engine import Census, EngineError, OnExit
from kernel.helper.helper import Helper, HelperCommand, HelperLost, HelperRefused
from kernel.helper.offspring import end_orphans
from kernel.shapes import ShapeError, read, told

OBJECT_STORE_BYTES = 80 * 2**20
OPEN_S = 60.0
ATTACH_S = 30.0
CENSUS_S = 5.0
TOKEN_FILE = "ray.token"
"""In the runtime directory: the token of the Ray that was started there."""


@dataclass(frozen=True, slots=True)
class OpenRay:
    """``open``, to the placer: start a Ray of its own. ``dial`` is what a cell is told to come to the node."""

    runtime: str
    dial: dict[str, Any]
    object_store_bytes: int


@dataclass(frozen=True, slots=True)
class AttachRay:
    """``attach``: be a driver of the Ray that is there."""

    address: str
    token: str
    namespace: str
    dial: dict[str, Any]
    loopback: bool


@dataclass(frozen=True, slots=True)
class RayFacts:
    """What ``open`` and ``attach`` are answered with."""

    version: str
    address: str
    os_pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartCell:
    """``start``. ``token``: by which the cell is let in."""

    cell: str
    token: str


@dataclass(frozen=True, slots=True)
class KillCell:
    """``kill``, a notice."""

    cell: str


@dataclass(frozen=True, slots=True)
class CellExit:
    """``exit``, a notice of the placer: the cell has ended."""

    cell: str
    why: str


@dataclass(frozen=True, slots=True)
class SharedRay:
    """A Ray cluster to attach to. ``address`` is that of its head, HOST:PORT; ``token`` the file with its token.

    ``namespace`` is this node's own in that cluster: every actor in it is, or was, a cell of this node.
    """

    address: str
    token: Path
    namespace: str

    @property
    def is_on_this_machine(self) -> bool:
        return self.address.startswith(("127.", "localhost:", "[::1]:"))


class RayEngine:
    """``runtime`` is a short directory of the node's own: Ray puts sockets below it, with 62 characters more.

    ``dial`` is what a cell is told to come to the node. ``shared``: the cluster to attach to, else one is started. One
    class, since there is one placer at a time: whether it runs, is lost, or is being swept up is one state.
    """

    name = "ray"

    def __init__(
        self,
        command: HelperCommand,
        boot: int,
        dial: dict[str, Any],
        runtime: Path,
        shared: SharedRay | None = None,
    ) -> None:
        self._command = command
        self._boot = boot
        self._dial = dial
        self._runtime = runtime
        self._shared = shared
        self._helper: Helper | None = None
        self._ready = False
        self._closing = False
        self._ray: RayFacts | None = None
        self._sweep: asyncio.Task[str] | None = None
        self._dead = asyncio.Event()
        self._on_lost: Callable[[str], None] = lambda why: None
        self._on_exit: OnExit = lambda cell, why, used_ms: None

    @property
    def os_pid(self) -> int:
        """The placer's operating system process id, 0 when there is none."""
        return self._helper.os_pid if self._helper is not None else 0

    async def open(self, on_lost: Callable[[str], None], on_exit: OnExit) -> None:
        self._on_lost, self._on_exit = on_lost, on_exit
        # whoever gives up here leaves a sweep to the next, and to close
        why = await asyncio.shield(self._sweep) if self._sweep is not None else ""
        if why:
            self._sweep = asyncio.create_task(self._sweep_up())
            why = await asyncio.shield(self._sweep)
            if why:
                raise EngineError(f"what is left of the last placer cannot be ended: {why}")
        if self._closing:
            raise EngineError("the engine is closed")
        self._dead.clear()
        helper = self._helper = Helper(self._command, self._boot, self._noticed, self._died)
        try:
            await helper.start()
        except OSError as error:
            raise EngineError(f"the placer cannot be started: {error}") from error
        limit_s = OPEN_S if self._shared is None else ATTACH_S
        try:
            op, asked = self._opening()
            self._ray = read(RayFacts, await asyncio.wait_for(helper.request(op, told(asked)), limit_s))
        except (HelperLost, HelperRefused, ShapeError, TimeoutError) as error:
            helper.kill()
            await self._dead.wait()
            why = str(error) or f"no answer within {limit_s:g} s"
            what = f"cannot attach to Ray at {self._shared.address}" if self._shared else "Ray did not start"
            raise EngineError(f"{what}: {why}; see {self._command.log}") from error
        self._ready = True

    def _opening(self) -> tuple[str, OpenRay | AttachRay]:
        if (shared := self._shared) is not None:
            token, loopback = str(shared.token), shared.is_on_this_machine
            return "attach", AttachRay(shared.address, token, shared.namespace, self._dial, loopback)
        return "open", OpenRay(str(self._runtime), self._dial, OBJECT_STORE_BYTES)

    async def start_cell(self, cell: str, token: str) -> None:
        if self._helper is None:
            raise EngineError("the placer is not running")
        try:
            await self._helper.request("start", told(StartCell(cell, token)))
        except (HelperLost, HelperRefused) as error:
            raise EngineError(str(error)) from error

    def kill_cell(self, cell: str) -> None:
        if self._helper is not None:
            self._helper.notify("kill", told(KillCell(cell)))

    def look(self) -> None:
        """Its end is heard when the placer's link closes, and its cells outlive that."""

    async def census(self) -> Census | None:
        if self._helper is None or not self._ready:
            return None
        try:
            async with asyncio.timeout(CENSUS_S):
                return read(Census, await self._helper.request("census", {}))
        except (HelperLost, HelperRefused, ShapeError, TimeoutError):
            return None

    async def close(self) -> None:
        """End the placer, Ray and whatever is left of them."""
        self._closing = True
        if self._helper is not None:
            await self._helper.stop()
        if self._sweep is not None:
            await self._sweep
        await self._sweep_up()
        await in_thread(shutil.rmtree, self._runtime / "ray", ignore_errors=True)

    async def _sweep_up(self) -> str:
        """End what a placer has left; returns why it could not be, empty when it was."""
        try:
            await in_thread(end_orphans)
        except (OSError, RuntimeError) as error:  # no descriptor, no thread
            return str(error)
        return ""

    async def end(self, hard: bool) -> None:
        """End the placer, and with it Ray: its loss follows, as after any death."""
        if self._helper is not None:
            await self._helper.end(hard)

    def info(self) -> dict[str, Any]:
        return {"engine": self.name, "placer": self.os_pid, **(told(self._ray) if self._ray else {})}

    def _noticed(self, op: str, args: dict[str, Any]) -> None:
        if op == "exit":
            ended = read(CellExit, args)
            self._on_exit(ended.cell, ended.why, 0)

    def _died(self, status: int | None) -> None:
        self._dead.set()
        was_ready, self._ready = self._ready, False
        self._helper = None
        self._ray = None
        if not self._closing:
            self._sweep = asyncio.create_task(self._sweep_up())
            if was_ready:
                self._on_lost(f"the placer ended with status {status}")
