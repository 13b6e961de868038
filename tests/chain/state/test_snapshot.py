"""The snapshot's file: what is written reads back, and nothing else does."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.disk import Disk
from chain.entry.record import StateRecord
from chain.errors import DamageError, ForeignDataError
from chain.merkle.merkle import CompactRange, leaf_hash
from chain.state.snapshot import (
    MAGIC,
    NEW,
    SNAPSHOT_FILE,
    SPARE_BYTES,
    Snapshot,
    discard_snapshot,
    is_note,
    note_name,
    place_snapshot,
    read_signed,
    read_snapshot,
    record_bytes,
    snapshot_records,
    write_snapshot,
)
from tests.chain.twins.memory_disk import MemoryDisk, PowerCut

FOLDER = Path("/node/snapshot")
RECORDS = [StateRecord("doc", f"d{number}", b"v" * number) for number in range(5)]


def snapshot(seq: int = 11, state: bytes = b"the state") -> Snapshot:
    tree = CompactRange()
    for number in range(seq):
        tree.append(leaf_hash(b"%d" % number))
    return Snapshot(
        "weftos-a", 7, b"c" * 32, seq, b"l" * 32, 1_700_000_000_000_000, {0: 9, 4096: 2}, tuple(tree.nodes),
        b"note", 1, state,
    )  # fmt: skip


NOTE = b"signatures"


def put(directory: Path, disk: Disk, new: Snapshot, records: Iterable[StateRecord]) -> bytes:
    """Write it beside and put it in its place, with a note; its digest."""
    digest = write_snapshot(directory, disk, new, records)
    place_snapshot(directory, disk, digest, NOTE)
    return digest


def stored(disk: Disk) -> tuple[Snapshot | None, list[StateRecord]]:
    return read_snapshot(FOLDER, disk), list(snapshot_records(FOLDER, disk))


@settings(deadline=None)
@given(
    st.integers(0, 40),
    st.binary(max_size=3000),
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.binary(max_size=200))),
)
def test_what_is_written_reads_back(seq: int, state: bytes, pairs: list[tuple[str, bytes]]) -> None:
    disk = MemoryDisk()
    records = [StateRecord("doc", key, value) for key, value in dict(pairs).items()]
    put(FOLDER, disk, snapshot(seq, state), iter(records))
    assert stored(disk) == (snapshot(seq, state), records)


def test_on_a_real_disk_and_larger_than_one_read(tmp_path: Path) -> None:
    records = [StateRecord("doc", f"d{number}", bytes([number]) * 300_000) for number in range(9)]
    large = snapshot(state=b"s" * 5_000_000)
    put(tmp_path / "snapshot", Disk(), large, iter(records))
    assert read_snapshot(tmp_path / "snapshot", Disk()) == large
    assert list(snapshot_records(tmp_path / "snapshot", Disk())) == records
    names = {path.name for path in (tmp_path / "snapshot").iterdir()}
    assert {*filter(is_note, names)} == names - {SNAPSHOT_FILE} and len(names) == 2


def test_its_signatures_lie_beside_it_under_the_name_of_its_digest_and_those_of_the_one_before_are_gone() -> (
    None
):
    disk = MemoryDisk()
    first = put(FOLDER, disk, snapshot(3), RECORDS)
    second = put(FOLDER, disk, snapshot(12), RECORDS)
    found = read_signed(FOLDER, disk)
    assert found is not None and (found.digest, found.note) == (second, NOTE) and first != second
    assert {*disk.names(FOLDER)} == {SNAPSHOT_FILE, note_name(second)}
    disk.remove(FOLDER / note_name(second))
    alone = read_signed(FOLDER, disk)
    assert alone is not None and alone.note is None


def test_records_of_another_snapshot_than_the_one_that_was_read_are_refused() -> None:
    disk = MemoryDisk()
    first = put(FOLDER, disk, snapshot(3), RECORDS)
    assert list(snapshot_records(FOLDER, disk, first)) == RECORDS
    put(FOLDER, disk, snapshot(12), RECORDS)
    with pytest.raises(DamageError, match="not the one that was read before"):
        list(snapshot_records(FOLDER, disk, first))


def test_its_tree_is_that_of_the_entries() -> None:
    assert snapshot(11).tree().size == 11


def test_there_is_none_in_an_empty_directory() -> None:
    assert stored(MemoryDisk()) == (None, [])


def test_a_reader_keeps_the_file_it_opened_when_a_new_one_takes_its_place(tmp_path: Path) -> None:
    put(tmp_path, Disk(), snapshot(), iter(RECORDS))
    reading = snapshot_records(tmp_path, Disk())
    first = next(reading)
    put(tmp_path, Disk(), snapshot(12), [])
    assert [first, *reading] == RECORDS
    assert list(snapshot_records(tmp_path, Disk())) == []


def test_every_changed_byte_and_every_cut_is_found() -> None:
    disk = MemoryDisk()
    put(FOLDER, disk, snapshot(), RECORDS)
    good = disk.read(FOLDER / SNAPSHOT_FILE)
    for at in range(len(good)):
        for bad in (good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], good[:at]):
            disk.names_now[FOLDER / SNAPSHOT_FILE].now[:] = bad
            with pytest.raises((DamageError, ForeignDataError)):
                read_snapshot(FOLDER, disk)
            with pytest.raises((DamageError, ForeignDataError)):
                list(snapshot_records(FOLDER, disk))
    disk.names_now[FOLDER / SNAPSHOT_FILE].now[:] = good + b"\x00"
    with pytest.raises(DamageError, match="checksum is wrong"):
        read_snapshot(FOLDER, disk)


def changed(disk: MemoryDisk, old: bytes, new: bytes) -> None:
    """Replace bytes of the file and make its checksum right again: what a hostile writer can do."""
    inode = disk.names_now[FOLDER / SNAPSHOT_FILE]
    assert inode.now.count(old) == 1
    body = bytes(inode.now[:-32]).replace(old, new)
    inode.now[:] = body + sha256(body).digest()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"\xa6format\x01", b"\xa6fOrmat\x01", "other fields"),
        (b"\xa3seq\x0b", b"\xa3seq\x0c", "out of range"),
        (b"\xa5group\x07", b"\xa5group\xc3", "out of range"),
        (b"\xa9last_hash", b"\xa9Last_hash", "other fields"),
        (b"\x94\x02\xa3doc\xa2d1\xc4\x01v", b"\x94\x02\xa3doc\xa2d1\xc4\x02v", "cannot be read"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x05\x00", b"\x00\x00\x00\x00\xff\x00\x00\x05\x00", "limit"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x09the", b"\xff\x00\x00\x00\x00\x00\x00\x09the", "limit"),
    ],
)  # fmt: skip
def test_a_right_checksum_does_not_make_it_a_snapshot(old: bytes, new: bytes, words: str) -> None:
    disk = MemoryDisk()
    put(FOLDER, disk, snapshot(), RECORDS)
    changed(disk, old, new)
    with pytest.raises(DamageError, match=words):
        read_snapshot(FOLDER, disk)


def test_a_later_format_is_refused_and_named() -> None:
    disk = MemoryDisk()
    put(FOLDER, disk, snapshot(), RECORDS)
    changed(disk, b"\xa6format\x01", b"\xa6format\x02")
    with pytest.raises(ForeignDataError, match="format 2, this version knows 1"):
        read_snapshot(FOLDER, disk)


@pytest.mark.parametrize("part", [b"v" * 40, b"the state", (5).to_bytes(8, "big")])
def test_what_somebody_changes_before_it_is_read_back_is_not_what_is_to_be_signed(part: bytes) -> None:
    class Changed(MemoryDisk):
        """Somebody writes into the file as soon as it was written."""

        def write(self, handle: int, offset: int, data: bytes) -> None:
            super().write(handle, offset, data)
            if part in data:
                super().write(handle, offset + data.index(part), bytes(len(part)))

    disk = Changed()
    with pytest.raises(DamageError, match="is not what reads back"):
        write_snapshot(FOLDER, disk, snapshot(), [*RECORDS, StateRecord("doc", "d40", b"v" * 40)][1:])


def test_a_deleted_record_is_none_of_a_snapshot() -> None:
    with pytest.raises(DamageError, match="no state record with a value"):
        put(FOLDER, MemoryDisk(), snapshot(), [StateRecord("doc", "a", None)])


def test_a_power_cut_at_any_step_leaves_the_old_one_or_the_new_one() -> None:
    before = MemoryDisk()
    put(FOLDER, before, snapshot(3), RECORDS[:2])
    seen = set()
    for at in range(100):
        disk = before.crash()
        disk.cut_at = at
        try:
            put(FOLDER, disk, snapshot(12), RECORDS)
        except PowerCut:
            after = disk.crash()
            found, signed = stored(after), read_signed(FOLDER, after)
            assert signed is not None and signed.note == NOTE
            assert found in ((snapshot(3), RECORDS[:2]), (snapshot(12), RECORDS))
            seen.add(found[0] == snapshot(12))
        else:
            assert stored(disk.crash()) == (snapshot(12), RECORDS)
            break
    assert seen == {False, True}


def test_a_failing_disk_leaves_the_old_one() -> None:
    disk = MemoryDisk()
    put(FOLDER, disk, snapshot(3), RECORDS[:2])
    for operation in ("write", "sync", "rename"):
        disk.fail(operation, errno.ENOSPC)
        with pytest.raises(OSError):
            put(FOLDER, disk, replace(snapshot(12)), RECORDS)
        assert stored(disk) == (snapshot(3), RECORDS[:2])
    assert not disk.handles


def test_nothing_is_written_unless_there_is_room_for_all_of_it_and_some_for_the_journal() -> None:
    disk = MemoryDisk()
    most = sum(map(record_bytes, RECORDS))
    write_snapshot(FOLDER, disk, snapshot(), RECORDS, most)
    takes = disk.size(FOLDER / NEW)
    discard_snapshot(FOLDER, disk)
    disk.room, disk.log = takes + SPARE_BYTES - 1, []
    with pytest.raises(OSError, match=f"no room on the disk for a snapshot, up to {takes} bytes"):
        write_snapshot(FOLDER, disk, snapshot(), RECORDS, most)
    assert disk.log == []
    disk.room += 1
    write_snapshot(FOLDER, disk, snapshot(), RECORDS, most)
    assert disk.size(FOLDER / NEW) == takes and "allocate" in disk.log


def test_what_has_not_taken_its_place_can_be_discarded() -> None:
    disk = MemoryDisk()
    discard_snapshot(FOLDER, disk)
    put(FOLDER, disk, snapshot(3), RECORDS[:2])
    write_snapshot(FOLDER, disk, snapshot(12), RECORDS)
    discard_snapshot(FOLDER, disk)
    assert NEW not in disk.names(FOLDER) and stored(disk) == (snapshot(3), RECORDS[:2])


@pytest.mark.parametrize("key", [5, None, b"seq", True])
def test_a_field_that_is_not_named_by_text_is_refused(tmp_path: Path, key: object) -> None:
    put(tmp_path, Disk(), snapshot(), [])
    file = tmp_path / SNAPSHOT_FILE
    data = file.read_bytes()
    at = len(MAGIC) + 4
    length = int.from_bytes(data[at - 4 : at], "big")
    header = msgpack.unpackb(data[at : at + length], strict_map_key=False)
    header[key] = header.pop("seq")
    packed = msgpack.packb(header)
    file.write_bytes(MAGIC + len(packed).to_bytes(4, "big") + packed + data[at + length :])
    with pytest.raises(DamageError, match="other fields"):
        read_snapshot(tmp_path, Disk())
