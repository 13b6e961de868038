"""When a cell is taken for stuck, and when it has too much memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kernel.cell.slot import ToldSlot
from kernel.cells.cell_table import CellLimits
from kernel.cells.health.cell_watch import CellWatch
from kernel.cells.health.pulse import (
    HANGS_TOGETHER,
    Blame,
    Seen,
    counted_s,
    crowded,
    filled_by,
    look_s,
    stuck,
    swollen,
)
from kernel.cells.started_cell import StartedCell
from kernel.signals import Signals

LIMITS = CellLimits(hang_s=5, start_s=10, confirm_s=1, memory_bytes=64 << 20)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Seen(None), ""),
        (Seen(0.0), ""),
        (Seen(4.9, 4.9), ""),
        (Seen(5.0, 5.0), "it did not answer for 5 s"),
        (Seen(9.0, 4.9), ""),
        (Seen(10.9, 10.9, starting=True), ""),
        (Seen(11.0, 11.0, starting=True), "it did not answer for 11 s"),
    ],
)
def test_a_cell_is_stuck_once_the_same_one_has_kept_it_silent_for_too_long(seen: Seen, why: str) -> None:
    assert stuck(LIMITS, seen) == why


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Seen(None), ""),
        (Seen(29.9), ""),
        (Seen(30.0), "it did not answer for 30 s, held by one after the other"),
        (Seen(65.9, starting=True), ""),
        (Seen(66.0, starting=True), "it did not answer for 66 s, held by one after the other"),
    ],
)
def test_a_cell_that_is_silent_for_much_longer_is_crowded(seen: Seen, why: str) -> None:
    assert crowded(LIMITS, seen) == why


class Watched:
    """A cell that is silent from the beginning, and what its watch does about that."""

    def __init__(self) -> None:
        self.lost: list[dict[str, Any]] = []
        self.memory_bytes = 0
        self.slot = ToldSlot()
        asked: Any = None  # no part of it is needed
        self.cell = StartedCell(asked, "c1", Signals(), LIMITS)
        self.cell.slot = self.slot
        self.watch = CellWatch(
            lambda: [self.cell],
            LIMITS,
            lambda cell, why, **how: self.lost.append(how),
            lambda cell: self.memory_bytes,
            lambda cell: None,
        )

    def look(self, running: int) -> None:
        """A look that finds that PID holding it."""
        self.slot.pid = running
        self.watch._judge(self.cell, look_s(LIMITS))


def looks(*running: int) -> Watched:
    async def body() -> Watched:
        watched = Watched()
        watched.cell.ping()
        for pid in running:
            watched.look(pid)
        return watched

    return asyncio.run(body())


def test_one_that_holds_a_cell_is_found_wherever_it_began() -> None:
    assert looks(1, *[2] * 10).lost == []
    assert looks(1, *[2] * 11).lost == [{"reason": "timeout"}]
    assert looks(*[0] * 10).lost == [{"reason": "timeout"}]  # in no step, but always the same


def test_many_that_each_hold_a_cell_for_a_moment_are_not_taken_for_one_that_holds_it() -> None:
    together = [1 + at // 9 for at in range(10 * HANGS_TOGETHER)]
    assert looks(*together[:-1]).lost == []
    assert looks(*together).lost == [{"blame": Blame.NOBODY}]


def test_a_stuck_cell_is_found_within_six_seconds_by_default() -> None:
    limits = CellLimits()
    assert limits.hang_s == 5
    assert (
        limits.hang_s + 2 * look_s(limits) <= 6
    )  # its holder is found a look later, and the last look comes after the limit


def test_a_node_that_was_held_up_takes_nobody_for_stuck() -> None:
    assert counted_s(LIMITS, 0.5) == 0.5
    assert counted_s(LIMITS, 60.0) < LIMITS.hang_s / 5


@pytest.mark.parametrize(
    ("memory_bytes", "why"),
    [(0, ""), (64 << 20, ""), (65 << 20, "it held 65 MiB of memory, limit 64")],
)
def test_a_cell_has_too_much_memory_above_its_limit(memory_bytes: int, why: str) -> None:
    assert swollen(LIMITS, Seen(None, memory_bytes=memory_bytes)) == why
    assert swollen(CellLimits(), Seen(None, memory_bytes=memory_bytes)) == ""


@pytest.mark.parametrize(
    ("seen", "blame"),
    [
        (Seen(None, memory_bytes=65 << 20), Blame.ALONE),
        (Seen(0.5, 0.0, memory_bytes=65 << 20), Blame.ALONE),
        (Seen(0.5, 0.5, memory_bytes=65 << 20), Blame.RUNNING),
        (Seen(None, memory_bytes=65 << 20, grown_bytes=(32 << 20) - 1), Blame.ALONE),
        (Seen(None, memory_bytes=65 << 20, grown_bytes=32 << 20), Blame.RUNNING),
    ],
)
def test_who_runs_has_filled_a_cell_when_it_holds_it_or_all_came_at_once(seen: Seen, blame: Blame) -> None:
    assert filled_by(LIMITS, seen) is blame


def test_it_counts_what_came_since_the_look_before() -> None:
    async def body() -> list[dict[str, Any]]:
        watched = Watched()
        for running, mib in enumerate((20, 40, 63, 65, 97), 1):
            watched.memory_bytes = mib << 20
            watched.look(running)
        return watched.lost

    assert asyncio.run(body()) == [{"blame": Blame.ALONE}, {"blame": Blame.RUNNING}]
