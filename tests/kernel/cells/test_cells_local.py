"""Cells on the local engine: real child processes, the real link."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from kernel.abi import OPEN_CALLS, ToolCall
from kernel.cell.link.frames import VALUE_BYTES
from kernel.cell.protocol import CallOutcome
from kernel.cells.cell_events import CellCall, Place, WarmCells
from kernel.cells.engines.engine import EngineError
from kernel.cells.engines.engine_local import LocalEngine
from kernel.cells.health.pulse import Blame
from kernel.errors import Invalid, StateError
from kernel.helper.output_log import OUTPUT_LOGS
from kernel.shapes import told
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.twins.cell_node import OUTCOMES, Node, local_node, placement
from tests.patience import HANG_S


def with_node(body: Callable[[Node], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        async with local_node(**limits) as node:
            await body(node)

    asyncio.run(run())


async def gone(os_pid: int) -> None:
    """Wait until a process is dead, reaped or not."""
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                with open(f"/proc/{os_pid}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except (FileNotFoundError, ProcessLookupError):
                return
            await asyncio.sleep(0.005)


def test_a_process_handles_its_messages_one_after_the_other() -> None:
    async def body(node: Node) -> None:
        await node.start(7, "Echo")
        assert await node.turn(7, "one", "t1") == {
            "reply": "p7: one",
            "remember": [],
            "status": "ok",
            "stages": [],
        }
        assert (await node.turn(7, "two", "t2"))["reply"] == "p7: two"

    with_node(body)


@pytest.mark.parametrize("ends", ["leaves", "killed"])
def test_what_a_process_has_used_is_told_though_it_ends_before_anybody_has_looked(ends: str) -> None:
    async def body(node: Node) -> None:
        await node.start(7, "BurnsAndGoes", isolation="dedicated")
        [begun] = node.notes.of("used", 7)
        node.deliver(7, ends)
        await node.notes.until(lambda: bool(node.notes.of("used", 7)[-1][-1]))
        last = node.notes.of("used", 7)
        assert begun[3] == 0 and sum(event[3] for event in last) >= 50
        assert [event[-1] for event in last].count(True) == 1
        assert len(last) <= 4, "nobody has looked"

    with_node(body)


def test_a_cell_that_may_not_be_signalled_is_left_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A behaviour has made it another user's program. Its link is closed."""
    refused: list[int] = []

    def refuses(handle: int, number: int) -> None:
        refused.append(handle)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async def body(node: Node) -> None:
        await node.start(7, "Echo")
        monkeypatch.setattr(signal, "pidfd_send_signal", refuses)

    with_node(body)
    assert refused


def test_what_is_placed_before_the_cells_are_open_starts_when_they_are() -> None:
    async def run() -> None:
        async with local_node(waiting=[placement(7, "Echo")]) as node:
            await node.notes.wait("started", 7)
            assert (await node.turn(7, "one", "t1"))["reply"] == "p7: one"

    asyncio.run(run())


def test_calls_are_numbered_by_round_and_index_and_outcomes_come_back_as_values() -> None:
    async def body(node: Node) -> None:
        await node.start(7, "Caller")
        result = await node.turn(7, "go")
        assert result["reply"] == f"three ['id1', 'id2'] hello 12.5 {2**64 - 1}"
        assert result["remember"] == [{"history": [{"old": 1}], "tools": ["add"]}]
        calls: list[CellCall] = [event[2] for event in node.notes.of("syscall")]
        assert [(c.round, c.index, c.op) for c in calls] == [
            (0, 0, "tool"),
            (1, 0, "tool"),
            (1, 1, "tool"),
            (2, 0, "model"),
            (3, 0, "now"),
            (4, 0, "random"),
        ]
        assert calls[0].args == ToolCall("add", '{"a":1,"b":2}')
        assert calls[2].args == ToolCall("y", "[1", "id2")
        args = told(calls[0].args)
        first = ["call", 7, calls[0].turn, 0, 0, "tool", args]
        values = len(first) + 1 + 2 * len(args)
        assert calls[0].cost_bytes == len(msgpack.packb(first)) + VALUE_BYTES * values
        assert node.notes.of("log") == [("log", 7, "a line")]

    with_node(body)


