from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import chain.ledger.waking
from chain.entry.reader import EntryRecord, HeadRecord, Record, StateRecord, read_records
from chain.errors import DamageError, EntryError, ForeignDataError, LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft, Group, Ledger, StateChange
from chain.merkle.head import parse_head
from chain.notes.note import verify
from chain.proofs.receipt import check
from tests.chain.twins.ledgers import KEYS, OTHER_KEYS, abandon, draft, fill, open_ledger, whole, whys
from tests.chain.twins.memory_disk import MemoryDisk
from tests.patience import HANG_S

AT = Path("/data")
WAIT_S = HANG_S


def with_ledger(
    work: Callable[[Ledger], Coroutine[Any, Any, Any]],
    directory: Path = AT,
    disk: MemoryDisk | None = None,
    **options: Any,
) -> Any:
    """Run ``work`` on an opened and started ledger, then stop it cleanly."""

    async def run() -> Any:
        ledger = open_ledger(directory, disk, **options)
        ledger.start(asyncio.get_running_loop())
        try:
            return await asyncio.wait_for(work(ledger), WAIT_S)
        finally:
            await ledger.close()

    return asyncio.run(run())


async def until(true: Callable[[], bool]) -> None:
    """Turn the loop until ``true()``; bounded by the caller's time limit."""
    while not true():
        await asyncio.sleep(0.001)


def test_a_durable_commit_is_synced_before_its_caller_goes_on_and_everything_before_it_too() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        lazy = ledger.commit([draft(0), StateChange("t", "k", b"v")])
        ticket = ledger.commit([draft(1)], durable=True)
        assert [item.entry.seq for item in ticket.entries] == [1]
        group = await ticket.durable()
        assert lazy.group is not None and (group.size, ledger.size, ledger.next_seq) == (2, 2, 2)
        assert whys(AT, disk.crash()) == ["w0", "w1"]

    with_ledger(work, disk=disk)


def test_commits_of_one_round_of_the_loop_share_a_frame() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        async def caller(number: int) -> Group:
            return await ledger.commit([draft(number)], durable=True).durable()

        groups = await asyncio.gather(*(caller(number) for number in range(50)))
        assert {group.number for group in groups} == {0}

    with_ledger(work, disk=disk)


def test_a_lazy_commit_reaches_the_disk_by_itself() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        seen: list[Group] = []
        ledger.on_group(seen.append)
        ticket = ledger.commit([draft(0)])
        await until(lambda: bool(seen))
        assert seen[0] == ticket.group and whys(AT, disk.crash()) == ["w0"]  # the full head may be next

    with_ledger(work, disk=disk)


@pytest.mark.parametrize(
    ("kind", "body", "at_once"),
    [
        ("message.accepted", {}, True),
        ("message.accepted", {"reply_to": "m7@weftos-b"}, True),
        ("message.accepted", {"reply_to": "t7:0.0"}, False),
        ("turn.ended", {}, True),
        ("turn.ended", {"call": "t7:0.0"}, False),
        ("tool.intent", {"effects": "external"}, True),
        ("tool.intent", {"effects": "none"}, False),
        ("tool.intent", {"effects": "local", "tool": "ask"}, False),
        ("tool.outcome", {}, False),
    ],
)
def test_what_the_table_of_kinds_calls_durable_goes_to_the_disk_at_once_whoever_writes_it(
    kind: str, body: dict[str, Any], at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain.ledger.waking, "LAZY_S", 3600.0)

    async def work(ledger: Ledger) -> None:
        first = ledger.commit([draft(0)])
        ticket = ledger.commit([whole(kind, body), StateChange("t", "k", b"v")])
        if at_once:
            await until(lambda: first.group is not None and ticket.group is not None)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (ticket.group is not None) is at_once

    with_ledger(work, disk=MemoryDisk())


def test_a_commit_is_one_unit_even_when_its_last_record_is_bad() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        with pytest.raises(EntryError):
            ledger.commit([draft(0), StateChange("t", "k", b"v"), Draft("no.such", {})])
        await ledger.commit([draft(1), draft(2, cause=PREVIOUS)], durable=True).durable()

    with_ledger(work, disk=disk)
    assert whys(AT, disk) == ["w1", "w2"]


