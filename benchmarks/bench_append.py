"""The ledger alone: what one append costs, beside the same bytes by ``pwrite`` and ``fdatasync``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import REPOSITORY, append_floor, duckdb_floor
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft, Ledger
from kernel.upkeep.loop_lag import LoopLag

BODY: dict[str, Any] = {
    "turn": "t123", "ordinal": "4.0", "tool": "calculator", "arguments": '{"expression":"17*23"}',
    "arguments_hash": "a" * 64, "call_hash": "b" * 64,
}  # fmt: skip
DRAFTS = (Draft("tool.proposed", BODY, 17, "calculator", bytes(16)),)
UNMEASURED = 20
_FOLLOW = """
import sys, time
from pathlib import Path
from chain.archive.archive import Archive
place = Path(sys.argv[1])
while not (place / "journal").exists():
    time.sleep(0.01)
archive = Archive(place / "audit.duckdb", place)
archive.open()
while True:
    archive.update()
    time.sleep(0.02)
"""


@dataclass(frozen=True, slots=True)
class Appended:
    """Durations of the measured appends in seconds, bytes of journal an append, loop lag."""

    took_s: list[float]
    bytes_each: int
    lag_ms: float


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wb-", dir="/tmp") as directory:
        yield Path(directory)


def appended(place: Path, callers: int, each: int, *, durable: bool) -> Appended:
    """``callers`` tasks append ``each`` times, one after the other, all at once."""

    async def main() -> Appended:
        loop = asyncio.get_running_loop()
        keys = create_keys(place / "keys")
        ledger = Ledger.open(place, keys, now_us=lambda: time.time_ns() // 1000)
        ledger.start(loop)
        lag = LoopLag()
        took: list[float] = []
        append = _durable(ledger) if durable else _lazy(ledger)

        async def caller(measured: bool, count: int) -> None:
            for _ in range(count):
                started = time.perf_counter_ns()
                await append()
                if measured:
                    took.append((time.perf_counter_ns() - started) / 1e9)
                if not durable:
                    await asyncio.sleep(0)

        await asyncio.gather(*(caller(False, UNMEASURED) for _ in range(callers)))
        await ledger.barrier()
        before = _bytes(place)
        lag.start()
        await asyncio.gather(*(caller(True, each) for _ in range(callers)))
        await ledger.barrier()
        lag.stop()
        size = (_bytes(place) - before) // (callers * each)
        await ledger.close()
        return Appended(took, size, lag.p99_ms())

    return asyncio.run(main())


def _durable(ledger: Ledger) -> Callable[[], Awaitable[object]]:
    async def append() -> None:
        await ledger.commit(DRAFTS, durable=True).durable()

    return append


def _lazy(ledger: Ledger) -> Callable[[], Awaitable[object]]:
    async def append() -> None:
        ledger.commit(DRAFTS)

    return append


def _bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in (place / "journal").iterdir())


@contextlib.contextmanager
def archive_at_work(place: Path, wanted: bool) -> Iterator[None]:
    """A process that loads into DuckDB whatever the journal holds, without a pause, as the node's archive does."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _FOLLOW, str(place)], cwd=REPOSITORY)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("archive", [False, True], ids=["alone", "archive"])
@pytest.mark.parametrize(("callers", "each"), [(1, 1000), (8, 500), (64, 300), (256, 100)])
def test_durable_append(place: Path, report: Report, callers: int, each: int, archive: bool) -> None:
    with archive_at_work(place, archive):
        result = appended(place, callers, each, durable=True)
    floors = [append_floor(place, result.bytes_each * callers, synced=True, count=500)]
    if callers == 1 and not archive:
        floors.append(duckdb_floor(place))
    aim = {1: "under 2 x, p99 under 5 ms", 64: "20,000/s in all"}.get(callers, "")
    rate = callers * each / (sum(result.took_s) / callers)
    label = f"append, durable, {callers} at once{', archive at work' if archive else ''} ({rate:,.0f}/s)"
    report(label, result.took_s, floors, aim=aim, lag_ms=result.lag_ms)


@pytest.mark.parametrize(("callers", "each"), [(1, 5000), (64, 100)])
def test_lazy_append(place: Path, report: Report, callers: int, each: int) -> None:
    result = appended(place, callers, each, durable=False)
    floor = append_floor(place, result.bytes_each, synced=False, count=5000)
    report(f"append, lazy, {callers} at once", result.took_s, [floor], lag_ms=result.lag_ms)
