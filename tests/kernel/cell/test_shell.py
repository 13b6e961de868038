"""A cell and the frames of its node: one that is not what was declared ends it, and says why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kernel.abi import LastExit, Message, ProcessInfo, Syscalls
from kernel.cell.link.frames import FrameError
from kernel.cell.protocol import STARTED_TOGETHER, StartOrder, ToolOutcome, Value
from kernel.cell.shell import Cell
from kernel.cell.steps import task_factory
from kernel.shapes import told

START = told(StartOrder("/user/a", "a", "asks", f"{__name__}:Asks", (), {}))
MESSAGE = told(Message("m1", "operator", "x", "s", wants_reply=False))


class Asks:
    """Asks for the time and tells it."""

    def __init__(self, info: ProcessInfo) -> None: ...

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return str(await sys.now())


class Remembers:
    """Replies with what it was told of its forerunner."""

    def __init__(self, info: ProcessInfo) -> None:
        self._told = info.last_exit

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return repr(self._told)


class Names:
    """Replies with who it is; what it was told is its own to change."""

    def __init__(self, info: ProcessInfo) -> None:
        info.config["seen"].append(info.name)
        self._told = f"{info.pid} {info.address} {info.name} {info.config['seen']}"

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return self._told


class Picky:
    """Does not take every name."""

    def __init__(self, info: ProcessInfo) -> None:
        if info.name == "no":
            raise ValueError("not this one")

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return ""


class Sent:
    """A link that nobody reads."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, value: Any) -> None:
        self.frames.append(value)


def hear(*frames: list[Any]) -> list[Any]:
    """What a cell answers to such frames, heard one by one."""

    async def body() -> list[Any]:
        asyncio.get_running_loop().set_task_factory(task_factory)
        cell = Cell()
        cell.link = sent = Sent()
        for frame in frames:
            cell.received(frame)
            for _ in range(8):
                await asyncio.sleep(0)
        return list(sent.frames)

    return asyncio.run(body())


BEGUN = (["start", 7, START], ["turn", 7, "t1", MESSAGE, [], []])


def test_starts_that_come_together_are_reported_together_and_before_all_else_of_them() -> None:
    async def body() -> list[Any]:
        cell = Cell()
        cell.link = sent = Sent()
        for pid in range(1, STARTED_TOGETHER + 4):
            cell.received(["start", pid, START])
        cell.received(["stop", 2, "killed"])
        cell.received(["start", 99, START])
        await asyncio.sleep(0)
        return sent.frames

    first, second, stopped, third = asyncio.run(body())
    assert first == ["started", *range(1, STARTED_TOGETHER + 1)]
    assert second == ["started", *range(STARTED_TOGETHER + 1, STARTED_TOGETHER + 4)]
    assert (stopped, third) == (["stopped", 2], ["started", 99])


@pytest.mark.parametrize("end", [None, LastExit("logical", "refused", "a détail", 12.5, 3)])
def test_a_behaviour_is_told_how_its_forerunner_ended(end: LastExit | None) -> None:
    start = told(StartOrder("/user/a", "a", "remembers", f"{__name__}:Remembers", (), {}, end))
    *_, done = hear(["start", 7, start], ["turn", 7, "t1", MESSAGE, [], []])
    assert done[0] == "done" and repr(end) in str(done[-1])


@pytest.mark.parametrize(
    "end", [{}, "crash", {**told(LastExit("logical", "refused", "", 1.0, 3)), "kind": "odd"}]
)
def test_an_end_of_another_shape_is_no_start(end: object) -> None:
    with pytest.raises(FrameError, match="a start of the wrong shape: last_exit"):
        hear(["start", 7, {**START, "last_exit": end}])


def test_a_turn_has_what_the_node_told() -> None:
    *_, done = hear(*BEGUN, ["result", 7, "t1", 0, 0, told(Value(12.5))])
    assert done == ["done", 7, "t1", {"reply": "12.5", "remember": [], "status": "ok", "stages": []}]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (["start", 8, START | {"config": []}], "a start of the wrong shape: config is list, not dict"),
        (["turn", 7, "t2", MESSAGE | {"text": 1}, [], []], "a turn of the wrong shape: text is int, not str"),
        (["result", 7, "t1", 0, 0, told(ToolOutcome("ok", "", False))], "fields value"),
        (["result", 7, "t1", 0, 0, None], "fields value"),
        (["result", 7, "t1", 0, 0, {"value": True}], "a result of the wrong shape: value is bool, not float"),
    ],
)
def test_a_frame_of_another_shape_ends_the_cell_by_its_field(frame: list[Any], words: str) -> None:
    with pytest.raises(FrameError, match=words):
        hear(*BEGUN, frame)


def test_an_outcome_that_nobody_waits_for_is_dropped() -> None:
    assert hear(*BEGUN, ["result", 7, "t1", 3, 0, None])[-1][:2] == ["call", 7]


def test_starts_that_are_like_the_last_order_differ_from_it_in_pid_address_and_name() -> None:
    frames = hear(
        ["start", 7, told(StartOrder("/user/a", "a", "names", f"{__name__}:Names", (), {"seen": []}))],
        ["like", 8, "/user/b", "b", 9, "/user/c", "c"],
        ["turn", 7, "t1", MESSAGE, [], []],
        ["turn", 9, "t2", MESSAGE, [], []],
        ["turn", 8, "t3", MESSAGE, [], []],
    )
    assert [frame for frame in frames if frame[0] == "started"] == [["started", 7], ["started", 8, 9]]
    assert [frame[-1]["reply"] for frame in frames if frame[0] == "done"] == [
        "7 /user/a a ['a']",
        "9 /user/c c ['c']",
        "8 /user/b b ['b']",
    ]


def test_of_starts_that_are_alike_one_that_fails_takes_no_other_along() -> None:
    order = told(StartOrder("/user/a", "a", "picky", f"{__name__}:Picky", (), {}))
    frames = hear(["start", 7, order], ["like", 8, "/user/no", "no", 9, "/user/c", "c"])
    assert [frame[:2] for frame in frames] == [["started", 7], ["failed", 8], ["stopped", 8], ["started", 9]]


def test_a_start_that_is_like_none_ends_the_cell() -> None:
    with pytest.raises(FrameError, match="before any other"):
        hear(["like", 8, "/user/b", "b"])