def test_everything_is_replayed_in_order_and_the_ledger_goes_on_where_it_was() -> None:
    disk = MemoryDisk()
    fill(AT, 3, disk)
    records: list[Record] = []

    async def work(ledger: Ledger) -> None:
        assert (ledger.next_seq, ledger.size, ledger.recovery.torn_bytes, ledger.recovery.closed) == (
            9,
            9,
            0,
            True,
        )
        ticket = ledger.commit([draft(9, pid=8)], durable=True)
        await ticket.durable()
        entry = ticket.entries[0].entry
        last = [record.entry for record in records if isinstance(record, EntryRecord)][-1]
        assert (entry.seq, entry.count) == (9, 3) and entry.time_us >= last.time_us

    with_ledger(work, disk=disk, replay=records.append)
    assert [type(record) for record in records[:4]] == [EntryRecord, EntryRecord, EntryRecord, StateRecord]
    assert whys(AT, disk) == [f"w{seq}" for seq in range(10)]


def test_every_entry_of_every_group_has_a_receipt_that_checks() -> None:
    async def work(ledger: Ledger) -> None:
        for size in (1, 2, 5, 1, 16, 3):
            ticket = ledger.commit([draft(at) for at in range(size)], durable=True)
            group = await ticket.durable()
            for written in ticket.entries:
                assert check(group.receipt(written), KEYS.ed25519) == written.entry

    with_ledger(work, disk=MemoryDisk())


def test_the_newest_head_gets_its_second_signature_and_its_slot() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        assert ledger.head_note == ledger.full_note == b""
        await ledger.commit([draft(0)], durable=True).durable()
        verify(ledger.head_note, [KEYS.ed25519])
        await until(lambda: ledger.full_size == 1)
        note = verify(ledger.full_note, [KEYS.ed25519, KEYS.mldsa])
        assert parse_head(note.text).size == 1 and ledger.head_note == ledger.full_note
        assert ledger.full_note in [disk.read(AT / "heads" / name) for name in disk.names(AT / "heads")]

    with_ledger(work, disk=disk)


def test_a_head_that_a_crash_left_provisional_is_completed_at_the_next_start() -> None:
    disk = MemoryDisk()

    async def crash(ledger: Ledger) -> MemoryDisk:
        disk.fail("create", errno.ENOSPC, 10_000)
        await ledger.commit([draft(0)], durable=True).durable()
        await until(lambda: ledger.head_fault is not None)
        after = disk.crash()
        disk.faults.clear()
        return after

    after = with_ledger(crash, disk=disk)
    assert after.names(AT / "heads") == []

    async def work(ledger: Ledger) -> None:
        await until(lambda: ledger.full_size == 1)

    with_ledger(work, disk=after)


def test_a_clean_stop_ends_the_journal_with_the_full_head_over_all_of_it() -> None:
    disk = MemoryDisk()
    fill(AT, 3, disk)
    last = list(read_records(AT / "journal", disk))[-1]
    assert isinstance(last, HeadRecord) and last.closing
    note = verify(last.note, [KEYS.ed25519, KEYS.mldsa])
    assert parse_head(note.text).size == 9
    assert last.note in [disk.read(AT / "heads" / name) for name in disk.names(AT / "heads")]


def test_a_closed_ledger_refuses_and_can_be_closed_again() -> None:
    async def work(ledger: Ledger) -> None:
        await ledger.close()
        with pytest.raises(LedgerUnavailable, match="closed"):
            ledger.commit([draft(0)])
        await ledger.close()

    with_ledger(work, disk=MemoryDisk())


@pytest.mark.parametrize(
    ("operation", "code"), [("write", errno.EIO), ("write", errno.EROFS), ("sync", errno.EIO)]
)
@pytest.mark.parametrize("torn", [0, 90, 100_000])
def test_a_disk_that_refuses_makes_the_ledger_read_only_until_it_writes_again(
    operation: str, code: int, torn: int
) -> None:
    disk = MemoryDisk()
    disk.torn = torn

    async def work(ledger: Ledger) -> None:
        await ledger.commit([draft(0)], durable=True).durable()
        await until(lambda: ledger.full_size == 1)
        disk.fail(operation, code, 10_000)
        first = ledger.commit([draft(1)], durable=True)
        second = ledger.commit([draft(2)])
        for ticket in (first, second):
            with pytest.raises(LedgerUnavailable, match=errno.errorcode[code]):
                await ticket.durable()
        assert ledger.read_only is not None and errno.errorcode[code] in ledger.read_only
        with pytest.raises(LedgerUnavailable, match="cannot be written"):
            ledger.commit([draft(3)])
        with pytest.raises(LedgerUnavailable):
            await ledger.barrier()
        assert (ledger.size, ledger.next_seq) == (1, 3)
        assert whys(AT, disk.crash()) == ["w0"]
        disk.faults.clear()
        await until(lambda: ledger.read_only is None)
        group = await second.durable()
        assert group.size == ledger.size == 3
        ticket = ledger.commit([draft(3)], durable=True)
        await ticket.durable()
        assert ticket.entries[0].entry.seq == 3

    with_ledger(work, disk=disk)
    assert whys(AT, disk.crash()) == ["w0", "w1", "w2", "w3"]