def test_shared_processes_of_one_domain_share_a_cell_and_others_do_not() -> None:
    async def body(node: Node) -> None:
        for pid, changes in ((1, {}), (2, {}), (3, {"domain": "other"}), (4, {"isolation": "dedicated"})):
            await node.start(pid, "Echo", **changes)
        cells = [node.cells.place_of(pid).cell for pid in (1, 2, 3, 4)]
        assert cells[0] == cells[1]
        assert len(set(cells)) == 3
        assert len({node.cells.place_of(pid).os_pid for pid in (1, 2, 3, 4)}) == 3
        spare = [view for view in node.cells.list() if view.domain is None]
        assert len(spare) == 2

    with_node(body)


def test_those_that_come_together_again_find_warm_cells() -> None:
    async def body(node: Node) -> None:
        assert node.cells.warm == WarmCells(1, 1, 4)
        for pid in (1, 2, 3):
            node.cells.place(placement(pid, "Echo", isolation="dedicated"))
        for pid in (1, 2, 3):
            await node.notes.wait("started", pid)
        assert node.cells.warm == WarmCells(3, 3, 4)
        warm = {view.cell for view in node.cells.list() if view.domain is None}
        for pid in (4, 5, 6):
            node.cells.place(placement(pid, "Echo", isolation="dedicated"))
        assert {node.cells.place_of(pid).cell for pid in (4, 5, 6)} == warm
        assert node.cells.warm.most == node.cells.warm.wanted == 4

    with_node(body, wave_s=HANG_S, warm_s=10 * HANG_S)


def test_when_it_is_quiet_no_cell_waits_for_nobody() -> None:
    async def body(node: Node) -> None:
        for pid in (1, 2, 3):
            node.cells.place(placement(pid, "Echo", isolation="dedicated"))
        spare = [view.cell for view in node.cells.list() if view.domain is None]
        await until(lambda: node.cells.warm == WarmCells(1, 1, 4))
        assert [view.cell for view in node.cells.list() if view.domain is None] == spare[:1]
        await node.start(4, "Echo", isolation="dedicated")
        assert node.cells.place_of(4).cell == spare[0]

    with_node(body, warm_s=0.2)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("no_such_module_at_all:X", "cannot import no_such_module_at_all:X: ModuleNotFoundError"),
        ("cell_behaviours:Missing", "AttributeError"),
        ("broken_import:X", "RuntimeError: this import fails (broken_import.py:"),
        ("exiting_import:X", "SystemExit: 4"),
        ("StartRaises", "StartRaises cannot be constructed: RuntimeError: no such start"),
        ("NotABehaviour", "is not a class with a handle(message, sys) method"),
        ("cell_behaviours:", "is not module:name"),
    ],
)
def test_a_start_that_fails_says_why_and_harms_nobody_else(behaviour: str, why: str) -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        node.cells.place(placement(2, behaviour))
        failed = await node.notes.wait("start_failed", 2)
        assert why in failed[2]
        assert "\n" not in failed[2]
        await node.start(3, "Echo")
        assert node.cells.place_of(3).cell == node.cells.place_of(1).cell
        assert (await node.turn(1, "hi"))["reply"] == "p1: hi"
        assert node.cells.place_of(2).cell == ""

    with_node(body)


def test_a_start_that_hangs_times_out_and_only_its_cell_dies() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Echo", domain="other")
        node.limit(start_s=1)
        node.cells.place(placement(3, "StartHangs"))
        failed = await node.notes.wait("start_failed", 3)
        assert failed[2] == "timeout: not constructed within 1 s"
        lost = await node.notes.wait("cell_lost")
        assert lost[2:4] == (0, [1])
        assert (await node.turn(2, "hi"))["reply"] == "p2: hi"
        assert len(node.notes.of("cell_lost")) == 1

    with_node(body, confirm_s=0.3)


