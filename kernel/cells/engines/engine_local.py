"""The local engine: a cell is a plain child process of the node. No Ray, the same link."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.cells.engines.engine import Census, EngineError
from kernel.helper.offspring import OFFSPRING
from kernel.helper.output_log import OUTPUT_LOGS


class LocalEngine:
    """``dial`` is what a cell is told to come to the node, ``env`` the whole environment of the cells; ``log`` takes
    their stdout and stderr.
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
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._watched: dict[str, int] = {}
        self._on_exit: Callable[[str, str], None] = lambda cell, why: None

    async def open(self, on_lost: Callable[[str], None], on_exit: Callable[[str, str], None]) -> None:
        self._on_exit = on_exit

    async def start_cell(self, cell: str, token: str) -> None:
        # On the loop's own thread: a child that asks to die with its parent dies with the thread that started it.
        order = json.dumps({"dial": self._dial, "token": token, "boot": self._boot})
        try:
            with (
                open(OUTPUT_LOGS.pipe_to(self._log), "wb") as log,
                OFFSPRING.birth() as born,
            ):
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "kernel.cell"],
                    env=self._env,
                    cwd=self._cwd,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                )
                try:
                    born(child.pid)
                    watched = self._watch(child.pid, cell)
                except OSError:
                    child.kill()
                    child.wait()
                    raise
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread for what it prints
            raise EngineError(f"cannot start a cell: {error}") from error
        self._children[cell] = child
        self._watched[cell] = watched
        assert child.stdin is not None
        try:
            child.stdin.write(order.encode() + b"\n")
            child.stdin.close()
        except OSError as error:
            raise EngineError(f"the cell ended before it was told its task: {error}") from error

    def _watch(self, os_pid: int, cell: str) -> int:
        watched = os.pidfd_open(os_pid)
        try:
            asyncio.get_running_loop().add_reader(watched, self._exited, cell)
        except OSError:
            os.close(watched)
            raise
        return watched

    def _exited(self, cell: str) -> None:
        watched = self._watched.pop(cell)
        asyncio.get_running_loop().remove_reader(watched)
        os.close(watched)
        status = self._children.pop(cell).wait()
        self._on_exit(cell, f"signal {-status}" if status < 0 else f"exit status {status}")

    def kill_cell(self, cell: str) -> None:
        child = self._children.get(cell)
        if child is not None:
            _kill(child)

    async def census(self) -> Census:
        return Census(tuple(self._children))

    async def close(self) -> None:
        """End every cell, and wait for those that may be ended."""
        for watched in self._watched.values():
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)
        self._watched.clear()
        children, self._children = self._children, {}
        for child in [child for child in children.values() if _kill(child)]:
            await in_thread(child.wait)

    def info(self) -> dict[str, Any]:
        return {"engine": self.name, "cells": len(self._children)}


def _kill(child: subprocess.Popen[bytes]) -> bool:
    """False when it has become another user's, and is left."""
    try:
        child.kill()
    except PermissionError:
        return False
    return True