def test_a_stop_on_a_disk_that_refuses_says_so_and_loses_nothing_acknowledged() -> None:
    disk = MemoryDisk()

    async def run() -> None:
        ledger = open_ledger(AT, disk)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0)], durable=True).durable()
        disk.fail("write", errno.EIO, 10_000)
        refused = ledger.commit([draft(1)])
        with pytest.raises(LedgerUnavailable, match="EIO"):
            await ledger.close()
        with pytest.raises(LedgerUnavailable):
            await refused.durable()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert whys(AT, disk.crash()) == ["w0"]


def test_a_caller_that_is_cancelled_while_waiting_takes_nobody_along() -> None:
    disk = MemoryDisk()
    disk.quick = False

    async def work(ledger: Ledger) -> None:
        ticket = ledger.commit([draft(0)], durable=True)
        impatient = asyncio.ensure_future(ticket.durable())
        patient = asyncio.ensure_future(ledger.barrier())
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert ticket.group is not None and impatient.cancelled()

    with_ledger(work, disk=disk)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_in_the_writer_is_an_error_to_everyone_who_waits() -> None:
    class Broken(MemoryDisk):
        def write(self, handle: int, offset: int, data: bytes) -> None:
            if data.startswith(b"WFRM"):
                raise ZeroDivisionError("a fault of ours")
            super().write(handle, offset, data)

    async def run() -> None:
        ledger = open_ledger(AT, Broken())
        ledger.start(asyncio.get_running_loop())
        with pytest.raises(
            LedgerUnavailable, match=r"writer has stopped on ZeroDivisionError.*restart the node"
        ):
            await ledger.commit([draft(0)], durable=True).durable()
        with pytest.raises(LedgerUnavailable):
            ledger.commit([draft(1)])
        with pytest.raises(LedgerUnavailable):
            await ledger.close()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_another_nodes_keys_are_refused_and_nothing_is_touched() -> None:
    disk = MemoryDisk()
    fill(AT, 2, disk)
    for name in disk.names(AT / "heads"):
        disk.remove(AT / "heads" / name)
    steps = disk.steps
    with pytest.raises(ForeignDataError, match=f"{KEYS.origin}.*{OTHER_KEYS.origin}"):
        open_ledger(AT, disk, OTHER_KEYS)
    assert disk.steps == steps


def test_a_journal_that_lost_its_end_is_not_continued() -> None:
    disk = MemoryDisk()
    fill(AT, 1, disk)
    short = disk.crash()
    fill(AT, 3, disk)
    short.names_now.update(
        {path: inode for path, inode in disk.names_now.items() if path.parent == AT / "heads"}
    )
    with pytest.raises(DamageError, match="covers 12 entries, the journal holds 3: its end is gone"):
        open_ledger(AT, short)


def test_damage_inside_the_journal_is_refused_with_file_and_place(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    path = tmp_path / "journal" / "0000000000000000.wj"
    content = bytearray(path.read_bytes())
    content[400] ^= 0x20
    path.write_bytes(content)
    with pytest.raises(DamageError, match=r"0000000000000000\.wj, byte \d+, entry \d+"):
        open_ledger(tmp_path)


def test_segments_roll_and_all_of_them_replay() -> None:
    disk = MemoryDisk()

    async def work(ledger: Ledger) -> None:
        for number in range(30):
            await ledger.commit([draft(number)], durable=True).durable()

    with_ledger(work, disk=disk, segment_bytes=2000)
    assert len(disk.names(AT / "journal")) > 5
    assert whys(AT, disk) == [f"w{number}" for number in range(30)]


def test_a_ledger_that_was_never_started_can_be_left(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    asyncio.run(ledger.close())
    abandon(open_ledger(tmp_path))
    assert whys(tmp_path) == []


def test_who_was_held_up_first_goes_on_first() -> None:
    """Whoever came while the disk took what had gathered went before them, as often as it liked."""

    async def work(ledger: Ledger) -> None:
        went_on: list[str] = []
        big = [Draft("message.refused", {"to": "/a", "sender": "operator", "why": "x" * 200_000})] * 50
        ticket = ledger.commit(big)
        ledger.when_room(lambda: went_on.append("first"))
        ledger.when_room(lambda: went_on.append("second"))
        assert went_on == []

        def newcomer(group: Group) -> None:
            if not went_on:
                ledger.when_room(lambda: went_on.append("newcomer"))

        ledger.on_group(newcomer)
        await ticket.durable()
        await until(lambda: len(went_on) == 3)
        assert went_on == ["first", "second", "newcomer"]

    with_ledger(work, disk=MemoryDisk())
