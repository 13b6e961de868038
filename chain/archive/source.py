"""What an archive has still to load, wherever it lies: published tiles, the snapshot's documents, the journal.

An archive stands somewhere in the journal. Where the journal no longer begins before that place (a snapshot covers it,
the segments are gone), it goes on through the published ledger up to where the journal begins now, takes all documents
anew from the snapshot, and follows the journal from there. A new archive of a ledger with a snapshot begins so too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import (
    EntryRecord,
    HeadRecord,
    JournalReader,
    Position,
    ReadGroup,
    StateRecord,
    segment_names,
)
from chain.errors import DamageError
from chain.state.history import PUBLISHED, History
from chain.state.recovery import start_of
from chain.state.snapshot import Snapshot, read_snapshot, snapshot_records
from chain.vectors.document_table import is_document

BATCH_ENTRIES = 2_000
BATCH_BYTES = 8 * 2**20
UPDATE_ENTRIES = 20_000


@dataclass(slots=True)
class Batch:
    """What is stored together; ``position`` is where the archive stands then.

    afresh: these are the first of all documents, those held before are out of date. note: the newest head in what was
    read, full: the newest with both signatures; each None when there was none.
    """

    position: Position
    entries: list[EntryRecord] = field(default_factory=list)
    documents: list[StateRecord] = field(default_factory=list)
    afresh: bool = False
    note: bytes | None = None
    full: bytes | None = None
    bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.documents or self.afresh or self.note or self.full)

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= BATCH_ENTRIES or self.bytes >= BATCH_BYTES

    def add(self, record: EntryRecord | StateRecord) -> None:
        if isinstance(record, EntryRecord):
            self.entries.append(record)
            self.bytes += len(record.body_bytes or b"")
        else:
            self.documents.append(record)
            self.bytes += len(record.value or b"")


class Source:
    """The ledger in the data directory ``data``, as an archive reads it."""

    def __init__(self, data: Path, disk: Disk) -> None:
        self._data = data
        self._journal = data / "journal"
        self._disk = disk

    def batches(self, at: Position, until: int | None) -> Iterator[Batch]:
        """What follows on ``at``, about ``UPDATE_ENTRIES`` of it, up to entry ``until`` if given.

        The last batch may be empty, with a position that has moved. Raises DamageError, ForeignDataError, TileError,
        OSError; DamageError also when the ledger is not the one that was read up to ``at``.
        """
        most = at.seq + UPDATE_ENTRIES
        if not self._is_there(at):
            snapshot = read_snapshot(self._data / "snapshot", self._disk)
            start = start_of(snapshot)
            if snapshot is not None and start.group > at.group:
                _check_ahead(at, start)
                for batch in self._published(at, snapshot, most):
                    yield batch
                    at = batch.position
                if at != start:
                    return
            elif (at.group, at.checksum, at.seq) != (start.group, start.checksum, start.seq):
                what = "the segment that the archive had read is gone"
                raise DamageError(at.file or "journal/", at.offset, at.seq, what)
            at = start
        yield from self._followed(at, until, most)

    def _is_there(self, at: Position) -> bool:
        """Whether the journal goes on at ``at``. Raises DamageError when it holds something else before it."""
        if not at.file or at.file not in segment_names(self._journal, self._disk):
            return False
        start = at.offset - len(at.checksum)
        if self._disk.read_at(self._journal / at.file, start, len(at.checksum)) != at.checksum:
            what = "the journal is not the one that the archive had read"
            raise DamageError(at.file, at.offset, at.seq, what)
        return True

    def _published(self, at: Position, snapshot: Snapshot, most: int) -> Iterator[Batch]:
        """Entries up to where the journal begins now, then the documents that the snapshot has."""
        end = snapshot.seq
        history = History(self._data, self._disk)
        if at.seq and history.tiles.node(0, at.seq - 1) != at.last_hash:
            what = "the published ledger is not the one that the archive had read"
            raise DamageError("ledger/", 0, at.seq, what)
        at = Position(group=PUBLISHED, seq=at.seq, last_hash=at.last_hash, origin=snapshot.origin)
        batch = Batch(at)
        for record in history.published(at.seq, min(end, most)):
            batch.add(record)
            batch.position = replace(at, seq=record.entry.seq + 1, last_hash=record.leaf_hash)
            if batch.is_full:
                yield batch
                batch = Batch(batch.position)
        if batch.position.seq < end:
            yield batch
            return
        batch.afresh = True
        for change in snapshot_records(self._data / "snapshot", self._disk):
            if is_document(change):
                batch.add(change)
            if batch.is_full:
                yield batch
                batch = Batch(batch.position)
        batch.position, batch.note = start_of(snapshot), snapshot.note
        yield batch

    def _followed(self, at: Position, until: int | None, most: int) -> Iterator[Batch]:
        reader = JournalReader(self._journal, self._disk, at)
        batch = Batch(at)
        for group in reader.groups():
            if until is not None and _last_seq(group) >= until:
                break
            for record in group.records:
                if isinstance(record, HeadRecord):
                    batch.full = record.note
                elif isinstance(record, EntryRecord) or is_document(record):
                    batch.add(record)
            batch.note = group.note or batch.note
            batch.position = reader.position
            if batch.is_full:
                yield batch
                batch = Batch(batch.position)
            if batch.position.seq >= most:
                break
        yield batch


def _check_ahead(at: Position, start: Position) -> None:
    if start.seq < at.seq:
        what = f"the archive has read {at.seq} entries, the journal begins behind {start.seq}"
        raise DamageError("journal/", 0, start.seq, what)


def _last_seq(group: ReadGroup) -> int:
    """The last entry of a group, -1 when it has none."""
    seqs = [record.entry.seq for record in group.records if isinstance(record, EntryRecord)]
    return seqs[-1] if seqs else -1
