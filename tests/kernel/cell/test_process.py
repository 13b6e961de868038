"""A process in its cell, with the frames it sends: a turn that is handed out again while the one before unwinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from kernel.abi import Behaviour, Message, Syscalls, TurnEnded
from kernel.cell import process
from kernel.cell.load import BehaviourError
from kernel.cell.process import CellProcess, Delivery
from kernel.cell.protocol import Value
from kernel.cell.slot import Slot
from kernel.cell.steps import Steps, task_factory
from kernel.shapes import told
from tests.patience import HANG_S

AGAIN = Delivery("t1", Message("m1", "operator", "x", "s", wants_reply=False), [], [])


class Asks:
    """Asks for the time and tells it; ``holds`` is passed before it lets go of a turn that was ended."""

    def __init__(self) -> None:
        self.holds = asyncio.Event()
        self.handled = 0

    async def handle(self, message: Message, sys: Syscalls) -> str:
        self.handled += 1
        try:
            return str(await sys.now())
        except TurnEnded:
            await self.holds.wait()
            raise


class Says:
    def __init__(self, text: str) -> None:
        self.text = text

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return self.text


class Case:
    def __init__(self) -> None:
        self.sent: list[list[Any]] = []
        self.behaviour = Asks()
        behaviour: Behaviour = self.behaviour
        self.process = CellProcess(
            behaviour, Steps(7, Slot(None).running), self.sent.append, lambda pid: None
        )

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(HANG_S):
            while not condition():
                await asyncio.sleep(0.001)

    def ops(self) -> list[str]:
        return [frame[0] for frame in self.sent]


def run(body: Callable[[Case], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(task_factory)
        await body(Case())

    asyncio.run(main())


def test_the_time_to_unwind_a_turn_is_not_that_of_its_next_delivery() -> None:
    async def body(case: Case) -> None:
        case.behaviour.holds.set()
        case.process.deliver(AGAIN)
        await case.until(lambda: case.ops() == ["call"])
        case.process.end("t1", "diverged")
        await case.until(lambda: case.ops() == ["call", "ended"])
        case.process.deliver(AGAIN)
        await asyncio.sleep(process.UNWIND_S * 2)
        assert case.ops() == ["call", "ended", "call"]
        case.process.resolve("t1", 0, 0, {"value": 5})
        await case.until(lambda: len(case.sent) == 4)
        assert case.sent[3] == [
            "done",
            7,
            "t1",
            {"reply": "5.0", "remember": [], "status": "ok", "stages": []},
        ]

    run(body)


def test_the_end_of_a_delivery_that_waits_for_the_one_before_is_its_own() -> None:
    async def body(case: Case) -> None:
        case.process.deliver(AGAIN)
        await case.until(lambda: case.ops() == ["call"])
        case.process.end("t1", "diverged")
        case.process.deliver(AGAIN)
        case.process.end("t1", "cancelled")
        assert case.ops() == ["call", "ended"]
        case.behaviour.holds.set()
        await case.until(lambda: case.ops() == ["call", "ended", "ended"])
        await asyncio.sleep(0)
        assert case.behaviour.handled == 1

    run(body)


def cannot() -> Behaviour:
    raise BehaviourError("it cannot be constructed")


def test_who_is_made_for_a_turn_handles_it_and_those_behind_it() -> None:
    async def body(case: Case) -> None:
        case.process.deliver(replace(AGAIN, turn="t1"))
        case.process.deliver(replace(AGAIN, turn="t2", make=lambda: Says("second")))
        await case.until(lambda: case.ops() == ["call"])
        case.process.resolve("t1", 0, 0, told(Value(1.0)))
        await case.until(lambda: case.ops().count("done") == 2)
        case.process.deliver(replace(AGAIN, turn="t3"))
        await case.until(lambda: case.ops().count("done") == 3)
        case.process.deliver(replace(AGAIN, turn="t4", make=cannot))
        await case.until(lambda: "crashed" in case.ops())
        replies = [frame[3]["reply"] for frame in case.sent if frame[0] == "done"]
        crashed = [frame[3] for frame in case.sent if frame[0] == "crashed"]
        assert replies == ["1.0", "second", "second"] and "it cannot be constructed" in crashed[0]

    run(body)
