"""What cells say, as far as the node's log is to have it."""

from __future__ import annotations

from collections.abc import Callable

from kernel.cells.cell_events import (
    CellCrashed,
    CellLogged,
    CellLost,
    CellRefused,
    CellStartFailed,
    EngineLost,
    TurnDiffers,
)
from kernel.process.live import LiveTable


class CellLog:
    """``log(event, **fields)`` writes into the node's log."""

    def __init__(self, log: Callable[..., None], live: LiveTable) -> None:
        self._log = log
        self._live = live

    def start_failed(self, failed: CellStartFailed | CellRefused) -> None:
        self._log("process did not start", pid=failed.pid, why=failed.why)

    def crashed(self, crash: CellCrashed) -> None:
        """Of what, process.exited says, and can be erased; a log cannot."""
        self._log("process crashed", pid=crash.pid, turn=crash.turn or "")

    def differs(self, differs: TurnDiffers) -> None:
        """In what, turn.differed says, and can be erased."""
        self._log(
            "turn is not deterministic: weftos chain log --kind turn.differed says where",
            pid=differs.pid,
            turn=differs.turn,
            ordinal=differs.ordinal,
        )

    def logged(self, line: CellLogged) -> None:
        process = self._live.get(line.pid)
        self._log("agent", pid=line.pid, address=process.address if process else "", text=line.text)

    def cell_lost(self, lost: CellLost) -> None:
        self._log(
            "cell lost", cell=lost.cell, running=lost.running_pid, processes=len(lost.pids), why=lost.why
        )

    def engine_lost(self, lost: EngineLost) -> None:
        self._log("engine lost", why=lost.why)
