"""Reads a journal from its files: by recovery, by the archive and the auditor beside a running node.

It trusts nothing: frame checksums and their chain across segments, canonical leaves, sequence, hash links and
body commitments are checked as they pass. What a crash can leave, and only that, is passed over: an
incomplete or garbled last frame of the last segment, unless a clean stop had closed that segment. Everything
else is :class:`~chain.errors.DamageError`.

Safe beside the writer, which only ever appends: the directory is listed *before* a segment is read, so a
segment that had a successor then is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from chain.disk import Disk
from chain.entry.entry import ZERO_HASH, commit_body, decode_entry
from chain.entry.frame import (
    NO_CHECKSUM,
    SEGMENT_HEADER_BYTES,
    BadFrame,
    FormatError,
    Frame,
    SegmentHeader,
    decode_segment_header,
    segment_group,
    segment_name,
)
from chain.entry.record import (
    EntryRecord,
    HeadRecord,
    RawEntry,
    Record,
    RecordError,
    StateRecord,
    decode_payload,
)
from chain.entry.segment_file import MAX_SEGMENT_BYTES, SegmentFile
from chain.errors import ChainError, DamageError, EntryError, ForeignDataError, ReplayError
from chain.merkle.merkle import leaf_hash

__all__ = ["EntryRecord", "HeadRecord", "JournalReader", "Position", "ReadGroup", "Record", "StateRecord",
           "Tail", "read_records", "replay_group"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading stands: behind all that came before group ``group``. Can be stored, to go on later.

    checksum: of the frame (or segment header) before; seq and last_hash: of the entry to come and the leaf
    before it; closed: whether the last frame was that of a clean stop.
    """

    file: str = ""
    offset: int = 0
    group: int = 0
    checksum: bytes = NO_CHECKSUM
    seq: int = 0
    last_hash: bytes = ZERO_HASH
    closed: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """One frame: its records in order, and its head note (None in a group without entries)."""

    number: int
    file: str
    offset: int
    records: tuple[Record, ...]
    note: bytes | None


@dataclass(frozen=True, slots=True)
class Tail:
    """The unacknowledged rest behind the last whole frame: a write that a crash (or this very moment) cut
    off.
    """

    file: str
    offset: int
    bytes: int
    what: str


def segment_names(directory: Path, disk: Disk) -> list[str]:
    """The journal's segments, in order."""
    return [name for name in disk.names(directory) if segment_group(name) is not None]


def segment_format(path: Path, disk: Disk, seq: int) -> int:
    """The format in the header of the segment ``path``. Raises DamageError, OSError."""
    try:
        return decode_segment_header(disk.read_at(path, 0, SEGMENT_HEADER_BYTES))[0].format
    except FormatError as error:
        raise DamageError(path.name, 0, seq, str(error)) from error


def open_segment(data: bytes, name: str, at: Position) -> tuple[SegmentHeader, int]:
    """The header of segment ``name``, checked to follow on ``at``. Raises DamageError, ForeignDataError."""
    try:
        header, end = decode_segment_header(data)
    except FormatError as error:
        raise DamageError(name, 0, at.seq, str(error)) from error
    if segment_name(header.first_group) != name:
        what = f"its header says group {header.first_group}, its name says {segment_group(name)}"
        raise DamageError(name, 8, at.seq, what)
    if header.first_group != at.group:
        what = f"begins with group {header.first_group}, group {at.group} must come next: a file is missing"
        raise DamageError(name, 0, at.seq, what)
    if header.previous != at.checksum:
        what = (
            f"follows on checksum {header.previous.hex()}, the segment before ends with {at.checksum.hex()}"
        )
        raise DamageError(name, 0, at.seq, what)
    if at.origin and header.origin != at.origin:
        raise ForeignDataError(
            f"journal segment {name} belongs to {header.origin}, the ones before to {at.origin}"
        )
    return header, end


