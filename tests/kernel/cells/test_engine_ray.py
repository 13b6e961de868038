"""The node's side of the Ray engine, with a helper that stands in for the placer: what is left of it is being swept."""

from __future__ import annotations

import asyncio
import errno
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
from kernel.cells.engines.placer import Lifeline, Placer
from kernel.helper.helper import HelperCommand
from tests.patience import HANG_S
from tests.places import ROOT

CHILD = str(ROOT / "tests/kernel/twins/helper_child.py")
Reopen = Callable[[], Awaitable[None]]


def test_an_actor_that_ray_refuses_is_a_cell_that_has_ended() -> None:
    async def run() -> list[tuple[str, object]]:
        told: list[tuple[str, object]] = []
        heard = asyncio.Event()
        placer = Placer(1, Lifeline())  # it has opened no Ray

        def notify(op: str, args: object) -> None:
            told.append((op, args))
            heard.set()

        placer.opened(notify)
        await placer.handle("start", {"cell": "c1", "token": "t"})
        await asyncio.wait_for(heard.wait(), HANG_S)
        return told

    [(op, ended)] = asyncio.run(run())
    assert (op, ended) == ("exit", {"cell": "c1", "why": "AttributeError"})


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
            await engine.open(lambda why: lost.set(), lambda cell, why, used_ms: None)

        await reopen()
        os.kill(engine.os_pid, signal.SIGKILL)
        await asyncio.wait_for(lost.wait(), HANG_S)
        await body(engine, reopen)
        assert engine.os_pid == 0

    asyncio.run(run())


def refuse() -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


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


def test_a_sweep_that_failed_is_made_again_by_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_ray, "end_orphans", refuse)

    async def body(engine: RayEngine, reopen: Reopen) -> None:
        for _ in range(2):
            with pytest.raises(EngineError, match="what is left of the last placer cannot be ended: "):
                await reopen()
        monkeypatch.setattr(engine_ray, "end_orphans", lambda: 0)
        await reopen()
        assert engine.os_pid != 0
        await asyncio.wait_for(engine.close(), HANG_S)

    with_a_swept_engine(tmp_path, body)


def test_an_engine_whose_sweep_fails_is_closed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_ray, "end_orphans", refuse)
    (tmp_path / "ray").mkdir()

    async def body(engine: RayEngine, reopen: Reopen) -> None:
        await asyncio.wait_for(engine.close(), HANG_S)
        assert not (tmp_path / "ray").exists()

    with_a_swept_engine(tmp_path, body)
