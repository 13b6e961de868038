"""Everything a ledger holds, wherever it lies by now: published tiles for the older entries, the journal behind them.

For readers beside a running node or without one. They see what was there when they looked. A node that runs drops
segments which a new snapshot covers, once what they hold is published: when a file of the journal is missed, and the
snapshot is another one than it was, nothing is damaged, and it is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from chain.disk import Disk
from chain.entry.entry import ZERO_HASH, commit_body, decode_entry
from chain.entry.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    decode_segment_header,
    frame_extra_bytes,
    frame_length,
)
from chain.entry.reader import EntryRecord, JournalReader, Position, segment_names
from chain.entry.record import RecordError, decode_payload
from chain.errors import DamageError, EntryError, TileError
from chain.merkle.head import parse_head
from chain.merkle.merkle import leaf_hash
from chain.notes.note import parse
from chain.state.recovery import start_of
from chain.state.snapshot import read_snapshot, snapshot_digest
from chain.tiles.tile_layout import Item
from chain.tiles.tile_paths import WIDTH, entry_bundle
from chain.tiles.tile_store import TileStore

PUBLISHED = -1
"""The group of an entry that was read from the published ledger."""

T = TypeVar("T")


class History:
    """The ledger in the data directory ``data``. Raises DamageError, TileError, ForeignDataError, OSError."""

    def __init__(self, data: Path, disk: Disk | None = None) -> None:
        self._data = data
        self._disk = disk or Disk()
        self.tiles = TileStore(data / "ledger", self._disk)

    def journal_start(self) -> Position:
        """Where a reader of the journal begins: its first segment, or the first one that is still needed."""
        return start_of(read_snapshot(self._data / "snapshot", self._disk))

    @property
    def first_journal_seq(self) -> int:
        """The first entry that is read from the journal."""
        return self.journal_start().seq

    def journal(self) -> JournalReader:
        """A reader of the journal from its start."""
        return JournalReader(self._data / "journal", self._disk, self.journal_start())

    def entries(self, start: int = 0) -> Iterator[EntryRecord]:
        """Every entry from ``start`` on, in order, also while a running node drops segments."""
        while True:
            before = self._snapshot()
            try:
                for record in self._entries(start):
                    start = record.entry.seq + 1
                    yield record
                return
            except (DamageError, FileNotFoundError):
                if not self._overtaken(before):
                    raise

    def settled(self, read: Callable[[], T]) -> T:
        """What ``read`` makes of the journal; made anew when a running node has dropped some of it meanwhile."""
        while True:
            before = self._snapshot()
            try:
                return read()
            except (DamageError, FileNotFoundError):
                if not self._overtaken(before):
                    raise

    def _overtaken(self, before: bytes) -> bool:
        """Whether the snapshot is another one by now; what it covers is published then, and can be read."""
        if self._snapshot() == before:
            return False
        self.tiles.refresh()
        return True

    def _snapshot(self) -> bytes:
        return snapshot_digest(self._data / "snapshot", self._disk)

    def _entries(self, start: int) -> Iterator[EntryRecord]:
        reader = self.journal()
        first = reader.position.seq
        if start < first:
            yield from self.published(start, first)
        for group in reader.groups():
            for record in group.records:
                if isinstance(record, EntryRecord) and record.entry.seq >= start:
                    yield record

    def published(self, start: int, end: int) -> Iterator[EntryRecord]:
        """Entries ``start`` to ``end - 1`` from the published ledger. Raises TileError when they are not there."""
        if start >= end:
            return
        previous = self.tiles.node(0, start - 1) if start else ZERO_HASH
        bodies = self.tiles.bodies(start, end)
        for seq, leaf in enumerate(self.tiles.leaves(start, end), start):
            record = _record(seq, leaf, next(bodies), previous)
            previous = record.leaf_hash
            yield record

    def entry(self, seq: int) -> EntryRecord:
        """Entry ``seq``; a published one is found at once. Raises EntryError when the ledger does not hold it."""
        if 0 <= seq < self.tiles.size:
            return next(self.published(seq, seq + 1))
        for record in self.entries(max(seq, 0)):
            if record.entry.seq == seq:
                return record
        raise EntryError(f"there is no entry {seq}: the ledger holds {self.size}, numbered from 0")

    @property
    def size(self) -> int:
        """How many entries there are, as the newest head in the journal says: found without reading all of it."""
        directory = self._data / "journal"
        for name in reversed(segment_names(directory, self._disk)):
            for offset, length in reversed(self._frames(directory / name)):
                try:
                    _, note = decode_payload(self._disk.read_at(directory / name, offset, length))
                except RecordError as error:
                    raise DamageError(name, offset, -1, str(error)) from error
                if note is not None:
                    return parse_head(parse(note).text).size
        return self.tiles.size

    def _frames(self, path: Path) -> list[tuple[int, int]]:
        """Offset and length of the payload of each whole frame in a segment."""
        frames: list[tuple[int, int]] = []
        total = self._disk.size(path)
        header, at = decode_segment_header(self._disk.read_at(path, 0, SEGMENT_HEADER_BYTES))
        group, extra = header.first_group, frame_extra_bytes(header.format)
        while at + extra <= total:
            length = frame_length(self._disk.read_at(path, at, FRAME_HEADER_BYTES), 0, group)
            if isinstance(length, str) or at + extra + length > total:
                break
            frames.append((at + FRAME_HEADER_BYTES, length))
            at, group = at + extra + length, group + 1
        return frames


def _record(seq: int, leaf: bytes, body: tuple[bytes, bytes] | None, previous: bytes) -> EntryRecord:
    file = entry_bundle(seq // WIDTH)
    try:
        entry = decode_entry(leaf)
    except EntryError as error:
        raise TileError(file, f"entry {seq}: {error}") from error
    if entry.seq != seq or entry.previous != previous:
        raise TileError(file, f"entry {entry.seq} stands where entry {seq} should, or follows on another one")
    salt, data = body or (None, None)
    if salt is not None and data is not None and commit_body(salt, data) != entry.commitment:
        raise TileError(file, f"the body of entry {seq} is not the one its commitment binds")
    return EntryRecord(entry, leaf, leaf_hash(leaf), salt, data, PUBLISHED, f"ledger/{file}", seq % WIDTH)


def journal_items(data: Path, disk: Disk, seq: int) -> Iterator[Item]:
    """Entries from ``seq`` on as the journal holds them, for publication. Raises DamageError when it begins later."""
    reader = History(data, disk).journal()
    if reader.position.seq > seq:
        raise DamageError("journal/", 0, seq, f"it begins with entry {reader.position.seq} by now")
    for group in reader.groups():
        for record in group.records:
            if isinstance(record, EntryRecord) and record.entry.seq >= seq:
                yield record.leaf, record.leaf_hash, record.salt, record.body_bytes
