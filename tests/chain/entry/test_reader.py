from __future__ import annotations

from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.reader import EntryRecord, HeadRecord, JournalReader, Position, StateRecord, read_records
from chain.errors import DamageError
from tests.chain.journal.test_journal import AT, open_journal, payload
from tests.chain.twins.ledgers import KEYS, fill
from tests.chain.twins.memory_disk import MemoryDisk


def segment(data_dir: Path, at: int = 0) -> Path:
    return sorted((data_dir / "journal").iterdir())[at]


def test_records_come_back_in_order_with_their_bodies(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    records = list(read_records(tmp_path / "journal"))
    entries = [record for record in records if isinstance(record, EntryRecord)]
    assert [record.entry.seq for record in entries] == list(range(12))
    assert [record.body["why"] for record in entries] == [f"w{seq}" for seq in range(12)]
    assert [record.key for record in records if isinstance(record, StateRecord)] == ["k0", "k1", "k2", "k3"]
    assert isinstance(records[-1], HeadRecord) and records[-1].closing


def test_a_follower_goes_on_from_its_position_across_segments_and_reads_nothing_twice() -> None:
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    reader = JournalReader(AT, disk)
    seen: list[int] = []
    for number in range(20):
        journal.append(payload(number), KEYS.sign_ed25519)
        if number % 3 == 0:
            seen += [group.number for group in reader.groups()]
            reader = JournalReader(AT, disk, reader.position)
    seen += [group.number for group in reader.groups()]
    assert seen == list(range(20))
    assert len(disk.names(AT)) > 3
    assert list(reader.groups()) == []


def test_a_write_that_was_cut_off_is_a_tail_and_the_rest_reads() -> None:
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    for number in range(2):
        journal.append(payload(number), KEYS.sign_ed25519)
    inode = disk.names_now[AT / "0000000000000000.wj"]
    whole = bytes(inode.now)
    reader = JournalReader(AT, disk)
    first_end = next(reader.position.offset for _ in reader.groups())
    for size in range(first_end + 1, len(whole)):
        inode.now[:] = whole[:size]
        reader = JournalReader(AT, disk)
        assert [group.number for group in reader.groups()] == [0]
        assert reader.tail is not None and reader.tail.bytes == size - first_end


def test_a_garbled_last_frame_is_a_tail_but_not_one_that_others_follow() -> None:
    disk = MemoryDisk()
    journal, _ = open_journal(disk)
    for number in range(2):
        journal.append(payload(number), KEYS.sign_ed25519)
    inode = disk.names_now[AT / "0000000000000000.wj"]
    whole = bytes(inode.now)
    reader = JournalReader(AT, disk)
    first_end = next(reader.position.offset for _ in reader.groups())
    for at in range(first_end, len(whole)):
        inode.now[:] = whole
        inode.now[at] ^= 0x10
        reader = JournalReader(AT, disk)
        assert len(list(reader.groups())) == 1 and reader.tail is not None
    for at in range(first_end):
        inode.now[:] = whole
        inode.now[at] ^= 0x10
        with pytest.raises(DamageError) as caught:
            list(JournalReader(AT, disk).groups())
        assert caught.value.file == "0000000000000000.wj" and caught.value.offset <= at


def test_bytes_behind_a_clean_stop_are_damage(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with segment(tmp_path).open("ab") as file:
        file.write(b"WFRM")
    with pytest.raises(DamageError, match="had stopped cleanly before these 4 bytes"):
        list(read_records(tmp_path / "journal"))


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    for _ in range(3):
        fill(tmp_path, 2)
    segment(tmp_path, 1).unlink()
    with pytest.raises(DamageError, match="a file is missing"):
        list(read_records(tmp_path / "journal"))


def test_a_segment_of_another_journal_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for _ in range(2):
            fill(tmp_path / name, 2)
    segment(tmp_path / "b", 1).replace(segment(tmp_path / "a", 1))
    with pytest.raises(DamageError, match=r"segment|group"):
        list(read_records(tmp_path / "a" / "journal"))


def test_a_segment_that_was_there_and_is_gone_is_damage_to_a_follower(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    reader = JournalReader(tmp_path / "journal", Disk())
    list(reader.groups())
    segment(tmp_path).unlink()
    with pytest.raises(DamageError, match="gone"):
        list(reader.groups())


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "none", Disk())
    assert list(reader.groups()) == [] and reader.position == Position()