def test_those_that_wait_behind_a_hanging_start_are_not_blamed_for_it() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        node.limit(start_s=2)
        node.cells.place(placement(2, "StartHangs"))
        await node.running(2)
        for pid in (3, 4):
            node.cells.place(placement(pid, "Echo"))
        assert (await node.notes.wait("start_failed"))[1] == 2
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [1, 3, 4])
        assert len(node.notes.of("start_failed")) == 1

    with_node(body, confirm_s=0.3)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("raise", "ValueError: two lines \\x1b[31m (cell_behaviours.py:"),
        ("exit 3", "SystemExit: 3"),
        ("logical nonsense", "Error: "),
        ("logical tired", "ValueError: reason is 'tired', must be one of no_progress, refused"),
        ("nested", "Unspeakable: its text raised RuntimeError"),
        ("type", "TypeError: handle() returned int, expected TurnResult, str or None"),
        ("task exit", "RuntimeError: SystemExit raised in a task"),
        ("surrogate", "its result cannot be sent: UnicodeEncodeError"),
        ("huge", "its result cannot be sent: FrameError: frame of"),
    ],
)
def test_an_exception_ends_its_process_and_the_cell_goes_on(text: str, detail: str) -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Crashes")
        node.deliver(2, text, "t9")
        crashed = await node.notes.wait("crashed", 2)
        assert crashed[2] == "t9"
        assert detail in crashed[3]
        assert (await node.turn(1, "hi"))["reply"] == "p1: hi"
        await node.start(3, "Echo")
        assert node.cells.place_of(3).os_pid == node.cells.place_of(1).os_pid
        with pytest.raises(StateError, match="pid 2 is in no cell"):
            node.deliver(2, "again", "t10")

    with_node(body, confirm_s=HANG_S)


def test_a_process_may_leave_by_itself() -> None:
    async def body(node: Node) -> None:
        await node.start(2, "Crashes")
        node.deliver(2, "exit 0")
        assert await node.notes.wait("exited", 2) == ("exited", 2, "normal", "")

    with_node(body)


def test_a_process_may_end_itself_for_a_logical_reason() -> None:
    async def body(node: Node) -> None:
        for pid, text, end in (
            (2, "logical", ("refused", "two lines \\x1b[31m" + "x" * 500)),
            (3, "logical of its own", ("no_progress", "more")),
        ):
            await node.start(pid, "Crashes")
            node.deliver(pid, text)
            _, _, reason, detail = await node.notes.wait("exited", pid)
            assert (reason, detail) == (end[0], end[1][:500])

    with_node(body)


def test_a_cancelled_turn_ends_at_the_call_that_waits_and_the_next_one_follows() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Waits")
        node.deliver(1, "call", "t1")
        await node.notes.wait("syscall", 1)
        node.cells.end_turn(1, "t1", "cancelled")
        node.deliver(1, "sleep", "t2")
        await node.notes.wait("log", 1)
        node.cells.end_turn(1, "t2", "cancelled")
        node.notes.answers = lambda pid, call: OUTCOMES[call.op]
        assert (await node.turn(1, "call", "t3"))["reply"] == "went on"
        assert not node.notes.of("crashed")
        assert [event[2] for event in node.notes.of("turn_done")] == ["t3"]

    with_node(body, confirm_s=HANG_S)


def test_a_turn_that_does_not_unwind_is_a_crash_and_the_cell_dies_with_it() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Stubborn")
        node.deliver(2, "x", "t1")
        await node.notes.wait("log", 2)
        node.cells.end_turn(2, "t1", "cancelled")
        crashed = await node.notes.wait("crashed", 2)
        assert crashed[2:] == (None, "turn t1 went on for 0.2 s after it had been ended", True)
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [1])

    with_node(body, confirm_s=0.2)


def test_stopping_a_process_frees_its_place_and_says_nothing_more() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Waits")
        node.deliver(2, "call")
        await node.notes.wait("syscall", 2)
        node.cells.stop(2, "shutdown")
        heard = len(node.notes.all)
        await node.start(3, "Echo")
        assert node.cells.place_of(3).os_pid == node.cells.place_of(1).os_pid
        assert [event[0] for event in node.notes.all[heard:]] == ["started"]
        assert node.cells.place_of(2).os_pid == 0

    with_node(body, confirm_s=HANG_S)


def test_a_coroutine_that_survives_cancel_costs_its_cell_and_the_others_are_reported_lost_once() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Stubborn")
        await node.start(3, "Echo")
        os_pid = node.cells.place_of(1).os_pid
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.cells.stop(2, "killed")
        node.cells.place(placement(4, "Echo"))  # its successor must not die with the cell
        lost = await node.notes.wait("cell_lost")
        assert lost[2:5] == (0, [1, 3], "pid 2 still ran 0.3 s after its death")
        await node.notes.wait("started", 4)
        assert (await node.turn(4, "hi"))["reply"] == "p4: hi"
        assert len(node.notes.of("cell_lost")) == 1
        await gone(os_pid)

    with_node(body, confirm_s=0.3)


