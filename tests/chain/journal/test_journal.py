from __future__ import annotations

import errno
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.frame import segment_name
from chain.entry.reader import JournalReader
from chain.entry.record import StateRecord, encode_payload, encode_state_record
from chain.errors import DamageError
from chain.journal.journal import Journal
from tests.chain.twins.ledgers import KEYS
from tests.chain.twins.memory_disk import MemoryDisk, PowerCut

AT = Path("/journal")
SEGMENT = 600


def payload(number: int) -> bytes:
    return encode_payload([encode_state_record("t", str(number), bytes(60))], None)


def open_journal(disk: MemoryDisk) -> tuple[Journal, list[int]]:
    """The journal, and the numbers of the payloads that it holds."""
    reader = JournalReader(AT, disk)
    held = [
        int(record.key)
        for group in reader.groups()
        for record in group.records
        if isinstance(record, StateRecord)
    ]
    return Journal(AT, disk, "weftos-abc", reader.position, segment_bytes=SEGMENT), held


def write_until_power_cut(disk: MemoryDisk, count: int) -> list[int]:
    """Append; the numbers that were acknowledged."""
    acknowledged: list[int] = []
    try:
        journal, held = open_journal(disk)
        for number in range(len(held), len(held) + count):
            journal.append(payload(number), KEYS.sign_ed25519)
            acknowledged.append(number)
    except PowerCut:
        pass
    return acknowledged


@pytest.mark.parametrize("kept_bytes", [0, 1, 30, 10_000])
def test_a_power_cut_at_any_operation_loses_nothing_acknowledged_and_leaves_a_journal_that_opens(
    kept_bytes: int,
) -> None:
    whole = MemoryDisk()
    write_until_power_cut(whole, 8)
    assert whole.log.count("rename") >= 3, "the run must include rolled segments"
    for cut_at in range(whole.steps + 1):
        disk = MemoryDisk()
        disk.cut_at, disk.torn = cut_at, 25
        acknowledged = write_until_power_cut(disk, 8)
        after = disk.crash(kept_bytes)
        journal, held = open_journal(after)
        assert held == list(range(len(held))), cut_at
        assert len(acknowledged) <= len(held) <= len(acknowledged) + 1, cut_at
        journal.append(payload(len(held)), KEYS.sign_ed25519)
        assert open_journal(after)[1] == list(range(len(held) + 1)), cut_at


def test_a_second_power_cut_during_recovery_loses_nothing_either() -> None:
    disk = MemoryDisk()
    disk.torn = 25
    disk.cut_at = 12
    acknowledged = write_until_power_cut(disk, 8)
    assert acknowledged
    for cut_at in range(8):
        again = disk.crash(kept_bytes=10)
        again.cut_at = cut_at
        more = write_until_power_cut(again, 1)
        held = open_journal(again.crash())[1]
        assert held[: len(acknowledged + more)] == acknowledged + more


def test_what_a_killed_process_had_not_synced_is_on_the_disk_before_anything_is_built_on_it() -> None:
    whole = MemoryDisk()
    write_until_power_cut(whole, 8)
    for killed_at in range(whole.steps + 1):
        disk = MemoryDisk()
        disk.cut_at = killed_at
        write_until_power_cut(disk, 8)
        disk.cut_at = None  # the process alone is gone: the machine still has all that it wrote
        journal, held = open_journal(disk)
        journal.append(payload(len(held)), KEYS.sign_ed25519)
        assert open_journal(disk.crash())[1] == list(range(len(held) + 1)), killed_at


