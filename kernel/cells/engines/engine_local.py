"""The local engine: a cell is a plain process on the node's machine. No Ray, the same link."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.cells.engines.bearing import Bearing, has_ended, kill
from kernel.cells.engines.engine import Census, EngineError, OnExit
from kernel.helper.output_log import OUTPUT_LOGS

STUCK_S = 10.0
"""A cell is forked in milliseconds: of one that is not wanted any more after so long, what was to bear it is stuck."""


class LocalEngine:
    """``dial`` is what a cell is told to come to the node, ``env`` the whole environment of the cells; ``log`` takes
    their stdout and stderr. They are borne by a process of their own (:mod:`kernel.cell.__main__`), which is started
    for the first of them. When that ends, all cells end with it, and the engine is lost; the next cell has it started
    again.
    """

    name = "local"

    def __init__(
        self, boot: int, dial: Mapping[str, Any], env: Mapping[str, str], cwd: Path, log: Path
    ) -> None:
        self._boot = boot
        self._dial = dict(dial)
        self._env = dict(env)
        self._cwd = cwd
        self._log = log
        self._bearing = Bearing(self._heard, self._over)
        self._ordered: dict[str, float] = {}  # when each was, of which nothing was heard yet
        self._unwanted: set[str] = set()  # of these
        self._cells: dict[int, tuple[str, int]] = {}  # by its pid, the name of a cell and its pidfd
        self._on_lost: Callable[[str], None] = lambda why: None
        self._on_exit: OnExit = lambda cell, why, used_ms: None

    async def open(self, on_lost: Callable[[str], None], on_exit: OnExit) -> None:
        self._on_lost, self._on_exit = on_lost, on_exit

    async def start_cell(self, cell: str, token: str) -> None:
        order = {"dial": self._dial, "token": token, "boot": self._boot}
        try:
            with open(OUTPUT_LOGS.pipe_to(self._log), "wb") as log:
                if not self._bearing.lives:
                    self._bearing.begin(self._env, self._cwd, log.fileno())
                self._bearing.say(order, log.fileno())
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread for what it prints
            raise EngineError(f"cannot start a cell: {error}") from error
        self._ordered[cell] = asyncio.get_running_loop().time()

    def _heard(self, said: dict[str, Any], pidfd: int | None) -> None:
        match said:
            case {"ended": int() as pid, "status": int() as status, "used_ms": int() as used_ms}:
                self._ended(pid, os.waitstatus_to_exitcode(status), used_ms)
            case {"born": int() as pid}:
                self._born(self._heard_of(), pid, pidfd)
            case {"failed": str() as why}:
                cell = self._heard_of()
                self._unwanted.discard(cell)
                self._on_exit(cell, why, 0)

    def _heard_of(self) -> str:
        """Whom it means, as it answers in order."""
        cell = next(iter(self._ordered))
        del self._ordered[cell]
        return cell

    def _born(self, cell: str, pid: int, pidfd: int | None) -> None:
        if pidfd is None:  # there was no descriptor left for it
            self._bearing.say({"kill": pid})
            self._unwanted.discard(cell)
            self._on_exit(cell, os.strerror(errno.EMFILE), 0)
            return
        self._cells[pid] = cell, pidfd
        if cell in self._unwanted:
            kill(pidfd)

    def _ended(self, pid: int, code: int, used_ms: int) -> None:
        if pid in self._cells:
            cell, pidfd = self._cells.pop(pid)
            os.close(pidfd)
            self._unwanted.discard(cell)
            self._on_exit(cell, f"signal {-code}" if code < 0 else f"exit status {code}", used_ms)

    def _over(self) -> None:
        """What bears them has ended: they end with it, and what was ordered does not come. None of them has done
        anything for that.
        """
        cells, self._cells = self._cells, {}
        self._ordered.clear()
        self._unwanted.clear()
        for _, pidfd in cells.values():
            kill(pidfd)
            os.close(pidfd)
        self._on_lost("the process that bears cells has ended")

    def kill_cell(self, cell: str) -> None:
        if cell in self._ordered:
            self._unwanted.add(cell)
            if asyncio.get_running_loop().time() - self._ordered[cell] >= STUCK_S:
                self._bearing.kill()
        for name, pidfd in self._cells.values():
            if name == cell:
                kill(pidfd)

    def look(self) -> None:
        """What bears cells closes its socket before any of them ends with it."""
        self._bearing.hear()

    async def census(self) -> Census:
        return Census((*self._ordered, *(cell for cell, _ in self._cells.values())))

    async def close(self) -> None:
        """End every cell, and wait for those that may be ended."""
        cells, self._cells = self._cells, {}
        self._ordered.clear()
        await self._bearing.end()
        for _, pidfd in cells.values():
            if kill(pidfd):
                await in_thread(has_ended, pidfd)
            else:
                os.close(pidfd)

    def info(self) -> dict[str, Any]:
        return {"engine": self.name, "cells": len(self._cells) + len(self._ordered)}
