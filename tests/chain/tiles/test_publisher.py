from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from chain.disk import Disk
from chain.entry.frame import segment_group
from chain.entry.reader import JournalReader
from chain.errors import DamageError, LedgerUnavailable, TileError
from chain.keys.keys import Keys, create_keys
from chain.ledger import publication
from chain.ledger.ledger import Draft, Ledger, Reader, StateChange, Tuning
from chain.merkle.head import parse_head
from chain.merkle.merkle import leaf_hash, root
from chain.notes.note import parse, verify
from chain.state.history import PUBLISHED, History
from chain.state.recovery import NOBODY, start_of
from chain.state.snapshot import Snapshot, read_snapshot, write_snapshot
from chain.tiles import publisher
from chain.tiles.publisher import next_batch
from chain.tiles.tile_store import TileStore
from chain.verify.verify import verify as verify_data
from tests.chain.twins.ledgers import Clock, draft, open_ledger
from tests.patience import HANG_S


class FailingDisk(Disk):
    """Fails at the ``fail_at``-th operation that changes anything, and at each one behind it."""

    def __init__(self, fail_at: int) -> None:
        self.left = fail_at

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "broken on purpose")

    def create(self, path: Path) -> int:
        self._count()
        return super().create(path)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._count()
        super().write(handle, offset, data)

    def sync(self, handle: int) -> None:
        self._count()
        super().sync(handle)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._count()
        super().remove(path)


class BlindDisk(FailingDisk):
    """Reads nothing any more either, from then on: as when a process is out of files."""

    def _look(self) -> None:
        if self.left < 0:
            raise OSError(24, "broken on purpose")

    def read(self, path: Path) -> bytes:
        self._look()
        return super().read(path)

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        self._look()
        return super().read_at(path, offset, length)

    def names(self, directory: Path) -> list[str]:
        self._look()
        return super().names(directory)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(test(*args, **options))

    return run


def opened(data: Path, keys: Keys, reader: Reader = NOBODY, **tuning: Any) -> Ledger:
    made = Tuning(**{"retry_s": 0.01, **tuning})
    return Ledger.open(data, keys, now_us=Clock(), reader=reader, tuning=made)


def started(data: Path, keys: Keys, **tuning: Any) -> Ledger:
    """One that writes."""
    ledger = opened(data, keys, **tuning)
    ledger.start(asyncio.get_running_loop())
    return ledger


def drafts(count: int) -> list[Draft | StateChange]:
    return [
        Draft("process.started", {"address": f"/{number}", "pid": 1, "cell": "x" * 50}, 1)
        for number in range(count)
    ]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return create_keys(tmp_path / "keys")


def checked(folder: Path, keys: Keys) -> int:
    """The size of the published ledger; everything in it agrees with its checkpoint."""
    store = TileStore(folder)
    note = store.checkpoint()
    if note is None:
        return 0
    head = parse_head(verify(note, keys.pair.both).text)
    leaves = list(store.leaves(0, head.size))
    assert root(map(leaf_hash, leaves)) == head.root == store.root(head.size)
    bodies = list(store.bodies(0, head.size))
    assert len(bodies) == head.size and None not in bodies
    for number in range(0, head.size, 37):
        assert store.node(0, number) == leaf_hash(leaves[number])
    return head.size


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [255],
        [256],
        [257],
        [3, 5, 300],
        [256, 256],
        [700, 1, 1, 70],
        [5_000],
        pytest.param([65_536 + 300], marks=pytest.mark.slow),
    ],
)
@in_a_loop
async def test_what_is_published_in_steps_is_what_is_published_at_once(
    tmp_path: Path, keys: Keys, sizes: list[int]
) -> None:
    ledger = started(tmp_path, keys, publish_s=60.0)
    for size in sizes:
        for first in range(0, size, 500):
            ledger.commit(drafts(min(500, size - first)))
        await ledger.publish()
        assert ledger.published_size == ledger.size == checked(tmp_path / "ledger", keys)
    await ledger.close()
    entries = [record.leaf for record in History(tmp_path).entries()]
    assert entries == list(TileStore(tmp_path / "ledger").leaves(0, sum(sizes)))
    steps = {path: path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "ledger")
    ledger = started(tmp_path, keys)
    await ledger.close()
    assert checked(tmp_path / "ledger", keys) == sum(sizes)
    for path in (tmp_path / "ledger").rglob("*"):
        if path.is_file() and ".p" not in str(path.parent):
            assert steps[path] == path.read_bytes()


