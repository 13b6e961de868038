"""The ledger's threads on an error that nobody expected: it is seen, told to whoever waits, and got over or named."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

import chain.journal.signer
import chain.ledger.publication
import chain.tiles.publisher
from chain.errors import LedgerUnavailable
from chain.journal.group import Group
from chain.ledger.ledger import Ledger
from tests.chain.ledger.test_ledger import until, with_ledger
from tests.chain.twins.ledgers import draft
from tests.chain.twins.memory_disk import MemoryDisk
from tests.patience import HANG_S


class FaultyDisk(MemoryDisk):
    """While ``thread`` is the name of a ledger's thread, what that changes raises an error that no disk has."""

    thread = ""

    def _step(self, operation: str) -> None:
        if threading.current_thread().name == self.thread:
            raise ArithmeticError("not meant to be")
        super()._step(operation)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempts come soon, and a fault is seen soon."""
    monkeypatch.setattr(chain.ledger.publication, "PATIENCE_S", 0.01)
    monkeypatch.setattr(chain.tiles.publisher, "RETRY_S", 0.01)
    monkeypatch.setattr(chain.journal.signer, "RETRY_S", 0.01)


@pytest.mark.parametrize(
    ("thread", "part", "said"),
    [
        ("ledger-publisher", "published", "cannot be published: ArithmeticError: not meant to be"),
        ("ledger-signer", "heads", "cannot be signed: ArithmeticError: not meant to be"),
    ],
)
def test_an_error_nobody_expected_is_told_and_got_over(thread: str, part: str, said: str) -> None:
    disk = FaultyDisk()
    told: list[tuple[str, str | None]] = []

    async def work(ledger: Ledger) -> None:
        ledger.on_fault(lambda part, why: told.append((part, why)))
        disk.thread = thread
        await ledger.commit([draft(0)], durable=True).durable()
        with pytest.raises(LedgerUnavailable, match=said):
            await ledger.publish()
        assert said in ledger.faults[part]
        disk.thread = ""
        await until(lambda: not ledger.faults)
        await ledger.publish()
        assert ledger.published_size == ledger.full_size == 1
        await until(lambda: len(told) == 2)
        assert [(where, why and said in why) for where, why in told] == [(part, True), (part, None)]

    with_ledger(work, disk=disk)


class SlowlyFullDisk(MemoryDisk):
    """The first head is on its way when the stop comes, and fails then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on, self.failed = threading.Event(), threading.Event(), False

    def create(self, path: Path) -> int:
        if threading.current_thread().name == "ledger-signer" and not self.failed:
            self.begun.set()
            self.go_on.wait(HANG_S)
            self.failed = True
            raise OSError(errno.ENOSPC, "ENOSPC")
        return super().create(path)


def test_an_attempt_that_was_under_way_when_the_stop_came_is_not_the_last_one() -> None:
    disk = SlowlyFullDisk()

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        await until(disk.begun.is_set)
        closing = asyncio.create_task(ledger.close())
        await until(lambda: ledger._signer._stopping)
        disk.go_on.set()
        await closing
        assert disk.failed and ledger.full_size == 1

    with_ledger(work, disk=disk)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("thread", "part"), [("publisher", "published"), ("signer", "heads")], ids=["publisher", "signer"]
)
def test_a_thread_that_ends_all_the_same_has_said_so(
    monkeypatch: pytest.MonkeyPatch, thread: str, part: str
) -> None:
    """Its own loop is broken, so nothing is tried again: whoever waits is told to restart the node."""

    def broken(*args: object) -> bool:
        raise ArithmeticError("not meant to be")

    async def work(ledger: Ledger) -> None:
        owner = ledger._publisher if thread == "publisher" else ledger._signer
        monkeypatch.setattr(owner, "_due" if thread == "publisher" else "_sign", broken)
        await ledger.commit([draft(0)], durable=True).durable()
        with pytest.raises(LedgerUnavailable, match=r"any more, on ArithmeticError.*restart the node"):
            await ledger.publish()
        assert set(ledger.faults) == {part}
        with pytest.raises(LedgerUnavailable, match="restart the node"):
            await ledger.close()

    with_ledger(work, disk=MemoryDisk())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_has_ended_answers_whoever_wants_a_new_segment() -> None:
    disk = FaultyDisk()
    disk.quick = False  # the thread has a part in each group

    async def work(ledger: Ledger) -> None:
        disk.thread = "ledger-writer"
        ticket = ledger.commit([draft(0)], durable=True)
        wish = asyncio.ensure_future(ledger.upkeep.roll())
        with pytest.raises(LedgerUnavailable, match="writer has stopped on ArithmeticError"):
            await ticket.durable()
        for waiting in (wish, asyncio.ensure_future(ledger.upkeep.roll())):
            with pytest.raises(LedgerUnavailable, match="restart the node"):
                await waiting
        for ask in (ledger.publish, ledger.close):
            with pytest.raises(LedgerUnavailable, match="restart the node"):
                await ask()

    with_ledger(work, disk=disk)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_ends_on_a_new_segment_has_said_so_and_the_loop_writes_nothing_more() -> None:
    disk = FaultyDisk()

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        disk.thread = "ledger-writer"
        wish = asyncio.ensure_future(ledger.upkeep.roll())
        await asyncio.sleep(0)
        ledger._writer._thread.join()
        ticket = ledger.commit([draft(1)], durable=True)  # the loop has not heard of it yet
        for waiting in (ticket.durable(), wish):
            with pytest.raises(LedgerUnavailable, match="restart the node"):
                await waiting
        assert ledger.size == 1 and "restart the node" in (ledger.read_only or "")
        with pytest.raises(LedgerUnavailable, match="restart the node"):
            await ledger.close()

    with_ledger(work, disk=disk)


def test_a_wish_for_a_new_segment_that_a_failing_disk_held_up_is_answered_at_the_stop() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        disk.fail("write", times=10_000)
        ledger.commit([draft(0)])
        wish = asyncio.ensure_future(ledger.upkeep.roll())
        await until(lambda: ledger.read_only is not None)
        with pytest.raises(LedgerUnavailable, match="cannot be written"):
            await ledger.close()
        with pytest.raises(LedgerUnavailable, match="writer has stopped"):
            await wish

    with_ledger(work, disk=disk)


def test_a_callback_that_fails_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    async def work(ledger: Ledger) -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        sizes: list[int] = []

        def fail(group: Group) -> None:
            raise ZeroDivisionError

        ledger.on_group(fail)
        ledger.on_group(lambda group: sizes.append(group.size))
        await ledger.commit([draft(0)], durable=True).durable()
        assert sizes == [1] and len(reported) == 1

    with_ledger(work, tmp_path)
