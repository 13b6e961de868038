"""Whose step it is: the slot during each step of a process's coroutines, and 0 at all other times."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kernel.cell.slot import Slot, SlotFile
from kernel.cell.steps import Steps, task_factory
from tests.patience import HANG_S


def run(body: Callable[[Slot], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(task_factory)
        await body(Slot(None))

    asyncio.run(main())


async def nap() -> None:
    await asyncio.sleep(0)


def test_the_slot_names_the_process_in_each_of_its_steps_and_nobody_between() -> None:
    async def body(slot: Slot) -> None:
        async def work() -> list[int]:
            seen = []
            for _ in range(3):
                seen.append(slot.running[0])
                await nap()
            return seen

        tasks = [Steps(pid, slot.running).create_task(work()) for pid in (5, 2**63)]
        while not all(task.done() for task in tasks):
            assert slot.running[0] == 0
            await nap()
        assert [task.result() for task in tasks] == [[5] * 3, [2**63] * 3]

    run(body)


@pytest.mark.parametrize(
    "spawn",
    [
        lambda coroutine: asyncio.create_task(coroutine),
        lambda coroutine: asyncio.gather(coroutine),
        lambda coroutine: asyncio.wait_for(coroutine, HANG_S),
        lambda coroutine: asyncio.shield(coroutine),
    ],
    ids=["create_task", "gather", "wait_for", "shield"],
)
def test_what_a_process_starts_is_its_own(spawn: Callable[[Any], Awaitable[Any]]) -> None:
    async def body(slot: Slot) -> None:
        seen = []

        async def inner() -> None:
            await nap()
            seen.append(slot.running[0])

        async def outer() -> None:
            await spawn(inner())

        steps = Steps(7, slot.running)
        await steps.create_task(outer())
        assert seen == [7]
        assert steps.tasks == set()

    run(body)


def test_a_cancelled_step_is_a_step_too() -> None:
    async def body(slot: Slot) -> None:
        seen = []

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                seen.append(slot.running[0])

        steps = Steps(7, slot.running)
        task = steps.create_task(work())
        await nap()
        steps.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [7]
        assert slot.running[0] == 0

    run(body)


def test_idle_is_told_when_the_last_task_has_ended_and_not_before() -> None:
    async def body(slot: Slot) -> None:
        release, told = asyncio.Event(), []

        async def child() -> None:
            await release.wait()

        async def parent() -> None:
            asyncio.get_running_loop().create_task(child())

        steps = Steps(7, slot.running)
        begun = steps.create_task(parent())
        steps.when_idle(lambda: told.append(len(steps.tasks)))
        await begun
        await nap()
        assert told == []
        release.set()
        while not told:
            await nap()
        assert told == [0]

    run(body)


def test_a_plain_call_is_a_step_and_its_tasks_belong_to_the_process() -> None:
    async def body(slot: Slot) -> None:
        steps = Steps(7, slot.running)

        def call() -> int:
            asyncio.get_running_loop().create_task(asyncio.sleep(3600))
            return int(slot.running[0])

        assert steps.run(call) == 7
        assert slot.running[0] == 0
        assert len(steps.tasks) == 1
        with pytest.raises(ZeroDivisionError):
            steps.run(lambda: 1 // 0)
        assert slot.running[0] == 0
        steps.cancel()

    run(body)


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_would_end_the_loop_ends_the_task_alone(ending: type[BaseException]) -> None:
    async def body(slot: Slot) -> None:
        async def leave() -> None:
            raise ending

        with pytest.raises(RuntimeError, match=f"{ending.__name__} raised in a task"):
            await Steps(7, slot.running).create_task(leave())

    run(body)


def test_a_task_of_the_cell_itself_is_nobodys() -> None:
    async def body(slot: Slot) -> None:
        steps = Steps(7, slot.running)
        task = asyncio.get_running_loop().create_task(nap())
        assert steps.tasks == set()
        await task

    run(body)


def test_the_node_reads_what_the_cell_wrote(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "c1")
    assert file.read() == 0
    cell = Slot(str(tmp_path / "c1"))
    cell.running[0] = 2**64 - 3
    assert file.read() == 2**64 - 3
    assert (tmp_path / "c1").stat().st_mode & 0o777 == 0o600
    file.remove()
    assert not (tmp_path / "c1").exists()
    cell.running[0] = 1  # the cell may outlive the file for a moment


def test_a_slot_for_which_there_is_no_room_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError):
        SlotFile(tmp_path / "c1")
    assert list(tmp_path.iterdir()) == []


def test_a_slot_that_was_cut_or_is_gone_names_nobody(tmp_path: Path) -> None:
    """Read through a mapping, it would end the node."""
    file = SlotFile(tmp_path / "c1")
    os.truncate(tmp_path / "c1", 0)
    assert file.read() == 0
    file.remove()
    assert file.read() == 0


def test_the_bytes_of_a_slot_are_there_before_a_cell_writes(tmp_path: Path) -> None:
    """Where a full file system has none to give, the first write would end the cell."""
    file = SlotFile(tmp_path / "c1")
    assert (tmp_path / "c1").stat().st_blocks > 0
    file.remove()


def test_a_slot_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "c1").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        SlotFile(tmp_path / "c1")
    assert (tmp_path / "victim").read_text() == "precious"
