"""Where the tasks of a process stand: as its cell says, and of a cell that is stuck, as its interpreter does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kernel.cell.link.frames import FrameError
from kernel.cell.protocol import CodeLine, Stack
from kernel.cell.stacks import MOST_CALLS, MOST_CHARS, MOST_STACKS, dump_path, stacks_of
from kernel.cells.cell_events import CellView
from kernel.cells.health.stacks import StackQuestions, _bounded, _emptied, _read, read_dump
from kernel.cells.started_cell import StartedCell
from kernel.errors import NotFound, Refused
from kernel.operations.processes import Processes
from tests.kernel.cells.test_cells_local import with_node
from tests.kernel.control.test_control import on_control
from tests.kernel.twins.cell_node import Node
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin
from tests.patience import HANG_S

DUMP = """\
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3/threading.py", line 324 in wait
  File "/a b/with "quotes".py", line 7 in run
Not a line of it
Current thread 0x00007f02 [MainThread] (most recent call first):
  File "<string>", line 3 in handle
  File "x.py", line 99999999999999999999 in beyond
"""


def test_tasks_are_shown_line_by_line_and_of_a_cell_that_is_stuck_its_threads_and_who_holds_it() -> None:
    async def body(node: Node) -> None:
        await node.start(7, "Waits")
        await node.start(8, "Echo")
        await node.start(9, "Blocks", domain="another")
        node.deliver(7, "sleep")
        await node.notes.wait("log", 7)
        found = await node.cells.stacks(7)
        assert (found.stuck, found.running, found.more) == (False, 0, 0)
        [stack] = found.stacks
        assert [call.function for call in stack.calls] == ["_handle", "handle", "sleep"]
        assert stack.calls[1].source == "await asyncio.sleep(3600)"
        assert stack.calls[1].file.endswith("cell_behaviours.py")
        assert (await node.cells.stacks(8)).stacks == ()
        node.deliver(9, "now")
        async with asyncio.timeout(HANG_S):
            while not (found := await node.cells.stacks(9)).stuck:  # it answers until it blocks
                await asyncio.sleep(0)
        assert found.running == 9
        assert any(call.function == "handle" for stack in found.stacks for call in stack.calls)
        with pytest.raises(NotFound, match="PID 10 is in no cell"):
            await node.cells.stacks(10)

    with_node(body)


def test_the_threads_of_a_dump_are_read_and_what_is_none_is_left_out() -> None:
    assert read_dump(DUMP) == [
        Stack(
            "thread 0x00007f01",
            (
                CodeLine('/a b/with "quotes".py', 7, "run", ""),
                CodeLine("/usr/lib/python3/threading.py", 324, "wait", ""),
            ),
        ),
        Stack("thread MainThread", (CodeLine("<string>", 3, "handle", ""),)),
    ]
    assert read_dump("") == []


def test_what_a_cell_says_is_cut_to_what_is_shown() -> None:
    line = CodeLine("f" * 9999, 1, "g" * 9999, "s" * 9999)
    shown, more = _bounded((Stack("n" * 9999, (line,) * 9999),) * (MOST_STACKS + 3), 2)
    assert (len(shown), more) == (MOST_STACKS, 5)
    assert len(shown[0].calls) == MOST_CALLS
    [call, *_] = shown[0].calls
    assert {len(shown[0].name), len(call.file), len(call.function), len(call.source)} == {MOST_CHARS}


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "absent"])
def test_whatever_a_cell_puts_in_place_of_its_dump_nothing_else_is_read_or_emptied(
    tmp_path: Path, kind: str
) -> None:
    other, dump = tmp_path / "other", Path(dump_path(str(tmp_path / "c1")))
    other.write_text("a secret")
    match kind:
        case "link":
            dump.symlink_to(other)
        case "pipe":
            os.mkfifo(dump)
        case "directory":
            dump.mkdir()
    _emptied(dump)
    assert _read(dump) == ""
    assert other.read_text() == "a secret"


@pytest.mark.parametrize("stacks", [{}, {"stacks": [], "more": "1"}, {"stacks": [{"name": 1}], "more": 0}])
def test_an_answer_that_is_none_is_a_lie_of_the_cell(stacks: dict[str, Any]) -> None:
    class Named:
        name = "c1"

    with pytest.raises(FrameError, match="cell c1 sent stacks of the wrong shape"):
        StackQuestions().answered(cast(StartedCell, Named()), 1, stacks)


def test_an_answer_to_nothing_is_passed_over() -> None:
    StackQuestions().answered(
        cast(StartedCell, CellView("c1", 1, (), None, None)), 9, {"stacks": [], "more": 0}
    )


def test_of_very_many_tasks_the_first_are_shown() -> None:
    async def body() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(3600), name=f"{number:04}") for number in range(150)]
        await asyncio.sleep(0)
        assert [stack.name for stack in stacks_of(tasks)] == [f"{number:04}" for number in range(MOST_STACKS)]
        for task in tasks:
            task.cancel()

    asyncio.run(body())


def test_no_value_of_a_variable_is_shown() -> None:
    async def holds(secret: str) -> None:
        await asyncio.sleep(3600)

    async def body() -> None:
        task = asyncio.create_task(holds("hunter2"))
        await asyncio.sleep(0)
        [stack] = stacks_of([task])
        assert [call.function for call in stack.calls] == ["holds", "sleep"]
        assert "hunter2" not in repr(stack)
        task.cancel()

    asyncio.run(body())


class Proxy:
    """Something to await that answers to no name, as a proxy without a context does."""

    def __getattr__(self, name: str) -> Any:
        if name in ("close", "throw"):  # which the interpreter asks for
            raise AttributeError(name)
        raise RuntimeError("outside of a context")

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        return None

    __await__ = __iter__


class Loader:
    def get_source(self, name: str) -> str:
        raise KeyError(name)


def test_nothing_that_a_behaviour_made_up_keeps_its_stack_from_being_told() -> None:
    made_up: dict[str, Any] = {"__loader__": Loader(), "__name__": "made_up"}
    exec(compile("async def handle(what):\n    await what\n", "made_\ud800up.py", "exec"), made_up)

    async def body() -> None:
        task = asyncio.create_task(made_up["handle"](Proxy()), name="a \ud800 name")
        await asyncio.sleep(0)
        assert stacks_of([task]) == [Stack("a ? name", (CodeLine("made_?up.py", 2, "handle", ""),))]
        task.cancel()

    asyncio.run(body())


def test_a_supervisor_has_no_tasks_and_an_agent_is_asked_of_its_cell(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada")
        await twin.spawn("team", type="supervisor", tools=())
        found = await control(Processes.stack, "ada")
        assert (found["address"], found["pid"], found["more"]) == ("/user/ada", pid, 1)
        call = {"file": "a.py", "line": 7, "function": "handle", "source": "await it"}
        assert found["stacks"] == [{"name": "a task", "calls": [call]}]
        with pytest.raises(Refused, match="/user/team is a supervisor"):
            await control(Processes.stack, "team")

    on_control(tmp_path, body)
