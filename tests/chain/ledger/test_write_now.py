"""Groups that the event loop writes by itself: on the disk before anybody is told, in order, and never for long."""

from __future__ import annotations

import asyncio
import errno
import math
import threading
from typing import Any

import pytest

import chain.journal.pace
import chain.ledger.ledger
from chain.ledger.ledger import WRITE_NOW_BYTES, Draft, Ledger
from chain.ledger.waking import LAZY_S, MARGIN_S
from tests.chain.ledger.test_ledger import AT, until, with_ledger
from tests.chain.twins.ledgers import draft, whys
from tests.chain.twins.memory_disk import MemoryDisk
from tests.patience import HANG_S


@pytest.fixture(autouse=True)
def all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may wait as often as it likes, and nothing is written that nobody asked for: not the first head
    either, which is recorded whenever the signer is done. No time is as long as NaN.
    """
    monkeypatch.setattr(chain.ledger.ledger, "HEAD_RECORD_S", math.nan)
    monkeypatch.setattr(chain.journal.pace, "SHARE", 1)
    monkeypatch.setattr(chain.journal.pace, "LONE_GROUPS", 0)
    monkeypatch.setattr(
        chain.journal.pace, "WAIT_S", HANG_S
    )  # no stall of the machine makes the disk a slow one


LOOP = threading.main_thread().name
THREAD = "ledger-writer"


class SeenDisk(MemoryDisk):
    """Notes which thread writes frames. ``answers``: what ``sync_within`` says next, once each: True, False (it is
    under way until ``sync``), or an error.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writers: list[str] = []
        self.answers: list[bool | OSError] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def write(self, handle: int, offset: int, data: bytes) -> None:
        if data.startswith(b"WFRM"):
            self.writers.append(threading.current_thread().name)
        super().write(handle, offset, data)

    def sync_within(self, handle: int, within_s: float) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, OSError):
            raise answer
        return answer and super().sync_within(handle, within_s)

    def sync(self, handle: int) -> None:
        if threading.current_thread().name == THREAD:
            self.go_on.wait()
        super().sync(handle)


def test_the_loop_writes_for_a_lone_caller_and_no_other_thread_has_a_part_in_it() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        for number in range(5):
            await ledger.commit([draft(number)], durable=True).durable()
            assert whys(AT, disk.crash()) == [f"w{at}" for at in range(number + 1)]
        assert disk.writers == [LOOP] * 5

    with_ledger(work, disk=disk)


def test_a_disk_that_hangs_does_not_hold_the_loop_and_nobody_is_told_before_it_is_done() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        disk.answers, disk.writers = [False], []
        disk.go_on.clear()
        tickets = [ledger.commit([draft(1)], durable=True)]
        await asyncio.sleep(0.01)
        tickets += [ledger.commit([draft(at)], durable=True) for at in (2, 3)]
        await asyncio.sleep(0.01)  # the loop runs on
        assert [ticket.group for ticket in tickets] == [None] * 3 and disk.writers == [LOOP]
        assert whys(AT, disk.crash()) == ["w0"]
        disk.go_on.set()
        first, *others = [(await ticket.durable()).number for ticket in tickets]
        assert others == [first + 1] * 2 and disk.writers == [LOOP, THREAD]
        assert whys(AT, disk.crash()) == ["w0", "w1", "w2", "w3"]

    with_ledger(work, disk=disk)


@pytest.mark.parametrize("fault", ["write", "sync_within", "sync"])
def test_what_the_loop_could_not_write_is_tried_again_with_the_same_bytes(fault: str) -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        told: list[str | None] = []
        ledger.on_fault(lambda part, why: told.append(why))
        if fault == "write":
            disk.torn = 20
            disk.fail("write")
        elif fault == "sync_within":
            disk.answers = [OSError(errno.EIO, "EIO")]
        else:
            disk.answers = [False]
            disk.fail("sync")
        ticket = ledger.commit([draft(0)], durable=True)
        await until(lambda: ticket.group is not None)
        assert len(told) == 2 and "the journal cannot be written" in str(told[0]) and told[1] is None
        await ledger.commit([draft(1)], durable=True).durable()
        assert whys(AT, disk.crash()) == ["w0", "w1"]

    with_ledger(work, disk=disk)


