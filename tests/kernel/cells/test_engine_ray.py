"""The node's side of the Ray engine, with a helper that stands in for the placer: what is left of it is being swept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernel.cells.engines import engine_ray
from kernel.cells.engines.engine import EngineError
from kernel.cells.engines.engine_ray import RayEngine
from kernel.helper.helper import HelperCommand
from tests.patience import HANG_S
from tests.places import ROOT

CHILD = str(ROOT / "tests/kernel/twins/helper_child.py")
Reopen = Callable[[], Awaitable[None]]


@pytest.fixture
def sweeping(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets a sweep come to its end, which finds nothing."""
    over = threading.Event()
    monkeypatch.setattr(engine_ray, "end_orphans", lambda: 0 if over.wait(HANG_S) else -1)
    return over


def with_a_swept_engine(place: Path, body: Callable[[RayEngine, Reopen], Awaitable[None]]) -> None:
    """Run ``body`` while an engine sweeps up what its placer has left."""
    command = HelperCommand("placer", [sys.executable, "-P", CHILD], {}, place, place / "placer.log")

    async def run() -> None:
        engine = RayEngine(command, 1, {}, place)
        lost = asyncio.Event()

        async def reopen() -> None:
            await engine.open(lambda why: lost.set(), lambda cell, why: None)

        await reopen()
        os.kill(engine.os_pid, signal.SIGKILL)
        await asyncio.wait_for(lost.wait(), HANG_S)
        await body(engine, reopen)
        assert engine.os_pid == 0

    asyncio.run(run())


def test_an_open_that_is_given_up_during_a_sweep_leaves_the_sweep_to_close(
    tmp_path: Path, sweeping: threading.Event
) -> None:
    async def body(engine: RayEngine, reopen: Reopen) -> None:
        again = asyncio.ensure_future(reopen())
        await asyncio.sleep(0)
        again.cancel()
        closing = asyncio.ensure_future(engine.close())
        await asyncio.wait((again,))
        sweeping.set()
        await asyncio.wait_for(closing, HANG_S)

    with_a_swept_engine(tmp_path, body)


def test_an_engine_that_is_closed_during_a_sweep_is_not_opened_behind_it(
    tmp_path: Path, sweeping: threading.Event
) -> None:
    async def body(engine: RayEngine, reopen: Reopen) -> None:
        again = asyncio.ensure_future(reopen())
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(engine.close())
        await asyncio.sleep(0)
        sweeping.set()
        with pytest.raises(EngineError, match="closed"):
            await again
        await asyncio.wait_for(closing, HANG_S)

    with_a_swept_engine(tmp_path, body)
