"""The power-cut walk: every disk that a cut could leave of a ledger at work is recovered, and held against what was
promised before the cut.

The ledger is the real one, over a disk that records (:mod:`tests.prove.recorded_disk`). It appends from several
callers, rolls segments, stores heads, publishes, stands a snapshot in the place of segments and drops them, changes its
keys, meets a failing sync, erases bodies, stops cleanly; and it starts again on what a crash has torn, and on what a
kill has left unsynced. Of the ledgers that are recovered, each tenth goes on: it commits, publishes and stops.

    python -m tests.prove.power_cut [--quick] [--seed SEED]
"""

from __future__ import annotations

import asyncio
import errno
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain as chain_of
from pathlib import Path
from unittest.mock import patch

import msgpack
from rich.console import Console

import chain.journal.pace
from chain.entry.entry import decode_body
from chain.entry.reader import EntryRecord, JournalReader, Record, StateRecord
from chain.errors import ChainError, LedgerUnavailable
from chain.journal.sequencer import Written
from chain.keys.keys import Keys
from chain.keys.rotation import rotation_body
from chain.ledger.ledger import Draft, Ledger, Reader, StateChange, Tuning
from chain.notes.note import verify
from chain.state.history import PUBLISHED, History
from chain.state.recovery import start_of
from chain.state.snapshot import Snapshot, read_snapshot, write_snapshot
from chain.tiles.tile_paths import body_file, partials
from chain.tiles.tile_store import TileStore
from tests.prove.key_cut import key_walk
from tests.prove.progress import follow
from tests.prove.recorded_disk import CutState, Operation, RecordedDisk, WatchedDisk, cut_states
from tests.prove.walks import forked_pool, run_alone, say_found

ROOT = Path("/ledger")
OLD = Keys(bytes(range(32)), bytes(range(32, 64)))
NEW = Keys(bytes(range(64, 96)), bytes(range(96, 128)), OLD.pairs)
SECRET, LATER_SECRET = "the word that is to be forgotten", "the word that goes when its tile is full"
RESERVE_BYTES = 512
OWN_KINDS = ("node.disk_full", "node.disk_free")  # written by the ledger itself
SEGMENT_BYTES = 6_000
TABLE = "commits"
PARTS = 64  # of the walk
GOES_ON = 10


@dataclass
class Expected:
    """What was written. ``leaves``: of every entry that got a place; ``commits``: last seq of each commit, by its key;
    ``erasable``: the entries whose bodies were erased in the end.
    """

    leaves: dict[int, bytes] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    erasable: frozenset[int] = frozenset()

    def written(self, entries: Sequence[Written], key: str = "") -> None:
        """Entries have got their place, in the commit ``key`` if they have a state change beside them."""
        self.leaves.update((written.entry.seq, written.leaf) for written in entries)
        if key:
            self.commits[key] = entries[-1].entry.seq

    def up_to(self, size: int) -> Expected:
        """Of the first ``size`` entries: what follows takes the place of those that never got there."""
        leaves = {seq: leaf for seq, leaf in self.leaves.items() if seq < size}
        commits = {key: last for key, last in self.commits.items() if last < size}
        return Expected(leaves, commits, self.erasable)

    def erasing(self, first: int, last: int) -> None:
        """The bodies of these entries go from now on."""
        self.erasable |= frozenset(range(first, last + 1))


@dataclass(slots=True)
class Opened:
    """A ledger, and the commits that its state knows of."""

    ledger: Ledger
    commits: list[str]


def open_ledger(disk: WatchedDisk, segment_bytes: int = SEGMENT_BYTES) -> Opened:
    """Recover what is on ``disk``. Raises ChainError, OSError."""
    known: list[str] = []
    clock = iter(range(1_700_000_000_000_000, 1_800_000_000_000_000))

    def replay(record: Record) -> None:
        if isinstance(record, StateRecord) and record.table == TABLE:
            known.append(record.key)

    ledger = Ledger.open(
        disk.root,
        OLD,
        others=(NEW,),
        now_us=lambda: next(clock),
        reader=Reader(replay, lambda state: known.extend(msgpack.unpackb(state))),
        disk=disk,
        tuning=Tuning(segment_bytes, retry_s=0.005, publish_s=0.0, reserve_bytes=RESERVE_BYTES),
    )
    return Opened(ledger, known)