def test_who_waits_in_a_dying_cell_and_is_stopped_for_its_loss_runs_in_no_other() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Stubborn")
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.cells.stop(2, "killed")
        node.cells.place(placement(3, "Echo"))
        node.cells.place(placement(4, "Echo"))

        def stop_with_it() -> None:  # as when its parent goes with that cell
            node.limit(confirm_s=HANG_S)  # it was short for the stubborn one
            node.cells.stop(3, "killed")

        node.notes.lost = stop_with_it
        assert (await node.notes.wait("cell_lost"))[3] == [1]
        await node.start(5, "Echo")  # once the cell has confirmed what was stopped there
        assert sorted(pid for view in node.cells.list() for pid in view.pids) == [4, 5]
        assert not node.notes.of("started", 3)

    with_node(body, confirm_s=0.3)


def test_a_task_left_behind_by_a_turn_is_cancelled() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Leaves")
        assert (await node.turn(1, "x", "t1"))["reply"] == "left"
        node.cells.stop(1, "shutdown")
        async with asyncio.timeout(HANG_S):
            while node.cells.place_of(1).cell:
                await asyncio.sleep(0.005)
        assert not node.notes.of("cell_lost")

    with_node(body, confirm_s=HANG_S)


@pytest.mark.parametrize("text", ["", "in a task"])
def test_a_cell_killed_in_the_middle_of_a_step_names_the_running_pid(text: str) -> None:
    async def body(node: Node) -> None:
        for pid in (1, 2, 3):
            await node.start(pid, "Kills")
        cell = node.cells.place_of(2).cell
        node.deliver(2, text)
        assert await node.notes.wait("cell_lost") == ("cell_lost", cell, 2, [1, 2, 3], "end of file", True)
        assert node.cells.place_of(1).os_pid == 0
        await node.start(4, "Echo")

    with_node(body)


def test_a_cell_for_whose_output_there_is_no_thread_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(path: Path) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(OUTPUT_LOGS, "pipe_to", no_thread)
    with pytest.raises(EngineError, match="cannot start a cell: can't start new thread"):
        asyncio.run(LocalEngine(1, {}, {}, tmp_path, tmp_path / "log").start_cell("c1", "t"))


def test_an_idle_cell_killed_from_outside_blames_nobody() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Waits")
        await node.start(2, "Echo")
        node.deliver(1, "call")
        await node.notes.wait("syscall", 1)
        await node.running()  # what it asks is on its way before the step is over
        os.kill(node.cells.place_of(1).os_pid, signal.SIGKILL)
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [1, 2])

    with_node(body)


def test_a_cell_that_is_held_by_a_process_is_killed_and_the_holder_named() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Blocks")
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.watch(hang_s=1)  # not before: a slow machine holds a cell too
        lost = await node.notes.wait("cell_lost")
        assert lost[2:5] == (2, [1, 2], "it did not answer for 1 s")
        assert node.notes.ends == [("timeout", ("/user/p2", 2))]

    with_node(body)


def test_a_cell_that_gets_no_processor_for_a_while_is_not_lost_with_who_ends_meanwhile() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Echo")
        os_pid = node.cells.place_of(1).os_pid
        os.kill(os_pid, signal.SIGSTOP)
        node.cells.stop(1, "stopped")
        await asyncio.sleep(0.5)
        os.kill(os_pid, signal.SIGCONT)
        assert (await node.turn(2, "hi"))["reply"] == "p2: hi"
        assert not node.notes.of("cell_lost")

    with_node(body, confirm_s=0.1)


def test_native_code_that_never_gives_the_interpreter_back_costs_the_cell_and_is_named() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "NeverYields")
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.watch(hang_s=1)
        lost = await node.notes.wait("cell_lost")
        assert lost[2:4] == (2, [1, 2])
        assert node.notes.ends == [("timeout", ("/user/p2", 2))]
        await node.start(3, "Echo")

    with_node(body)


