"""A snapshot of the sealed segments, and what is behind it, come to what the whole journal comes to."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.frame import segment_group
from chain.entry.reader import EntryRecord, JournalReader, Position, StateRecord
from chain.errors import DamageError
from chain.ledger.ledger import StateChange
from chain.state.binding import snapshot_note
from chain.state.snapshot import (
    Snapshot,
    place_snapshot,
    read_signed,
    read_snapshot,
    snapshot_records,
    write_snapshot,
)
from kernel.bounds import STATE_LIMITS
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from tests.chain.twins.forger import put_together, rechained, taken_apart
from tests.chain.twins.ledgers import KEYS, abandon, draft, open_ledger
from tests.kernel.state.test_state_snapshot import view
from tests.patience import HANG_S
from tests.weftos.twins.compacting import LIMITS, made, written_before
from weftos.helpers.compact import compact


async def _write(data: Path, groups: int) -> None:
    ledger = open_ledger(data, segment_bytes=6000)
    ledger.start(asyncio.get_running_loop())
    for number in range(groups):
        await ledger.commit(
            [
                draft(number, pid=7 + number % 3),
                StateChange("doc", f"d{number % 7}", None if number % 5 == 0 else b"text %d" % number),
                StateChange("session", "/user/a\nmain", b"\x91\x81\xa1n\xcd" + number.to_bytes(2, "big")),
                StateChange("pids", str(number), b""),
            ],
            durable=True,
        ).durable()
    await ledger.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    asyncio.run(_write(tmp_path, 80))
    return tmp_path


def segments(data: Path) -> list[int]:
    groups = [segment_group(path.name) for path in sorted((data / "journal").iterdir())]
    return [group for group in groups if group is not None]


def whole(data: Path) -> tuple[State, dict[str, bytes]]:
    return replayed(State(*LIMITS), {}, JournalReader(data / "journal", Disk()))


def replayed(
    state: State, documents: dict[str, bytes], reader: JournalReader
) -> tuple[State, dict[str, bytes]]:
    for group in reader.groups():
        for record in group.records:
            replay_into(state, record)
            if isinstance(record, StateRecord) and record.table == "doc":
                documents.pop(record.key, None)
                if record.value is not None:
                    documents[record.key] = record.value
    return state, documents


def stored(data: Path) -> Snapshot:
    found = read_snapshot(data / "snapshot", Disk())
    assert found is not None
    return found


def behind(snapshot: Snapshot) -> Position:
    return Position(
        group=snapshot.group,
        checksum=snapshot.checksum,
        seq=snapshot.seq,
        last_hash=snapshot.last_hash,
        origin=snapshot.origin,
    )


def from_snapshot(data: Path) -> tuple[State, dict[str, bytes]]:
    state = State(*LIMITS)
    restore_state(state, stored(data).state)
    documents = {record.key: record.value or b"" for record in snapshot_records(data / "snapshot", Disk())}
    return replayed(state, documents, JournalReader(data / "journal", Disk(), behind(stored(data))))


def entries(data: Path) -> Iterator[EntryRecord]:
    for group in JournalReader(data / "journal", Disk()).groups():
        yield from (record for record in group.records if isinstance(record, EntryRecord))


def test_step_by_step_and_at_once_it_is_the_same(data: Path) -> None:
    expected, documents = whole(data)
    everything = list(entries(data))
    steps = segments(data)[1:]
    assert len(steps) > 5
    for group in steps:
        said = made(data, group)
        snapshot = stored(data)
        assert said["group"] == snapshot.group == group
        state, held = from_snapshot(data)
        assert view(state) == view(expected) and held == documents
        before = everything[: snapshot.seq]
        assert snapshot.last_hash == before[-1].leaf_hash and snapshot.time_us == before[-1].entry.time_us
        assert snapshot.counts == {entry.entry.pid: entry.entry.count + 1 for entry in before}
        assert snapshot.tree().size == snapshot.seq and snapshot.rotations == 0
    stepwise = (data / "snapshot" / "state.ws").read_bytes()
    (data / "snapshot" / "state.ws").unlink()
    made(data, steps[-1])
    at_once = stored(data)
    (data / "snapshot" / "state.ws").write_bytes(stepwise)
    assert stored(data) == at_once


def test_it_takes_no_more_than_there_was_room_for(data: Path) -> None:
    class SmallDisk(Disk):
        """The newest file that was made may not grow behind what was allocated."""

        size_now = 0

        def allocate(self, handle: int, size: int) -> None:
            super().allocate(handle, size)
            self.size_now = size

        def write(self, handle: int, offset: int, data: bytes) -> None:
            if offset + len(data) > self.size_now:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(handle, offset, data)

    for group in [*segments(data)[1:], segments(data)[-1]]:
        found = read_signed(data / "snapshot", Disk())
        digest = found.digest if found else b""
        said = compact(data, (group, written_before(data, group)), LIMITS, digest, SmallDisk())
        place_snapshot(data / "snapshot", Disk(), bytes.fromhex(said["digest"]), b"note")
    assert from_snapshot(data)[1] == whole(data)[1]


def test_segments_before_the_snapshot_are_not_needed_and_do_no_harm(data: Path) -> None:
    expected, documents = whole(data)
    first, *_, middle, last = segments(data)
    made(data, middle)
    assert view(from_snapshot(data)[0]) == view(expected)
    for path in (data / "journal").iterdir():
        if (segment_group(path.name) or 0) < middle:
            path.unlink()
    made(data, last)
    state, held = from_snapshot(data)
    assert view(state) == view(expected) and held == documents
    assert first == 0


def test_what_is_covered_already_is_not_read_again(data: Path) -> None:
    last = segments(data)[-1]
    made(data, last)
    before = stored(data)
    for path in (data / "journal").iterdir():
        path.unlink()
    assert made(data, last)["entries"] == before.seq
    assert stored(data) == before


def test_damage_in_a_segment_keeps_it_from_being_compacted(data: Path) -> None:
    name = sorted(path.name for path in (data / "journal").iterdir())[1]
    path = data / "journal" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamageError, match=name):
        made(data, segments(data)[-1])
    assert not (data / "snapshot" / "state.ws").exists()


def test_a_journal_that_the_node_did_not_write_is_not_laundered_by_a_snapshot_of_it(data: Path) -> None:
    """Somebody without a key changes a sealed segment under a running node, with all checksums right."""
    last = segments(data)[-1]
    genuine = written_before(data, last)
    path = sorted((data / "journal").iterdir())[1]
    header, frames = taken_apart(path.read_bytes())
    frames[0] = frames[0].with_payload(frames[0].payload.replace(b"/user/a\nmain", b"/user/b\nmain"))
    rechained(data / "journal", path, put_together(header, frames))
    assert written_before(data, last) != genuine
    with pytest.raises(DamageError, match="not the one that the node has written"):
        made(data, last, genuine)


def test_a_snapshot_that_the_node_did_not_sign_is_not_gone_on_from(data: Path) -> None:
    middle, last = segments(data)[3], segments(data)[-1]
    made(data, middle)
    with pytest.raises(DamageError, match="not the one that the node has signed"):
        compact(data, (last, written_before(data, last)), LIMITS, bytes(32))


def test_a_group_that_the_journal_does_not_reach_is_an_error(data: Path) -> None:
    with pytest.raises(DamageError, match="the journal ends before group 999"):
        made(data, 999)


def test_as_a_process_of_its_own(data: Path) -> None:
    group = segments(data)[-1]
    given = zip(STATE_LIMITS, (*LIMITS, 10, 2**20), strict=True)
    limits = [f"--{name.replace('_', '-')}={limit}" for name, limit in given]
    argv = [sys.executable, "-P", "-m", "weftos.helpers.compact", "--data", str(data), *limits]
    argv += ["--checksum", written_before(data, group).hex()]
    done = subprocess.run([*argv, "--group", str(group)], capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert not (data / "snapshot" / "state.ws").exists(), "it is the node that puts it in its place"
    place_snapshot(data / "snapshot", Disk(), bytes.fromhex(said["digest"]), b"note")
    assert said["group"] == stored(data).group == group
    (data / "snapshot" / "state.ws").unlink()
    failed = subprocess.run([*argv, "--group", "999"], capture_output=True, text=True, timeout=HANG_S)
    assert failed.returncode == 1 and "ends before group 999" in failed.stderr


def test_a_snapshot_that_the_published_entries_contradict_is_refused(data: Path) -> None:
    """Signed by the right keys, as a node signs that has gone wrong; everything else in it is as it was."""
    made(data, segments(data)[-1])
    right, records = stored(data), list(snapshot_records(data / "snapshot", Disk()))

    def place(snapshot: Snapshot) -> None:
        digest = write_snapshot(data / "snapshot", Disk(), snapshot, records)
        place_snapshot(data / "snapshot", Disk(), digest, snapshot_note([KEYS], snapshot.group, digest))

    for at in range(len(right.nodes)):
        nodes = tuple(bytes(32) if number == at else node for number, node in enumerate(right.nodes))
        place(replace(right, nodes=nodes))
        with pytest.raises(
            DamageError, match=f"the published entries are not the {right.seq} that it covers"
        ):
            open_ledger(data)
    place(right)
    abandon(open_ledger(data))