@pytest.mark.parametrize("operation", ["write", "sync", "truncate", "create", "rename", "sync_directory"])
@pytest.mark.parametrize("torn", [0, 40])
def test_after_any_failed_operation_the_same_append_succeeds_later_and_is_there_once(
    operation: str, torn: int
) -> None:
    disk = MemoryDisk()
    disk.torn = torn
    journal, _ = open_journal(disk)
    failures = 0
    for number in range(12):
        disk.fail(operation, errno.ENOSPC)
        if operation == "truncate":
            disk.fail("sync")
        for _attempt in range(5):
            try:
                journal.append(payload(number), KEYS.sign_ed25519)
                break
            except OSError:
                failures += 1
        disk.faults.clear()
    assert failures >= 3
    assert open_journal(disk.crash())[1] == list(range(12))


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("killed", [True, False])
def test_what_follows_a_segment_that_could_not_be_begun_is_read_again(operation: str, killed: bool) -> None:
    """Killed, it finds names that were given and not synced; after a power cut it does not."""
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    journal.append(payload(0), KEYS.sign_ed25519)
    disk.fail(operation)
    with pytest.raises(OSError, match="EIO"):
        journal.roll()
    for number in (1, 2):
        journal.append(payload(number), KEYS.sign_ed25519)
    after = disk if killed else disk.crash()
    for number in range(3, 6):
        again, held = open_journal(after)
        assert held == list(range(number))
        again.append(payload(number), KEYS.sign_ed25519)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_nothing_of_a_long_frame_that_failed_is_left_behind_the_short_one_that_follows(
    operation: str,
) -> None:
    disk = MemoryDisk()
    disk.torn = 350
    journal, _ = open_journal(disk)
    journal.append(payload(0), KEYS.sign_ed25519)
    disk.fail(operation)
    long = encode_payload([encode_state_record("t", "1", bytes(400))], None)
    with pytest.raises(OSError, match="EIO"):
        journal.append(long, KEYS.sign_ed25519)
    journal.append(payload(1), KEYS.sign_ed25519)
    after = disk.crash()
    reader = JournalReader(AT, after)
    assert [group.number for group in reader.groups()] == [0, 1]
    assert reader.tail is None
    assert after.size(AT / reader.position.file) == reader.position.offset
    assert open_journal(after)[1] == [0, 1]


def test_after_a_failed_sync_the_descriptor_is_not_used_again() -> None:
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    journal.append(payload(0), KEYS.sign_ed25519)
    before = set(disk.handles)
    disk.fail("sync")
    with pytest.raises(OSError, match="EIO"):
        journal.append(payload(1), KEYS.sign_ed25519)
    journal.append(payload(1), KEYS.sign_ed25519)
    assert not before & set(disk.handles)


def test_a_journal_whose_synced_end_changed_under_it_is_not_written_to() -> None:
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    journal.append(payload(0), KEYS.sign_ed25519)
    disk.fail("sync")
    with pytest.raises(OSError, match="EIO"):
        journal.append(payload(1), KEYS.sign_ed25519)
    inode = disk.names_now[AT / "0000000000000000.wj"]
    inode.now[150] ^= 1
    content = bytes(inode.now)
    for _ in range(2):
        with pytest.raises(DamageError, match="does not read back"):
            journal.append(payload(1), KEYS.sign_ed25519)
    assert bytes(inode.now) == content


def test_every_opening_begins_a_segment_and_an_empty_one_is_taken_over() -> None:
    disk = MemoryDisk()
    for _ in range(3):
        open_journal(disk)
    assert disk.names(AT) == ["0000000000000000.wj"]
    open_journal(disk)[0].append(payload(0), KEYS.sign_ed25519)
    open_journal(disk)
    assert disk.names(AT) == ["0000000000000000.wj", "0000000000000001.wj"]


class _RefusingOnce(Disk):
    def __init__(self) -> None:
        self.refuses = False

    def sync_directory(self, directory: Path) -> None:
        if self.refuses:
            self.refuses = False
            raise OSError(errno.EIO, "Input/output error")
        super().sync_directory(directory)


def after_a_refused_roll(directory: Path, disk: _RefusingOnce) -> Journal:
    journal = Journal(directory, disk, "weftos-abc", JournalReader(directory, disk).position)
    journal.append(payload(0), KEYS.sign_ed25519)
    disk.refuses = True
    with pytest.raises(OSError, match="Input/output"):
        journal.roll()
    return journal


def test_a_roll_whose_directory_was_not_synced_goes_on_in_the_new_segment(tmp_path: Path) -> None:
    disk = _RefusingOnce()
    journal = after_a_refused_roll(tmp_path, disk)
    for number in (1, 2):
        journal.append(payload(number), KEYS.sign_ed25519)
    journal.close()
    assert disk.names(tmp_path) == [segment_name(0), segment_name(1)]
    with (tmp_path / segment_name(1)).open("ab") as torn:
        torn.write(b"the beginning of a frame")
    reader = JournalReader(tmp_path, disk)
    assert [group.number for group in reader.groups()] == [0, 1, 2]


def test_a_name_that_is_not_on_the_disk_is_before_anything_is_written_behind_it(tmp_path: Path) -> None:
    disk = _RefusingOnce()
    journal = after_a_refused_roll(tmp_path, disk)
    disk.refuses = True
    with pytest.raises(OSError, match="Input/output"):
        journal.append(payload(1), KEYS.sign_ed25519)
    assert not journal.at_rest
    assert journal.append(payload(1), KEYS.sign_ed25519) == 1
    assert journal.at_rest
    journal.close()