def test_a_cell_with_too_much_memory_is_killed_and_who_runs_in_it_is_named() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Explodes")
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.limit(memory_bytes=2**26)
        node.watch(hang_s=HANG_S / 100)
        lost = await node.notes.wait("cell_lost")
        assert lost[2:4] == (2, [1, 2])
        assert re.fullmatch("it held [0-9]+ MiB of memory, limit 64", lost[4])
        assert node.notes.ends == [("crash", ("/user/p2", 2))]

    with_node(body)


def test_who_runs_at_the_moment_has_not_filled_a_cell_in_which_others_are_at_work_too() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Waits")
        await node.start(2, "Explodes")
        node.deliver(1, "sleep")
        await node.notes.wait("log", 1)
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        cell = node.cells._where[2]
        async with asyncio.timeout(HANG_S):
            while cell.running() != 2:
                await asyncio.sleep(0.001)
        node.cells.lose(cell, "for the test", blame=Blame.ALONE)
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [1, 2])
        assert node.notes.ends == [("crash", None)]

    with_node(body)


def test_who_swallows_every_cancellation_costs_its_cell_and_is_named() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Stubborn")
        node.deliver(2, "x")
        await node.notes.wait("log", 2)
        node.cells.end_turn(2, "t1", "cancelled")
        assert "went on for 0.3 s after it had been ended" in (await node.notes.wait("crashed", 2))[3]
        node.cells.place(placement(3, "Echo", address="/user/p2"))  # its successor
        node.cells.place(placement(4, "Echo"))
        await node.notes.wait("cell_lost", count=2)
        ends = list(zip(node.notes.of("cell_lost"), node.notes.ends, strict=True))
        assert [(lost[2:4], felled_by) for lost, (_, felled_by) in ends] == [
            ((0, [1]), ("/user/p2", 2)),
            ((0, [3]), None),  # where it goes is decided anew
        ]
        await node.notes.wait("started", 4)

    with_node(body, confirm_s=0.3)


def test_of_isolated_ones_that_share_a_cell_nobody_is_halved_when_it_dies_of_nobody_knows_what() -> None:
    async def body(node: Node) -> None:
        node.limit(isolated_cells=1)
        for pid in (1, 2, 3, 4):
            await node.start(pid, "Echo", isolation="isolated")
        places = [node.cells.place_of(pid) for pid in (1, 2, 3, 4)]
        assert [place.isolation for place in places] == ["dedicated", "shared", "shared", "shared"]
        node.cells.lose(node.cells._where[2], "for the test", blame=Blame.NOBODY)
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [2, 3, 4])
        for pid in (2, 3, 4):
            await node.start(pid + 10, "Echo", address=f"/user/p{pid}", isolation="isolated")
        assert len({node.cells.place_of(pid + 10).cell for pid in (2, 3, 4)}) == 1

    with_node(body)


def test_the_processes_of_a_cell_that_died_of_nobody_knows_what_start_again_in_two() -> None:
    async def body(node: Node) -> None:
        async def again(*numbers: int) -> list[list[int]]:
            for number in numbers:
                pid = next(pids)
                where[pid] = number
                await node.start(pid, "Echo", address=f"/user/p{number}")
            cells = [sorted(where[pid] for pid in view.pids) for view in node.cells.list() if view.pids]
            return sorted(cells)

        async def lose(number: int) -> None:
            pid = max(pid for pid in where if where[pid] == number)
            await node.running()
            os.kill(node.cells.place_of(pid).os_pid, signal.SIGKILL)
            await node.notes.wait("cell_lost", count=len(node.notes.of("cell_lost")) + 1)

        pids = itertools.count(1)
        where: dict[int, int] = {}
        assert await again(1, 2, 3, 4) == [[1, 2, 3, 4]]
        await lose(3)
        assert await again(1, 2, 3, 4, 5) == [[1, 2], [3, 4], [5]]
        await lose(3)
        assert await again(3, 4, 6) == [[1, 2], [3], [4], [5, 6]]
        await lose(3)
        assert node.notes.ends[-1] == ("crash", ("/user/p3", max(pid for pid in where if where[pid] == 3)))

    with_node(body)


DIFFERENCES: dict[str, tuple[str, str, str] | None] = {
    "asks": ("1.0", 'tool {"arguments":"{\\"run\\":1}"', 'tool {"arguments":"{\\"run\\":2}"'),
    "asks more": ("1.0", "nothing", "now {}"),
    "asks less": ("1.0", "now {}", "nothing"),
    "raises": ("end", "it ended", "ValueError: again"),
    "returns": ("end", '{"remember":[],"reply":"run 1"', '{"remember":[],"reply":"run 2"'),
    "changes what it asked": None,
    "changes what it was told": None,
    "large": None,
    "together": None,
    "nothing": None,
}