class Work:
    """One run of a ledger over a recorded disk."""

    def __init__(
        self, disk: WatchedDisk, expected: Expected, name: str, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.disk = disk
        self.expected = expected
        self.opened = open_ledger(disk, segment_bytes)
        self.ledger = self.opened.ledger
        self._name = name
        self._made = 0

    async def commit(self, words: str = "", entries: int = 3) -> tuple[int, int]:
        """One durable commit, promised to its caller once it returns: its first entry and its last."""
        key = f"{self._name}{self._made}"
        self._made += 1
        drafts: list[Draft | StateChange] = [
            Draft(
                "message.refused",
                {"to": "/a", "sender": "operator", "why": f"{key}.{at} {words}"},
                7 + at % 2,
            )
            for at in range(entries)
        ]
        with self.disk.telling():
            ticket = self.ledger.commit([*drafts, StateChange(TABLE, key, b"")], durable=True)
            self.expected.written(ticket.entries, key)
        await ticket.durable()
        self.disk.mark(b"commit " + key.encode())
        return ticket.entries[0].entry.seq, ticket.entries[-1].entry.seq

    async def commits(self, rounds: int, callers: int = 1) -> None:
        for _ in range(rounds):
            await asyncio.gather(*(self.commit() for _ in range(callers)))

    async def publish(self) -> None:
        await self.ledger.publish()
        self.disk.mark(b"published %d" % self.ledger.published_size)
        self.disk.mark(b"signed %d" % self.ledger.full_size)

    async def compact(self) -> None:
        """Roll, publish, write the snapshot, drop what it covers; as weftos.helpers.compaction has it done."""
        group = await self.ledger.upkeep.roll()
        await self.publish()
        snapshot = snapshot_before(self.disk, group)
        digest = write_snapshot(self.disk.root / "snapshot", self.disk, snapshot, [])
        await self.ledger.upkeep.place_snapshot(group, digest)
        await self.ledger.upkeep.drop_before(group)

    async def rotate(self) -> None:
        ticket = await self.ledger.rotate(NEW, rotation_body(OLD, NEW, 1, "to see it"))
        self.expected.written(ticket.entries)
        await ticket.durable()
        self.disk.mark(b"rotated")

    async def failing_sync(self) -> None:
        """A commit whose sync fails once: refused, and durable later all the same."""
        await self._head_is_full()
        self.disk.fail("sync")
        try:
            await self.commit()
        except LedgerUnavailable:
            while self.ledger.read_only is not None:
                await asyncio.sleep(0.002)
        self.disk.heal()

    async def full_disk(self) -> None:
        """A commit for which there is no space once: it goes where space was set aside, and the ledger says so."""
        await self._head_is_full()
        self.disk.fail("write", errno.ENOSPC)
        await self.commit()
        while self.ledger.read_only is not None:
            await asyncio.sleep(0.002)
        self.disk.heal()

    async def _head_is_full(self) -> None:
        """Nothing is on its way to the disk, so that what fails next is the journal's."""
        while self.ledger.published_size < self.ledger.size:
            await asyncio.sleep(0.002)

    def leave_a_file(self) -> None:
        """Somebody else puts a file beside the partial bodies."""
        folder = self.disk.root / "ledger" / partials(body_file(0))
        handle = self.disk.create(folder / "theirs")
        self.disk.sync(handle)
        self.disk.close(handle)
        self.disk.sync_directory(folder)

    async def erase(self, entries: tuple[int, int], words: str) -> None:
        first, last = entries
        body = {"ranges": [[first, last]], "by": "operator", "reason": "to see it"}
        with self.disk.telling():
            ticket = self.ledger.commit([Draft("erase", body)], durable=True)
            self.expected.written(ticket.entries)
        await ticket.durable()
        self.expected.erasing(first, last)
        await self.ledger.upkeep.erase_bodies([(first, last)])
        self.disk.mark(b"erased " + words.encode())

    async def close(self) -> None:
        await self.ledger.close()
        self.disk.mark(b"closed")


def snapshot_before(disk: WatchedDisk, group: int) -> Snapshot:
    """Everything before ``group``; its state is the keys of the commits."""
    before = read_snapshot(disk.root / "snapshot", disk)
    keys = list(msgpack.unpackb(before.state)) if before else []
    counts, time_us, note = (dict(before.counts), before.time_us, before.note) if before else ({}, 0, b"")
    rotations = before.rotations if before else 0
    reader = JournalReader(disk.root / "journal", disk, start_of(before))
    for read in reader.groups():
        for record in read.records:
            if isinstance(record, EntryRecord):
                counts[record.entry.pid] = record.entry.count + 1
                time_us = record.entry.time_us
                rotations += record.entry.kind == "key.rotated"
            elif isinstance(record, StateRecord) and record.table == TABLE:
                keys.append(record.key)
        note = read.note or note
        if reader.position.group >= group:
            break
    at = reader.position
    nodes = tuple(TileStore(disk.root / "ledger", disk).compact_range(at.seq).nodes)
    return Snapshot(
        at.origin, group, at.checksum, at.seq, at.last_hash, time_us, counts, nodes, note, rotations,
        msgpack.packb(keys),
    )  # fmt: skip


LOOP_WRITES_AS_OFTEN_AS_THE_THREAD = patch.object(chain.journal.pace, "LONE_GROUPS", 0)


@LOOP_WRITES_AS_OFTEN_AS_THE_THREAD
async def work_through(disk: WatchedDisk, expected: Expected) -> None:
    work = Work(disk, expected, "a")
    work.ledger.start(asyncio.get_running_loop())
    await work.commits(4)
    secret = await work.commit(SECRET)
    await work.publish()
    await work.commits(3, callers=4)
    await work.failing_sync()
    await work.publish()
    await work.full_disk()
    await work.compact()
    await work.commits(3)
    await work.erase(secret, SECRET)
    await work.rotate()
    await work.commits(2, callers=3)
    secret = await work.commit(LATER_SECRET)
    await work.compact()
    work.leave_a_file()
    await work.commits(25, callers=3)  # past a full tile
    await work.publish()
    await work.commits(1)
    await work.publish()  # what the full tile has superseded goes
    await work.erase(secret, LATER_SECRET)
    await work.close()


@LOOP_WRITES_AS_OFTEN_AS_THE_THREAD
async def _again(disk: WatchedDisk, expected: Expected) -> None:
    work = Work(disk, expected, "b")
    work.ledger.start(asyncio.get_running_loop())
    await work.commits(2)
    await work.publish()
    await work.close()


@dataclass(slots=True)
class Run:
    """A recorded run, and what it wrote in the end."""

    name: str
    disk: RecordedDisk
    expected: Expected


def recorded_runs() -> list[Run]:
    """One run from nothing, one that starts where a crash has torn the last write, and one behind each of some kills:
    it finds what was written and not synced yet, builds on it, and only then comes the power cut.
    """
    expected = Expected()
    first = Run("from nothing", RecordedDisk(ROOT), expected)
    asyncio.run(work_through(first.disk, expected))
    torn = first.disk.now.copy()
    newest = max(path for path in torn.names if path.suffix == ".wj")
    inode = torn.names[newest]
    closing = len(torn.inodes[inode])
    torn.inodes[inode] = torn.inodes[inode][: closing - 1000]  # within the frame that closes it
    again = Run("from a torn end", RecordedDisk(ROOT, torn), deepcopy(expected))
    asyncio.run(_again(again.disk, again.expected))
    killed = [_killed(first, place, count) for place, count in sorted(kills(first.disk.operations).items())]
    return [first, again, *killed]


def kills(operations: Sequence[Operation]) -> dict[str, int]:
    """Behind how many operations to kill: the last time that a frame was written, and that a segment and a snapshot got
    its name, with the sync still to come.
    """
    found: dict[str, int] = {}
    segments: set[int] = set()
    for count, operation in enumerate(operations, 1):
        if operation.kind == "rename" and operation.target.suffix in (".wj", ".ws"):
            found[f"the name of {operation.target.parent.name}"] = count
            segments.add(operation.inode)
        elif operation.kind == "write" and operation.inode in segments:
            found["a frame"] = count
    return found


def _killed(first: Run, place: str, count: int) -> Run:
    """Killed there, started again."""
    size = open_ledger(first.disk.after_kill(count)).ledger.size
    run = Run(f"killed behind {place}", first.disk.after_kill(count), first.expected.up_to(size))
    asyncio.run(_again(run.disk, run.expected))
    return run


def faults(state: CutState, expected: Expected) -> Iterator[str]:
    """What is wrong with what is recovered from ``state``."""
    erased = [promise.partition(b" ")[2] for promise in state.promises if promise.startswith(b"erased ")]
    for path, content in state.content.files().items():
        if any(words in content for words in erased):
            yield f"{path} still holds what was erased"
    disk = RecordedDisk(ROOT, state.content)
    try:
        opened = open_ledger(disk)
    except (ChainError, OSError) as error:
        yield f"it does not open: {type(error).__name__}: {error}"
        return
    try:
        yield from _entries(opened, disk, expected)
        yield from _promises(opened, state, expected)
    except (ChainError, OSError) as error:
        yield f"it cannot be read: {type(error).__name__}: {error}"


def goes_on(state: CutState, expected: Expected) -> Iterator[str]:
    """What is wrong with a ledger that works on after ``state``."""
    disk = RecordedDisk(ROOT, state.content)
    size = open_ledger(disk).ledger.size
    grown = expected.up_to(size)

    async def work() -> None:
        again = Work(disk, grown, "g")
        again.ledger.start(asyncio.get_running_loop())
        await again.commits(2)
        await again.publish()
        await again.close()

    try:
        asyncio.run(work())
    except (ChainError, OSError) as error:
        yield f"it does not go on: {type(error).__name__}: {error}"
        return
    promises = (*state.promises, *(op.data for op in disk.operations if op.kind == "mark"))
    yield from faults(CutState(disk.now, promises, state.where), grown)


def _entries(opened: Opened, disk: RecordedDisk, expected: Expected) -> Iterator[str]:
    size = opened.ledger.size
    seqs = []
    for record in History(ROOT, disk).entries():
        seqs.append(record.entry.seq)
        own = record.entry.kind in OWN_KINDS
        if not own and record.leaf != expected.leaves.get(record.entry.seq):
            yield f"entry {record.entry.seq} is not the one that was written"
        if record.erased and not (record.entry.seq in expected.erasable and record.group == PUBLISHED):
            yield f"entry {record.entry.seq} has no body"
        if record.body_bytes is not None:
            decode_body(record.body_bytes)
    if seqs != list(range(size)):
        yield f"{len(seqs)} entries are there, the ledger has {size}"
    whole = sorted(key for key, last in expected.commits.items() if last < size)
    if sorted(opened.commits) != whole:
        odd = sorted(set(opened.commits) ^ set(whole))
        yield f"entries and state disagree about the commits {odd[:5]}"
    store = TileStore(ROOT / "ledger", disk)
    if store.size and store.root(store.size) != store.head.root:  # type: ignore[union-attr]
        yield "the checkpoint has another root than the tiles"
    if len(list(store.leaves(0, store.size))) != len(list(store.bodies(0, store.size))):
        yield "published leaves and bodies are not of one number"
    if note := store.checkpoint():
        verify(note, opened.ledger.recovery.keys.pairs[-1 if _rotated(expected, store.size) else 0].both)


def _rotated(expected: Expected, size: int) -> bool:
    return any(b"key.rotated" in leaf for seq, leaf in expected.leaves.items() if seq < size)


def _promises(opened: Opened, state: CutState, expected: Expected) -> Iterator[str]:
    for promise in state.promises:
        word, _, rest = promise.partition(b" ")
        if word == b"commit" and expected.commits[rest.decode()] >= opened.ledger.size:
            yield f"the acknowledged commit {rest.decode()} is gone"
        if word == b"published" and opened.ledger.published_size < int(rest):
            yield f"{opened.ledger.published_size} entries are published, {int(rest)} were"
        if word == b"signed" and opened.ledger.full_size < int(rest):
            yield f"the newest full head covers {opened.ledger.full_size} entries, one of {int(rest)} was stored"
        if word == b"rotated" and opened.ledger.keys.pairs != NEW.pairs:
            yield "the change of keys is gone"


@dataclass(frozen=True, slots=True)
class Walked:
    """How many states a part of the walk looked at, and what it found."""

    states: int
    found: list[str]


State = tuple[Run, CutState]


def states_of(runs: Sequence[Run], seed: str, limit: int | None = None) -> Iterator[State]:
    """What a cut could leave of each run. ``limit``: no more than that of each, spread over it by chance."""
    for run in runs:
        states: Iterable[CutState] = cut_states(run.disk, random.Random(f"{seed} {run.name}"))
        if limit is not None:
            every = list(states)
            states = random.Random(seed).sample(every, min(limit, len(every)))
        yield from ((run, state) for state in states)


def walk(states: Iterable[State], stop: bool = False) -> Walked:
    """Look at each of them; ``stop`` at the first fault."""
    count, found = 0, []
    for run, state in states:
        count += 1
        more = goes_on(state, run.expected) if count % GOES_ON == 0 else ()
        for fault in chain_of(faults(state, run.expected), more):
            found.append(f"{run.name}, {state.where}: {fault}")
            if stop:
                return Walked(count, found)
    return Walked(count, found)


_STATES: list[State] = []  # inherited by the processes of the walk


def _part(part: int) -> Walked:
    return walk(_STATES[part::PARTS])


def prove_power_cuts(console: Console, seed: str, quick: bool) -> bool:
    """The walk, whole or in its quick form; prints what it found."""
    started = time.monotonic()
    runs = recorded_runs()
    _STATES[:] = states_of(runs, seed, 400 if quick else None)
    with forked_pool() as pool:
        walks = pool.imap_unordered(_part, range(PARTS))
        done = list(follow(console, "power cuts, parts of the walk", PARTS, walks))
    found = [fault for walked in done for fault in walked.found]
    operations = sum(len(run.disk.operations) for run in runs)
    states = sum(walked.states for walked in done)
    entries = len(runs[-1].expected.leaves)
    key_states, key_faults = key_walk(seed)
    found += key_faults
    console.print(
        f"  power cuts: {operations} operations recorded, {states} states recovered, {entries} entries; "
        f"{key_states} of making and changing keys; "
        f"{time.monotonic() - started:.0f} s",
        highlight=False,
    )
    return say_found(console, found, "nothing acknowledged is missing, nothing is half there")


if __name__ == "__main__":
    sys.exit(run_alone(prove_power_cuts, __doc__, "some states of each run, by chance"))