@in_a_loop
async def test_a_head_that_comes_behind_a_newer_one_is_not_published_in_its_place(
    tmp_path: Path, keys: Keys
) -> None:
    """The signer hands each over on a thread of its own, the loop the newest that it has seen."""
    ledger = started(tmp_path, keys, publish_s=10.0**6)
    ledger.commit(drafts(1))
    await ledger.publish()
    seen = ledger.full_note
    await ledger.commit(drafts(1), durable=True).durable()
    async with asyncio.timeout(HANG_S):
        while ledger.full_size < 2:
            await asyncio.sleep(0)
    ledger._publisher.signed(seen, hurry=True)
    await ledger.close()
    assert checked(tmp_path / "ledger", keys) == 2


@in_a_loop
async def test_a_copy_taken_at_any_moment_is_whole(tmp_path: Path, keys: Keys) -> None:
    """Checkpoint first, as the format page says; files go away under the copier, and a wider one has come."""
    ledger = started(tmp_path, keys, publish_s=0.0)
    seen, commits = set[int](), 0
    while commits < 60 or len(seen) <= 10:
        commits += 1
        ledger.commit(drafts(23), durable=True)
        await asyncio.sleep(0.01)
        seen.add(await asyncio.to_thread(checked, tmp_path / "ledger", keys))
    await ledger.close()
    assert checked(tmp_path / "ledger", keys) == commits * 23


