"""What leaves for a cell: starts that are alike leave together, and nothing overtakes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kernel.cell.protocol import LIKE_TOGETHER, StartOrder
from kernel.cells.start_frames import StartFrames
from kernel.shapes import told


class Link:
    """Nobody reads what is sent."""

    def __init__(self) -> None:
        self.frames: list[list[Any]] = []

    def send(self, frame: list[Any]) -> None:
        self.frames.append(frame)


def order(name: str, **config: Any) -> dict[str, Any]:
    return told(StartOrder(f"/user/{name}", name, "agent", "a:B", (), config))


def sent(script: Callable[[StartFrames, Link], None]) -> list[list[Any]]:
    """What a cell was sent when the loop has gone round."""

    async def body() -> list[list[Any]]:
        link = Link()
        script(StartFrames(link.send), link)
        await asyncio.sleep(0)
        return link.frames

    return asyncio.run(body())


def test_starts_that_are_alike_leave_together_behind_the_first() -> None:
    def script(cell: StartFrames, link: Link) -> None:
        for pid in range(1, 5):
            cell.send(["start", pid, order(f"p{pid}", model="m")])
        assert link.frames == [["start", 1, order("p1", model="m")]]

    assert sent(script)[1:] == [["like", 2, "/user/p2", "p2", 3, "/user/p3", "p3", 4, "/user/p4", "p4"]]


def test_a_start_that_differs_leaves_as_it_is_and_behind_those_before_it() -> None:
    def script(cell: StartFrames, link: Link) -> None:
        for pid, model in enumerate("mmnm", 1):
            cell.send(["start", pid, order(f"p{pid}", model=model)])

    assert [frame[:2] for frame in sent(script)] == [["start", number] for number in range(1, 5)]


def test_a_number_and_another_of_the_same_value_are_not_alike() -> None:
    def script(cell: StartFrames, link: Link) -> None:
        for pid, value in enumerate((1, True, 1.0, 1), 1):
            cell.send(["start", pid, order(f"p{pid}", value=[value])])

    assert [repr(frame[2]["config"]["value"]) for frame in sent(script)] == ["[1]", "[True]", "[1.0]", "[1]"]


def test_nothing_overtakes_a_start() -> None:
    def script(cell: StartFrames, link: Link) -> None:
        cell.send(["start", 1, order("p1")])
        cell.send(["start", 2, order("p2")])
        cell.send(["stop", 2, "killed"])
        cell.send(["start", 3, order("p3")])
        cell.send(["start", 4, order("p4")])
        cell.send(["stop", 4, "killed"])
        heads = [frame[:2] for frame in link.frames]
        assert heads == [["start", 1], ["start", 2], ["stop", 2], ["like", 3], ["stop", 4]]

    assert len(sent(script)) == 5


def test_no_frame_orders_more_than_a_cell_makes_without_a_break() -> None:
    def script(cell: StartFrames, link: Link) -> None:
        for pid in range(LIKE_TOGETHER + 3):
            cell.send(["start", pid, order(f"p{pid}")])

    assert [(len(frame) - 1) // 3 for frame in sent(script)[1:]] == [LIKE_TOGETHER, 2]