def test_much_at_once_is_left_to_the_thread() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        body = {"to": "/a", "sender": "operator", "why": "x" * WRITE_NOW_BYTES}
        await ledger.commit([Draft("message.refused", body)], durable=True).durable()
        assert disk.writers == [THREAD]

    with_ledger(work, disk=disk)


def test_a_full_disk_is_the_threads_affair_until_there_is_room_again() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        disk.fail("write", errno.ENOSPC)
        await ledger.commit([draft(0)], durable=True).durable()
        await until(lambda: ledger.read_only is None)
        assert THREAD in disk.writers
        while disk.writers[-1] != LOOP:  # the thread may be at what it wrote last
            await ledger.commit([draft(1)], durable=True).durable()

    with_ledger(work, disk=disk)


def test_commits_that_nobody_waits_for_wait_for_the_next_one_that_somebody_does() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        loop = asyncio.get_running_loop()
        for number in range(4):
            written, since_s = len(disk.writers), loop.time()
            ledger.commit([draft(2 * number)])
            await asyncio.sleep(0.012)
            old = len(disk.writers) - written  # the timer found it old, as on a machine that stood still
            assert not old or loop.time() - since_s >= LAZY_S - MARGIN_S
            await ledger.commit([draft(2 * number + 1)], durable=True).durable()
            assert len(disk.writers) == written + old + 1
        written = len(disk.writers)
        lazy = ledger.commit([draft(9)])
        await until(lambda: lazy.group is not None)
        assert len(disk.writers) == written + 1

    with_ledger(work, disk=disk)


def test_calls_of_other_threads_come_in_order_with_one_wake_up_and_each_by_itself() -> None:
    from chain.ledger.loop_calls import LoopCalls

    async def run() -> None:
        loop = asyncio.get_running_loop()
        calls, heard, reported = LoopCalls(), list[int](), list[object]()
        calls.start(loop)
        loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))

        def hear(number: int) -> None:
            heard.append(number)
            if number == 3:
                raise ArithmeticError

        def post() -> None:
            for number in range(10):
                calls.post(hear, number)

        thread = threading.Thread(target=post)
        thread.start()
        await until(lambda: len(heard) == 10)
        thread.join()
        assert heard == list(range(10)) and len(reported) == 1

    asyncio.run(run())


def test_what_a_frame_waits_for_is_on_the_disk_when_the_frame_is_heard() -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        for number in range(3):
            with ledger.hearing:
                ticket = ledger.commit([draft(number)], durable=True)
                assert ticket.group is None
            assert ticket.group is not None and whys(AT, disk.crash())[-1] == f"w{number}"
        await asyncio.sleep(0)
        assert disk.writers == [LOOP] * 3

    with_ledger(work, disk=disk)


@pytest.mark.parametrize("why", ["several wait", "the disk is slow", "nobody waits"])
def test_what_the_loop_does_not_write_at_once_is_not_written_while_a_frame_is_heard(why: str) -> None:
    disk = SeenDisk()

    async def work(ledger: Ledger) -> None:
        disk.answers = [False] if why == "the disk is slow" else []
        waited_for = why != "nobody waits"
        with ledger.hearing:
            tickets = [ledger.commit([draft(0)], durable=waited_for)]
            if why == "several wait":
                tickets.append(ledger.commit([draft(1)], durable=True))
        assert [ticket.group for ticket in tickets] == [None] * len(tickets)
        groups = [await ticket.durable() for ticket in tickets]
        assert {group.number for group in groups} == {0}

    with_ledger(work, disk=disk)


def test_full_heads_wake_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.ledger.ledger, "HEAD_RECORD_S", 10**6)  # the first head, and no other

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        await until(lambda: ledger._head_recorded_at > float("-inf") and ledger._unwritten.newest is None)
        await ledger.publish()
        loop = asyncio.get_running_loop()
        woken: list[object] = []
        call = loop.call_soon_threadsafe

        def wake(*args: Any) -> asyncio.Handle:
            woken.append(args)
            return call(*args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", wake)
        for number in range(1, 4):
            await ledger.commit([draft(number)], durable=True).durable()
            await until(lambda: ledger.full_size == ledger.size)
        assert ledger.full_size == 4 and ledger.head_note == ledger.full_note and woken == []
        monkeypatch.undo()

    with_ledger(work, disk=SeenDisk(), publish_s=10.0**6)