def test_a_turn_that_does_otherwise_when_it_is_gone_through_again_is_told_where() -> None:
    async def body(node: Node) -> None:
        for pid, (text, said) in enumerate(DIFFERENCES.items(), 1):
            await node.start(pid, "Strays", check_replay=True, config={"word": "x"})
            assert (await node.turn(pid, text))["status"] == "ok", text
            found = node.notes.of("differs", pid)
            assert len(found) == (said is not None), text
            if said is not None:
                assert found[0][1:4] == (pid, "t1", said[0])
                assert found[0][4].startswith(said[1])
                assert found[0][5].startswith(said[2])
        assert not node.notes.of("log")

    with_node(body)


def test_what_a_turn_left_running_comes_no_further_while_it_is_gone_through_again() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "GoesOn", check_replay=True)
        await node.turn(1, "x")
        assert (
            len(node.notes.of("syscall")) <= 3
        )  # of a few rounds of the loop; it is answered at once each time

    with_node(body)


def test_whatever_can_be_awaited_is_gone_through_again() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Promises", check_replay=True)
        assert (await node.turn(1, "x"))["reply"] == "done"
        assert not node.notes.of("differs")

    with_node(body)


def test_what_a_behaviour_keeps_in_memory_is_found_by_a_check_and_without_one_nothing_runs_twice() -> None:
    async def body(node: Node) -> None:
        for pid, check in ((1, True), (2, False)):
            await node.start(pid, "Remembering", check_replay=check)
            for turn in ("t1", "t2"):
                await node.turn(pid, "x", turn)
            assert len(node.notes.of("syscall", pid)) == 2
        assert [found[1:4] for found in node.notes.of("differs")] == [(1, "t2", "0.0")]

    with_node(body)


def test_a_call_too_large_for_the_link_is_an_answer_and_no_crash() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Large")
        assert (await node.turn(1, "x"))["reply"] == "error ok"

    with_node(body)


def test_calls_beyond_those_that_may_be_under_way_wait_in_the_cell() -> None:
    async def body(node: Node) -> None:
        held: list[CellCall] = []

        def hold(pid: int, call: CellCall) -> CallOutcome | None:
            held.append(call)
            return None

        node.notes.answers = hold
        await node.start(7, "Many")
        node.deliver(7, "go")
        await node.notes.wait("syscall", 7, OPEN_CALLS)
        most = 0
        for answered in range(800):
            await node.notes.wait("syscall", 7, answered + 1)
            most = max(most, len(held) - answered)
            call = held[answered]
            node.cells.result(7, call.turn, call.round, call.index, OUTCOMES[call.op])
        result = (await node.notes.wait("turn_done", 7))[3]
        assert result["reply"] == "400 400 {12.5}"
        assert most == OPEN_CALLS
        ordinals = [(call.round, call.index) for call in held]
        assert ordinals == sorted(ordinals)

    with_node(body)


@pytest.mark.parametrize("behaviour", ["Flood", "Foreign"])
def test_who_breaks_a_rule_of_the_link_is_to_blame_and_its_neighbours_are_not(behaviour: str) -> None:
    async def body(node: Node) -> None:
        for pid in (7, 8):
            await node.start(pid, "Waits")
            node.deliver(pid, "x")
        await node.start(9, behaviour)
        node.deliver(9, "go")
        if behaviour == "Flood":  # the frames can be read: it crashes alone
            assert "calls open for pid 9, the limit" in (await node.notes.wait("crashed", 9))[3]
            await node.start(10, "Echo")  # in the same cell, which goes on
            assert [sorted(view.pids) for view in node.cells.list() if view.pids] == [[7, 8, 10]]
        else:  # the link is of no use any more, but whose frame it was can be read
            _, _, running, lost, *_ = await node.notes.wait("cell_lost")
            assert (running, sorted(lost)) == (9, [7, 8, 9])

    with_node(body, confirm_s=HANG_S)