@pytest.mark.parametrize("broken_disk", [FailingDisk, BlindDisk])
@in_a_loop
async def test_a_publication_broken_anywhere_is_made_good(
    tmp_path: Path, broken_disk: type[FailingDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "PATIENCE_S", 0.01)  # that a fault is seen
    for fail_at in range(0, 66, 3):  # make prove kills at each
        data = tmp_path / str(fail_at)
        data.mkdir()
        keys = create_keys(data / "keys")
        ledger = started(data, keys, publish_s=0.0)
        ledger.commit(drafts(200))
        await ledger.publish()
        disk = broken_disk(fail_at)
        ledger._publisher._disk = disk  # the journal's own goes on
        ledger.commit(drafts(100))
        try:
            await ledger.publish()
            broken = False
        except LedgerUnavailable as error:
            assert "broken on purpose" in str(error)
            broken = True
        assert checked(data / "ledger", keys) in (200, 300)
        ledger._publisher._disk = Disk()
        await ledger.close()
        assert checked(data / "ledger", keys) == 300
        again = started(data, keys)
        await again.close()
        assert checked(data / "ledger", keys) == 300
        assert not list((data / "ledger").rglob("*.new"))
        if not broken:
            break
    else:
        pytest.fail("every run was broken: the walk is too short")
    assert fail_at > 9


@in_a_loop
async def test_more_than_memory_may_hold_is_read_from_the_journal(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chain.tiles.publisher.BACKLOG_BYTES", 20_000)
    ledger = started(tmp_path, keys, publish_s=60.0)
    for count in (10, 400, 5, 300, 1):
        ledger.commit(drafts(count))
        await ledger.barrier()
    await ledger.publish()
    assert checked(tmp_path / "ledger", keys) == 716
    ledger.commit(drafts(7))
    await ledger.publish()
    assert checked(tmp_path / "ledger", keys) == 723
    await ledger.close()


def snapshot_of(data: Path, group: int, state: bytes) -> Snapshot:
    """What the compactor would write, of a ledger with one segment a run."""
    disk = Disk()
    reader = JournalReader(data / "journal", disk, start_of(read_snapshot(data / "snapshot", disk)))
    store = TileStore(data / "ledger")
    counts: dict[int, int] = {}
    note, time_us = b"", 0
    for read in reader.groups():
        for record in read.records:
            if hasattr(record, "entry"):
                counts[record.entry.pid] = record.entry.count + 1
                time_us = record.entry.time_us
        note = read.note or note
        if reader.position.group >= group:
            break
    at = reader.position
    assert at.group == group
    nodes = tuple(store.compact_range(at.seq).nodes)
    return Snapshot(
        at.origin, group, at.checksum, at.seq, at.last_hash, time_us, counts, nodes, note, 0, state
    )


async def compacted(ledger: Ledger, data: Path) -> None:
    """All that it has is published, and in a snapshot; the segments are gone."""
    group = await ledger.upkeep.roll()
    await ledger.publish()
    digest = write_snapshot(data / "snapshot", Disk(), snapshot_of(data, group, b""), [])
    await ledger.upkeep.place_snapshot(group, digest)
    await ledger.upkeep.drop_before(group)


@in_a_loop
async def test_segments_go_and_the_ledger_goes_on(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "_may_record", lambda self, now_s: False)  # no head comes into a new segment
    restored: list[bytes] = []
    disk = Disk()
    total = 0
    for turn in range(4):
        ledger = opened(tmp_path, keys, Reader(restore=restored.append), segment_bytes=20_000)
        assert ledger.size == total
        assert restored == [b"state %d" % (turn - 1)] * bool(turn)
        restored.clear()
        ledger.start(asyncio.get_running_loop())
        for _ in range(10):
            await ledger.commit([*drafts(30), StateChange("t", "k", b"v")], durable=True).durable()
        total += 300
        group = await ledger.upkeep.roll()
        assert await ledger.upkeep.roll() == group
        assert ledger.upkeep.sealed_bytes > 0
        with pytest.raises(LedgerUnavailable, match="still needed"):
            await ledger.upkeep.drop_before(group)
        await ledger.publish()
        digest = write_snapshot(
            tmp_path / "snapshot", disk, snapshot_of(tmp_path, group, b"state %d" % turn), []
        )
        await ledger.upkeep.place_snapshot(group, digest)
        assert await ledger.upkeep.drop_before(group) > 1
        assert ledger.upkeep.sealed_bytes == 0
        assert [segment_group(name) for name in disk.names(tmp_path / "journal")] == [group]
        await ledger.commit(drafts(3), durable=True).durable()
        total += 3
        await ledger.close()
        records = list(History(tmp_path).entries())
        assert [record.entry.seq for record in records] == list(range(total))
        assert {record.group == PUBLISHED for record in records} == {True, False}
        assert History(tmp_path).size == total
        assert History(tmp_path).entry(7).leaf == records[7].leaf
        assert [record.entry.seq for record in History(tmp_path).entries(total - 5)] == list(
            range(total - 5, total)
        )
    assert checked(tmp_path / "ledger", keys) == total


@in_a_loop
async def test_a_ledger_that_was_cut_back_to_what_is_published_does_not_start(
    tmp_path: Path, keys: Keys
) -> None:
    ledger = started(tmp_path, keys)
    await ledger.commit(drafts(30), durable=True).durable()
    await ledger.close()
    for folder in ("journal", "heads"):
        shutil.rmtree(tmp_path / folder)
    with pytest.raises(DamageError, match="checkpoint in ledger/ covers 30 entries, the journal holds 0"):
        opened(tmp_path, keys)


@pytest.mark.parametrize("dropped", [0, 150])
@pytest.mark.parametrize("behind", [1, 40, 106, 300, 362, 400])
@in_a_loop
async def test_a_copy_whose_checkpoint_is_newer_than_its_tiles_starts_and_publishes_what_its_journal_has(
    tmp_path: Path, keys: Keys, behind: int, dropped: int
) -> None:
    """`cp` takes the files of a folder in any order: here those of a size first, then the node publishes more, and then
    the checkpoint.
    """
    ledger = started(tmp_path, keys)
    for _ in range(5):
        await ledger.commit(drafts(30), durable=True).durable()
    if dropped:
        await compacted(ledger, tmp_path)
    await ledger.publish()
    copy = shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
    await ledger.commit(drafts(behind), durable=True).durable()
    await ledger.publish()
    shutil.copy(tmp_path / "ledger" / "checkpoint", copy / "ledger")
    shutil.copytree(tmp_path / "journal", copy / "journal", dirs_exist_ok=True)
    await ledger.close()
    assert any("is missing" in finding.found for finding in verify_data(copy).findings)
    again = opened(copy, keys)
    assert (again.size, again.published_size) == (150 + behind, 150)
    again.start(asyncio.get_running_loop())
    await again.commit(drafts(1), durable=True).durable()
    await again.publish()
    await again.close()
    assert verify_data(copy).findings == []
    assert checked(copy / "ledger", keys) == 151 + behind


@in_a_loop
async def test_so_does_one_that_lacks_a_tile_of_a_higher_level_alone(tmp_path: Path, keys: Keys) -> None:
    ledger = started(tmp_path, keys)
    for _ in range(2):
        ledger.commit(drafts(300))
        await ledger.publish()
    await ledger.close()
    (tmp_path / "ledger" / "tile" / "1" / "000.p" / "2").unlink()
    again = opened(tmp_path, keys)
    assert again.published_size < 512
    again.start(asyncio.get_running_loop())
    again.commit(drafts(1))
    await again.publish()
    await again.close()
    assert verify_data(tmp_path).findings == []
    assert checked(tmp_path / "ledger", keys) == 601


@in_a_loop
async def test_a_copy_whose_journal_begins_behind_what_is_missing_is_refused_and_says_what_to_do(
    tmp_path: Path, keys: Keys
) -> None:
    ledger = started(tmp_path, keys)
    await ledger.commit(drafts(30), durable=True).durable()
    await ledger.publish()
    older = shutil.copytree(tmp_path / "ledger" / "tile", tmp_path / "older")
    await ledger.commit(drafts(30), durable=True).durable()
    await compacted(ledger, tmp_path)
    await ledger.close()
    shutil.rmtree(tmp_path / "ledger" / "tile")
    older.rename(tmp_path / "ledger" / "tile")
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "ledger").rglob("*"))
    with pytest.raises(TileError, match=r"is missing; the journal.* begins with entry 60: .*make it anew"):
        opened(tmp_path, keys)
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "ledger").rglob("*")) == before


