"""A full disk: what was accepted and the entry that says so go into the space that was set aside."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.reader import EntryRecord, Record
from chain.errors import LedgerUnavailable
from chain.journal.reserve import RESERVE_BYTES, Reserve
from chain.ledger.ledger import Ledger
from chain.state.snapshot import NEW
from tests.chain.twins.ledgers import draft, open_ledger
from tests.chain.twins.memory_disk import Inode, MemoryDisk
from tests.patience import HANG_S

AT = Path("/node")
WAIT_S = HANG_S


class SmallDisk(MemoryDisk):
    """Holds ``capacity`` bytes in all."""

    def __init__(self, capacity: int) -> None:
        MemoryDisk.__init__(self)
        self.capacity = capacity
        self.refused = 0

    def used(self) -> int:
        with self._lock:
            return sum(len(inode.now) for inode in self.names_now.values())

    def fill(self) -> None:
        """Somebody else takes what is left."""
        with self._lock:
            self.names_now[Path("/elsewhere")] = Inode(bytearray(self.capacity - self.used()))

    def make_room(self) -> None:
        with self._lock:
            self.names_now.pop(Path("/elsewhere"))

    def _need(self, grows: int) -> None:
        if grows > 0 and self.used() + grows > self.capacity:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._need(offset + len(data) - len(self.handles[handle].now))
        MemoryDisk.write(self, handle, offset, data)

    def allocate(self, handle: int, size: int) -> None:
        self._need(size)
        MemoryDisk.allocate(self, handle, size)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def with_ledger(disk: MemoryDisk, work: Callable[[Ledger], Awaitable[None]]) -> None:
    async def run() -> None:
        ledger = open_ledger(AT, disk)
        ledger.start(asyncio.get_running_loop())
        await work(ledger)
        await ledger.close()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def kinds(disk: MemoryDisk) -> list[str]:
    found: list[str] = []

    def replay(record: Record) -> None:
        if isinstance(record, EntryRecord):
            found.append(record.entry.kind)

    open_ledger(AT, disk, replay=replay)
    return found


def test_a_full_disk_still_takes_what_was_accepted_and_says_so_and_goes_on_when_there_is_room() -> None:
    disk = SmallDisk(2 * RESERVE_BYTES)

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        await ledger.publish()
        disk.fill()
        accepted = ledger.commit([draft(1)], durable=True)
        await accepted.durable()
        await until(lambda: ledger.size == 3)
        assert ledger.read_only is not None and "the disk is full" in ledger.read_only
        assert "No space left" in ledger.read_only and "make room" in ledger.read_only
        with pytest.raises(LedgerUnavailable, match="the disk is full"):
            ledger.commit([draft(2)])
        refused = disk.refused
        await until(lambda: disk.refused > refused + 1)  # it looks for room, again and again
        assert ledger.read_only is not None
        assert kinds(disk.crash()) == ["message.refused", "message.refused", "node.disk_full"]
        disk.make_room()
        await until(lambda: ledger.read_only is None)
        await ledger.commit([draft(2)], durable=True).durable()
        assert disk.size(AT / "reserve") == RESERVE_BYTES

    with_ledger(disk, work)
    assert kinds(disk)[2:] == ["node.disk_full", "node.disk_free", "message.refused"]


def test_when_even_that_is_taken_callers_get_the_error_and_what_has_a_place_is_written_later() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        await ledger.publish()
        disk.fail("allocate", errno.ENOSPC, 10_000)
        disk.fail("write", errno.ENOSPC, 10_000)
        ticket = ledger.commit([draft(1)], durable=True)
        with pytest.raises(LedgerUnavailable, match="cannot be written"):
            await ticket.durable()
        assert kinds(disk.crash()) == ["message.refused"]
        disk.faults.clear()
        await until(lambda: ledger.read_only is None)
        await ticket.durable()

    with_ledger(disk, work)
    assert kinds(disk) == ["message.refused", "message.refused", "node.disk_full", "node.disk_free"]


def test_a_ledger_does_not_open_on_a_disk_without_room_and_writes_nothing() -> None:
    disk = SmallDisk(RESERVE_BYTES // 2)
    for _ in range(2):
        with pytest.raises(OSError, match=r"the disk is full.*make room") as caught:
            open_ledger(AT, disk)
        assert caught.value.errno == errno.ENOSPC and disk.used() == 0
    disk.capacity *= 3
    assert kinds(disk) == []


def test_a_snapshot_that_was_begun_before_a_crash_does_not_take_the_room_for_it() -> None:
    disk = SmallDisk(2 * RESERVE_BYTES)
    disk.names_now[AT / "snapshot" / NEW] = Inode(bytearray(2 * RESERVE_BYTES))
    assert kinds(disk) == [] and disk.size(AT / "reserve") == RESERVE_BYTES


def test_the_reserve_is_space_on_the_real_disk(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", Disk())
    assert not reserve.release()
    assert reserve.make() and reserve.make()
    there = (tmp_path / "reserve").stat()
    assert there.st_size == RESERVE_BYTES
    assert there.st_blocks * 512 >= RESERVE_BYTES
    assert reserve.release() and not (tmp_path / "reserve").exists()


def test_a_fault_that_is_no_lack_of_space_is_not_taken_for_one() -> None:
    disk = MemoryDisk()
    disk.fail("allocate", errno.EIO)
    with pytest.raises(OSError, match="EIO"):
        Reserve(AT / "reserve", disk).make()
    assert disk.names(AT) == []