def test_a_turn_too_large_for_the_link_is_refused_to_the_kernel() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        with pytest.raises(Invalid, match="turn t1 cannot be handed to pid 1: frame of"):
            node.deliver(1, "x" * (17 * 2**20), "t1")
        assert (await node.turn(1, "hi", "t2"))["reply"] == "p1: hi"
        for pid, isolation in ((2, "shared"), (3, "dedicated")):
            node.cells.place(placement(pid, "Echo", isolation=isolation, config={"x": "x" * (17 * 2**20)}))
            assert "too large" in (await node.notes.wait("start_failed", pid))[2]
            assert node.cells.place_of(pid) == Place()

    with_node(body)


def test_a_dedicated_cell_ends_with_its_process() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo", isolation="dedicated")
        os_pid = node.cells.place_of(1).os_pid
        node.cells.stop(1, "shutdown")
        await gone(os_pid)
        assert not node.notes.of("cell_lost")

    with_node(body, confirm_s=HANG_S)


def test_what_a_dedicated_process_uses_of_the_processor_is_told_and_of_a_shared_one_nothing() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Burns", isolation="dedicated")
        await node.start(2, "Burns")
        for pid in (1, 2):
            node.deliver(pid, "burn", f"t{pid}")
        await node.notes.until(lambda: any(event[3] for event in node.notes.of("used", 1)))
        _, _, address, _, memory_bytes, _ = await node.notes.wait("used", 1)
        assert address == "/user/p1" and memory_bytes > 2**20
        assert not node.notes.of("used", 2)

    with_node(body, hang_s=1)


def test_the_last_cell_there_may_be_is_the_last() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo", isolation="dedicated")
        node.cells.place(placement(2, "Echo", isolation="dedicated"))
        node.cells.place(placement(3, "Echo", isolation="dedicated"))
        failed = await node.notes.wait("refused", 3)
        assert failed[2] == "there are 2 cells, the limit"

    with_node(body, cells=2)


def test_while_no_cell_can_be_made_losses_are_told_and_who_waits_for_one_is_lost_with_it() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Echo")
        await node.start(2, "Echo", isolation="dedicated")
        shutil.rmtree(node.cells.slots_dir)
        os.kill(node.cells.place_of(1).os_pid, signal.SIGKILL)
        assert (await node.notes.wait("cell_lost"))[2:4] == (0, [1])
        node.cells.place(placement(3, "Echo"))
        _, cell, running, pids, why, _ = await node.notes.wait("cell_lost", count=2)
        assert (running, pids) == (0, [3])
        assert f"cell {cell} failed to start: " in why
        node.cells.slots_dir.mkdir()
        await node.start(3, "Echo")
        assert (await node.turn(3, "hi"))["reply"] == "p3: hi"

    with_node(body, cells=2)


def test_a_cell_whose_end_cannot_be_heard_of_is_ended_and_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    born: list[int] = []

    def refuse(pid: int) -> int:
        born.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pidfd_open", refuse)
            async with local_node(waiting=[placement(7, "Echo")], cells=1) as node:
                assert (await node.notes.wait("cell_lost"))[2:4] == (0, [7])
                assert [pid for pid in born if Path(f"/proc/{pid}").exists()] == []
                patch.undo()
                await node.start(7, "Echo")

    asyncio.run(run())
    assert len(born) == 1


def test_a_cell_holds_nothing_of_ours_but_the_abi_its_own_shell_and_what_bounds_a_frame() -> None:
    async def body(node: Node) -> None:
        await node.start(1, "Modules")
        loaded = (await node.turn(1, "x"))["reply"].split()
        allowed = {"kernel", "kernel.abi", "kernel.cell", "kernel.shapes", "mesh", "mesh.bounded"}
        assert [name for name in loaded if name not in allowed and not name.startswith("kernel.cell.")] == []

    with_node(body)


def test_closing_leaves_no_process_and_no_file() -> None:
    async def body(node: Node) -> None:
        for pid in (1, 2):
            await node.start(pid, "Echo", isolation="dedicated")
        os_pids = [view.os_pid for view in node.cells.list() if view.os_pid]
        slots = node.cells.slots_dir
        await node.cells.close()
        for os_pid in os_pids:
            await gone(os_pid)
        assert list(slots.iterdir()) == []
        assert not node.socket_path.exists()
        assert not node.notes.of("cell_lost")

    with_node(body)
