"""What expires is a dead letter when it does, whatever its receiver is at; time is wound by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kernel.message.messaging import DEAD_LETTERS_AT_ONCE
from kernel.model.commands import Command
from kernel.slices.mailboxes import Mail
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin, go_off, kernel_twin
from tests.kernel.twins.tree_twin import HandClock

LATE_S = 3600.0


class Timed:
    """A twin, and the clock that it and its ledger go by."""

    def __init__(self, twin: Twin, clock: HandClock) -> None:
        self.twin, self.clock = twin, clock

    async def send(self, text: str, in_s: float) -> Mail:
        """A message to ada that expires in that time."""
        due_us = self.twin.ledger.now_us() + int(in_s * 1e6)
        return await self.twin.send("ada", text, deadline_us=due_us)

    def dead(self) -> list[tuple[str, str]]:
        return [(letter.mail.text, letter.reason) for letter in self.twin.kernel.state.dead.values()]


def on_clock(
    tmp_path: Path, body: Callable[[Timed], Awaitable[None]], clock: HandClock | None = None, **options: Any
) -> None:
    wound = clock or HandClock()

    async def run() -> None:
        now: dict[str, Any] = {"clock": wound, "now_us": lambda: int(wound.time_s * 1e6)}
        async with kernel_twin(tmp_path, **now, **options) as twin:
            await body(Timed(twin, wound))

    asyncio.run(run())


def test_what_expires_behind_a_turn_is_a_dead_letter_then_and_its_sender_is_told(tmp_path: Path) -> None:
    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        await at.twin.send("ada")
        turn = await at.twin.delivery()
        late = await at.send("late", 5.0)
        kept = await at.send("kept", 9.0)
        soon = await at.send("soon", 1.0)  # the newest is due first
        at.clock.wind(0.9)
        assert at.dead() == []
        at.clock.wind(0.2)
        assert at.dead() == [("soon", "expired")]
        assert await at.twin.end_of(soon) == {
            "status": "dead", "reply": "expired before it was delivered", "turn": "",
        }  # fmt: skip
        at.clock.wind(5.0)
        assert (await at.twin.end_of(late))["status"] == "dead"
        at.twin.finish(turn)  # only now is ada free
        assert (await at.twin.delivery()).message.id == kept.id
        tally = at.twin.kernel.state.tally
        assert (tally.accepted, tally.acknowledged, tally.dead, tally.in_flight) == (4, 1, 2, 1)

    on_clock(tmp_path, body)


def test_what_has_begun_does_not_expire_also_when_it_is_delivered_again(tmp_path: Path) -> None:
    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        begun = await at.send("begun", 1.0)
        turn = await at.twin.delivery()
        at.clock.wind(LATE_S)
        at.twin.crash(turn)
        again = await at.twin.delivery()
        assert again.message.id == begun.id
        at.twin.finish(again)
        assert (await at.twin.end_of(begun))["status"] == "ok"
        assert len(at.twin.kernel.state.mail.deadlines) == 0 and at.dead() == []

    on_clock(tmp_path, body)


def test_a_message_that_has_begun_before_the_node_was_killed_does_not_expire_after_it(tmp_path: Path) -> None:
    clock = HandClock()

    async def first(at: Timed) -> None:
        await at.twin.spawn("ada")
        await at.send("begun", 1.0)
        await at.twin.delivery()
        await at.send("waits", 2.0)
        await at.send("kept", 2 * LATE_S)

    async def then(at: Timed) -> None:
        clock.wind(1.0)
        async with asyncio.timeout(LIMIT_S):
            while not at.dead():
                await asyncio.sleep(0)
        again = await at.twin.delivery()
        assert again.message.text == "begun"
        assert at.dead() == [("waits", "expired")]
        at.twin.finish(again)
        assert (await at.twin.delivery()).message.text == "kept"

    on_clock(tmp_path, first, clock)
    clock.wind(LATE_S)
    on_clock(tmp_path, then, clock)


def test_a_process_that_is_suspended_lets_its_messages_expire(tmp_path: Path) -> None:
    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        at.twin.kernel.processes.suspend("/user/ada", Command(-1, "operator:0"))
        late = await at.send("late", 1.0)
        at.clock.wind(1.1)
        assert (await at.twin.end_of(late))["status"] == "dead"

    on_clock(tmp_path, body)


def test_who_asks_is_told_that_nobody_answered_in_time_and_then_his_question_goes(tmp_path: Path) -> None:
    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        await at.twin.send("ada")
        await at.twin.delivery()  # ada is busy
        await at.twin.spawn("bob")
        await at.twin.send("bob")
        bob = await at.twin.delivery()
        at.twin.ask_tool(bob, "ask", {"to": "ada", "text": "?", "timeout_s": 60})
        async with asyncio.timeout(LIMIT_S):
            while (attempt := at.twin.kernel.attempts.get(bob.turn, "0.0")) is None or attempt.timer is None:
                await asyncio.sleep(0)
        at.clock.wind(60.9)
        assert at.dead() == []
        go_off(attempt.timer)
        assert (await at.twin.result())["status"] == "timeout"
        assert at.dead() == []
        at.clock.wind(0.2)
        assert at.dead() == [("?", "expired")]

    on_clock(tmp_path, body)


def test_while_the_disk_refuses_nothing_expires_and_then_it_does(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        await at.twin.send("ada")
        await at.twin.delivery()
        late = await at.send("late", 1.0)
        await at.twin.ledger.barrier()
        disk.full = True
        refused = asyncio.create_task(at.twin.send("ada", "refused"))
        async with asyncio.timeout(LIMIT_S):
            while at.twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        at.clock.wind(1.1)
        assert at.dead() == [] and at.twin.kernel.recorder.waiting
        disk.full = False
        assert (await at.twin.end_of(late))["status"] == "dead"
        await asyncio.wait([refused])

    on_clock(tmp_path, body, disk=disk)


def test_many_expire_a_few_at_a_time_and_what_is_behind_them_is_delivered(tmp_path: Path) -> None:
    async def body(at: Timed) -> None:
        await at.twin.spawn("ada")
        await at.twin.send("ada")
        turn = await at.twin.delivery()
        for _ in range(2 * DEAD_LETTERS_AT_ONCE + 1):
            await at.send("late", 1.0)
        last = await at.twin.send("ada")
        at.clock.wind(1.1)
        assert len(at.dead()) == DEAD_LETTERS_AT_ONCE
        at.twin.finish(turn)
        assert (await at.twin.delivery()).message.id == last.id
        assert len(at.dead()) == 2 * DEAD_LETTERS_AT_ONCE + 1

    on_clock(tmp_path, body)