class JournalReader:
    """Reads groups in order from ``position``, up to what is there now; :meth:`groups` again goes on.

    It does not look at signatures: ``last`` is the frame read last (without its payload), by which whoever has a key
    can tell that all before it is the node's (:mod:`chain.state.binding`).
    """

    def __init__(self, directory: Path, disk: Disk, position: Position | None = None) -> None:
        self._directory = directory
        self._disk = disk
        self.position = position or Position()
        self.tail: Tail | None = None
        self.last: Frame | None = None
        self._format: int | None = None  # of the segment at the position, once its header was read
        self._seq = self.position.seq
        self._last_hash = self.position.last_hash

    def groups(self) -> Iterator[ReadGroup]:
        """Every whole group behind the position, which moves along. Raises DamageError, ForeignDataError,
        OSError.
        """
        self.tail = None
        while True:
            names = segment_names(self._directory, self._disk)
            here = self.position.file
            if here and here not in names:
                raise DamageError(here, 0, self.position.seq, "segment is gone")
            if here:
                yield from self._segment(here, last=here == names[-1])
            following = [name for name in names if name > here and not self._covered(name)]
            if not following:
                return
            data = self._disk.read_at(self._directory / following[0], 0, SEGMENT_HEADER_BYTES)
            header, end = open_segment(data, following[0], self.position)
            self._format = header.format
            self.position = replace(
                self.position,
                file=following[0],
                offset=end,
                checksum=data[end - len(NO_CHECKSUM) : end],
                closed=False,
                origin=header.origin,
            )

    def _covered(self, name: str) -> bool:
        """Whether a segment begins before the position: a snapshot covers it, and a crash has left it."""
        return (segment_group(name) or 0) < self.position.group

    def _segment(self, name: str, *, last: bool) -> Iterator[ReadGroup]:
        path = self._directory / name
        if self._format is None:
            self._format = segment_format(path, self._disk, self.position.seq)
        with SegmentFile(path, self._disk) as segment:
            if segment.excess:
                raise DamageError(name, MAX_SEGMENT_BYTES, self.position.seq, segment.excess)
            yield from self._groups(segment, self._format, last=last)

    def _groups(self, segment: SegmentFile, format: int, *, last: bool) -> Iterator[ReadGroup]:
        while (at := self.position.offset) < segment.end:
            frame = segment.frame(at, self.position.group, self.position.checksum, format)
            if isinstance(frame, BadFrame):
                self._bad_frame(frame, segment, last=last)
                return
            group = self._read_group(frame, segment.name, at)
            self.last = replace(frame, payload=b"")
            self.position = replace(
                self.position,
                offset=frame.end,
                group=frame.group + 1,
                checksum=frame.checksum,
                closed=any(isinstance(record, HeadRecord) and record.closing for record in group.records),
                seq=self._seq,
                last_hash=self._last_hash,
            )
            yield group

    def _bad_frame(self, bad: BadFrame, segment: SegmentFile, *, last: bool) -> None:
        position = self.position
        left = segment.end - position.offset
        what = bad.what
        if not last:
            what = f"{what}; and a later segment follows"
        elif position.closed:
            what = f"{what}; and the node had stopped cleanly before these {left} bytes"
        elif bad.fault != "incomplete" and (later := segment.find(position.offset + 1, position.group)):
            what = f"{what}; and group {later[1]} follows at byte {later[0]}"
        else:
            self.tail = Tail(position.file, position.offset, left, what)
            return
        raise DamageError(position.file, position.offset, position.seq, what)

    def _read_group(self, frame: Frame, file: str, offset: int) -> ReadGroup:
        self._seq, self._last_hash = self.position.seq, self.position.last_hash
        try:
            raw, note = decode_payload(frame.payload)
            records = tuple(
                self._entry(record, frame.group, file, offset) if isinstance(record, RawEntry) else record
                for record in raw
            )
        except (RecordError, EntryError) as error:
            raise DamageError(file, offset, self._seq, str(error)) from error
        return ReadGroup(frame.group, file, offset, records, note)

    def _entry(self, raw: RawEntry, group: int, file: str, offset: int) -> EntryRecord:
        entry = decode_entry(raw.leaf)
        if entry.seq != self._seq:
            raise EntryError(f"entry {entry.seq} stands where entry {self._seq} should")
        if entry.previous != self._last_hash:
            raise EntryError(
                f"entry {entry.seq} follows on {entry.previous.hex()}, not on {self._last_hash.hex()}"
            )
        if (
            raw.salt is not None
            and raw.body is not None
            and commit_body(raw.salt, raw.body) != entry.commitment
        ):
            raise EntryError(
                f"body of entry {entry.seq} is not the one its commitment {entry.commitment.hex()} binds"
            )
        self._seq += 1
        self._last_hash = leaf_hash(raw.leaf)
        return EntryRecord(entry, raw.leaf, self._last_hash, raw.salt, raw.body, group, file, offset)


def replay_group(group: ReadGroup, replay: Callable[[Record], None]) -> Iterator[Record]:
    """Hand each record of ``group`` to ``replay``; each is yielded before it is.

    Raises :class:`ReplayError`, whatever ``replay`` raises: the one that names the record.
    """
    for place, record in enumerate(group.records, 1):
        yield record
        try:
            replay(record)
        except Exception as error:
            what = str(error) if isinstance(error, ChainError) else f"{type(error).__name__}: {error}"
            raise ReplayError(
                group.file, group.offset, group.number, place, _described(record), what
            ) from error


def _described(record: Record) -> str:
    if isinstance(record, EntryRecord):
        return f"entry {record.entry.seq} ({record.entry.kind})"
    if isinstance(record, StateRecord):
        return f"a state record of table {record.table!r:.60}"
    return "a head"


def read_records(directory: Path, disk: Disk | None = None) -> Iterator[Record]:
    """Every record of the journal in ``directory``, oldest first; a torn tail is passed over. Raises
    DamageError.
    """
    for group in JournalReader(directory, disk or Disk()).groups():
        yield from group.records
