"""One cell from the decision to start it to its end; what the cells of a node share is :mod:`kernel.cells.cells`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.cell.link.lease import NodeLease
from kernel.cell.slot import SlotFile, ToldSlot
from kernel.cells.cell_acceptor import CellConnection
from kernel.cells.cell_port import CellPort
from kernel.cells.cell_table import CellLimits
from kernel.cells.start_frames import StartFrames
from kernel.signals import Signals

if TYPE_CHECKING:
    from kernel.cells.cells import Cells


_BEGUN_HERE = (
    "start",
    "like",
    "turn",
    "configure",
)  # as many as the node places and delivers; all else answers the cell, or is small


class StartedCell:
    """The surroundings of its port."""

    def __init__(self, cells: Cells, name: str, signals: Signals, limits: CellLimits) -> None:
        self.token = secrets.token_hex(16)
        self.slot: SlotFile | ToldSlot = ToldSlot()
        self.lease: NodeLease | None = None
        self.port = CellPort(name, signals, limits, self)
        self.connection: CellConnection | None = None
        self.gone = False
        self.silent_s: float | None = (
            None  # since it was pinged, as far as that counts; None: it has answered
        )
        self.held_s = 0.0  # of that, by whoever holds it now
        self._holder = 0
        self._frames = StartFrames(self._tell)
        self._cells = cells
        self._limits = limits

    @property
    def name(self) -> str:
        return self.port.cell

    @property
    def os_pid(self) -> int:
        return self.connection.os_pid if self.connection else 0

    def prepare(self) -> None:
        """Make what it is started with. Raises OSError."""
        if not self._cells.remote:
            self.slot = SlotFile(self._cells.slots_dir / self.name)

    def admit(self, connection: CellConnection) -> None:
        """A connection has shown its token."""
        self.connection = connection
        if self._cells.remote:
            self.lease = NodeLease(self._limits.lease_s, asyncio.get_running_loop().time())

    def pong(self) -> None:
        """It has answered."""
        self.silent_s = None

    def ping(self) -> None:
        """Ask whether it is there."""
        self.silent_s = self.held_s = 0.0
        self.send(["ping"])

    def ask(self) -> None:
        """The same, unless it has been asked already."""
        if self.silent_s is None:
            self.ping()

    def is_silent(self) -> bool:
        """Whether it has been asked and has not answered."""
        return self.silent_s is not None

    def passed(self, passed_s: float, running: int) -> None:
        """So much time more has passed, and that PID, 0 for none, is found to hold it."""
        if self.silent_s is not None:
            self.silent_s += passed_s
            self.held_s = self.held_s + passed_s if running == self._holder else 0.0
        self._holder = running

    def send(self, frame: list[Any]) -> None:
        if self.connection is not None:
            self._frames.send(frame)

    def _tell(self, frame: list[Any]) -> None:
        if self.connection is not None:
            self.connection.link.send(frame, granted=frame[0] in _BEGUN_HERE)

    def kill(self, why: str, culprit: int) -> None:
        self._cells.lose(self, why, culprit)

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def later(self, delay_s: float, call: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_later(delay_s, self._unless_gone, call, args)

    def _unless_gone(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self.gone:
            call(*args)

    def running(self) -> int:
        return self.slot.read()

    def released(self, pid: int) -> None:
        self._cells.released(self, pid)

    def refused(self, pid: int, why: str) -> None:
        self._cells.refused(self, pid, why)