@in_a_loop
async def test_a_ledger_whose_published_part_is_gone_does_not_start(tmp_path: Path, keys: Keys) -> None:
    ledger = started(tmp_path, keys, segment_bytes=5_000)
    for _ in range(5):
        await ledger.commit(drafts(30), durable=True).durable()
    await compacted(ledger, tmp_path)
    await ledger.close()
    shutil.rmtree(tmp_path / "ledger")
    with pytest.raises(DamageError, match="0 entries are published, the snapshot covers 150"):
        opened(tmp_path, keys)


def test_what_is_laid_out_in_one_go_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "BATCH_ITEMS", 4)
    monkeypatch.setattr(publisher, "HURRY_BYTES", 100)
    items = iter([(b"", b"", b"", bytes(size)) for size in (1, 2, 3, 4, 5, 99, 1, 200, 7)])
    batches = iter(lambda: next_batch(items), [])
    assert [[len(body or b"") for _, _, _, body in batch] for batch in batches] == [
        [1, 2, 3, 4],
        [5, 99],
        [1, 200],
        [7],
    ]


async def handed_over(ledger: Ledger) -> None:
    """The publisher has the newest head, which nobody has asked for: one attempt is made for whoever asks now."""
    async with asyncio.timeout(HANG_S):
        while parse_head(parse(ledger._publisher._note).text).size < ledger.size:
            await asyncio.sleep(0.001)


class _KeepingOne(Disk):
    """Refuses once to remove a file from a directory of partial ones."""

    refuses = False

    def remove(self, path: Path) -> None:
        if self.refuses and path.parent.name.endswith(".p"):
            self.refuses = False
            raise OSError(5, "broken on purpose")
        super().remove(path)


@in_a_loop
async def test_what_could_not_be_cleared_away_is_tried_again_though_nothing_new_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "RETRY_S", 10.0**6)
    disk = _KeepingOne()
    ledger = open_ledger(tmp_path, disk, publish_s=10.0**6)  # nothing is published but what is asked for
    ledger.start(asyncio.get_running_loop())
    for _ in range(2):
        await ledger.commit([draft(ledger.next_seq + i) for i in range(130)], durable=True).durable()
        await ledger.publish()
    disk.refuses = True
    await ledger.commit([draft(ledger.next_seq)], durable=True).durable()
    await handed_over(ledger)
    with pytest.raises(LedgerUnavailable, match="broken on purpose"):
        await ledger.publish()
    await ledger.publish()
    assert ledger.published_size == ledger.size
    await ledger.close()


class _SlowBehindAFault(Disk):
    """The first publication fails, the second takes as long as the test likes."""

    def __init__(self) -> None:
        self.attempts = 0
        self.begun, self.go_on = threading.Event(), threading.Event()

    def create(self, path: Path) -> int:
        if path.name == "checkpoint.new":
            self.attempts += 1
            if self.attempts == 1:
                raise OSError(5, "broken on purpose")
            self.begun.set()
            self.go_on.wait(HANG_S)
        return super().create(path)


@in_a_loop
async def test_whoever_waits_for_a_slow_publication_is_not_told_the_fault_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "PATIENCE_S", 0.001)
    monkeypatch.setattr(publisher, "RETRY_S", 10.0**6)
    disk = _SlowBehindAFault()
    ledger = open_ledger(tmp_path, disk)
    ledger.start(asyncio.get_running_loop())
    await ledger.commit([draft(0)], durable=True).durable()
    async with asyncio.timeout(HANG_S):
        while ledger.publish_fault is None:
            await asyncio.sleep(0.001)
    second = asyncio.create_task(ledger.publish())
    await asyncio.to_thread(disk.begun.wait, HANG_S)
    await asyncio.sleep(0.05)  # it looks for a fault meanwhile, many times
    disk.go_on.set()
    await second
    assert ledger.published_size == 1 and ledger.publish_fault is None
    await ledger.close()
