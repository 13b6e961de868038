"""The records of the journal and the payload of a frame that holds them.

A payload is the msgpack array ``[record, ..., note]``. A record is ``[1, leaf, salt, body]`` (an entry; salt
and body both nil once erased), ``[2, table, key, value]`` (state; value nil deletes) or ``[3, note,
closing]`` (a full head; ``closing`` true for the last record of a clean stop). The note in the last place is
the head of the group, with its Ed25519 line; nil in a group without entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from reprlib import repr as brief
from typing import Any

import msgpack

from chain.entry.entry import SALT_BYTES, Entry, decode_body
from chain.errors import EntryError

ENTRY, STATE, HEAD = 1, 2, 3
_WHOLE_ENTRY = [int, bytes, bytes, bytes]

MOST_SALVAGE_BYTES = 2**28
_RECORD_START = re.compile(rb"\x94[\x01\x02]|\x93\x03")
_NOTE_START = re.compile(rb"[\xc0\xc4\xc5\xc6]")
_NOTE_BYTES = 70_000


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """An entry as it stands in the journal. ``salt`` and ``body_bytes`` are None once the body was erased."""

    entry: Entry
    leaf: bytes
    leaf_hash: bytes
    salt: bytes | None
    body_bytes: bytes | None
    group: int
    file: str
    offset: int

    @property
    def body(self) -> dict[str, Any]:
        """The body, decoded anew at each use; empty once erased (see :attr:`erased`)."""
        return {} if self.body_bytes is None else decode_body(self.body_bytes)

    @property
    def erased(self) -> bool:
        return self.body_bytes is None


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A change of the node's state: ``value`` None deletes."""

    table: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """A full head: the note with both signature lines. ``closing`` for the one of a clean stop."""

    note: bytes
    closing: bool


Record = EntryRecord | StateRecord | HeadRecord


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry record whose leaf has not been looked into."""

    leaf: bytes
    salt: bytes | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Columns:
    """Entries in a row, whose leaves have not been looked into: leaves, salts and bodies, the last two None where
    erased.
    """

    leaves: Sequence[bytes]
    salts: Sequence[bytes | None]
    bodies: Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes of a damaged payload that are no record; ``what`` says why."""

    what: str


class RecordError(Exception):
    """A payload is not of this form; the message says in which way. Handled inside the package."""


def encode_entry_record(leaf: bytes, salt: bytes, body: bytes) -> bytes:
    """``[1, leaf, salt, body]``; on the hot path, so the few possible headers are written by hand."""
    leaf_header, body_header = _bin_header(len(leaf)), _bin_header(len(body))
    return b"".join((b"\x94\x01", leaf_header, leaf, b"\xc4\x20", salt, body_header, body))


_SHORT = tuple(bytes((0xC4, size)) for size in range(256))


def _bin_header(size: int) -> bytes:
    if size < 256:
        return _SHORT[size]
    if size < 65536:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def encode_state_record(table: str, key: str, value: bytes | None) -> bytes:
    """``[2, table, key, value]``. Raises EntryError for what :func:`shape_record` would not take back."""
    try:
        record: bytes = msgpack.packb([STATE, table, key, value])
        if shape_record(msgpack.unpackb(record)) == StateRecord(table, key, value):
            return record
        found = "it would be read back as another"
    except (RecordError, ValueError, TypeError, OverflowError, RecursionError) as error:
        found = str(error)
    raise EntryError(f"no state record {brief(key)} of table {brief(table)}: {found}")


def encode_head_record(note: bytes, closing: bool) -> bytes:
    record: bytes = msgpack.packb([HEAD, note, closing])
    return record


def encode_payload(records: Sequence[bytes], note: bytes | None) -> bytes:
    """The payload over records that are encoded already."""
    count = len(records) + 1
    header = bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
    return b"".join((header, *records, msgpack.packb(note)))


def decode_payload(payload: bytes) -> tuple[list[RawEntry | StateRecord | HeadRecord], bytes | None]:
    """The records of a payload whose checksum was right, and the group's note. Raises RecordError."""
    values = _unpack(payload)
    return [shape_record(value) for value in values[:-1]], shape_note(values[-1])


def decode_columns(payload: bytes) -> tuple[Columns, list[StateRecord | HeadRecord], bytes | None] | None:
    """As :func:`decode_payload`, faster, the entries apart. None unless all has its form, each entry its body."""
    try:
        *values, last = _unpack(payload)
        note = shape_note(last)
        are_entries = [type(value) is list and len(value) == 4 and value[0] == ENTRY for value in values]
        entries = [*compress(values, are_entries)]
        others = [
            shape_record(value) for value, is_entry in zip(values, are_entries, strict=True) if not is_entry
        ]
    except RecordError:
        return None
    numbers, leaves, salts, bodies = zip(*entries, strict=True) if entries else ((),) * 4
    if not {*map(type, numbers)} <= {int} or not {*map(type, (*leaves, *salts, *bodies))} <= {bytes}:
        return None
    if not {*map(len, salts)} <= {SALT_BYTES}:
        return None
    return Columns(leaves, salts, bodies), [each for each in others if not isinstance(each, RawEntry)], note


def _unpack(payload: bytes) -> list[Any]:
    try:
        values = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise RecordError(f"payload is not msgpack: {type(error).__name__}") from error
    if type(values) is not list or not values:
        raise RecordError("payload is not an array of records and a note")
    return values


def salvage_payload(payload: bytes) -> list[RawEntry | StateRecord | HeadRecord | Unreadable | bytes | None]:
    """The records of a damaged payload, and last its note, with :class:`Unreadable` where some cannot be
    read.

    A changed length makes a record swallow or leave bytes of the next, so the records behind the damage are
    found by where the rest of the payload, up to its very end, can be read again: first behind the start of
    the last record that still could be read (then that one was the culprit), or later.
    """
    starts = (5, 1) if payload[:1] == b"\xdd" else (1, 5)
    for start in starts:
        items, offsets, fault = _read_items(payload, start)
        if not fault:
            return items
    items, offsets, fault = _read_items(payload, starts[0])
    failed_at = offsets[-1]
    last_good = offsets[-2] if len(offsets) > 1 else starts[0] - 1
    work = 0
    for start in _likely_starts(payload, last_good + 1):
        work += len(payload) - start
        if work > MOST_SALVAGE_BYTES:  # made to be looked through for ever
            break
        rest, _, still = _read_items(payload, start)
        if not still:
            kept = items[:-1] if start < failed_at else items
            return [*kept, Unreadable(fault), *rest]
    return [*items, Unreadable(fault)]


def _likely_starts(payload: bytes, at: int) -> Iterator[int]:
    """Offsets from ``at`` on where a record, or else the note, may begin."""
    for match in _RECORD_START.finditer(payload, at):
        yield match.start()
    for match in _NOTE_START.finditer(payload, max(at, len(payload) - _NOTE_BYTES)):
        yield match.start()


def _read_items(
    payload: bytes, start: int
) -> tuple[list[RawEntry | StateRecord | HeadRecord | Unreadable | bytes | None], list[int], str]:
    """What can be read from ``start`` on, the offset of each item and of what follows, and why it ends before
    the end.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(payload), 1))
    unpacker.feed(memoryview(payload)[start:])
    items: list[RawEntry | StateRecord | HeadRecord | Unreadable | bytes | None] = []
    offsets = [start]
    while True:
        try:
            value = unpacker.unpack()
            end = start + unpacker.tell()
            items.append(shape_note(value) if end == len(payload) else shape_record(value))
        except (RecordError, ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
            return items, offsets, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        offsets.append(end)
        if end == len(payload):
            return items, offsets, ""


def shape_record(value: Any) -> RawEntry | StateRecord | HeadRecord:
    """``value`` as a record. Raises :class:`RecordError`."""
    if (
        type(value) is list
        and [*map(type, value)] == _WHOLE_ENTRY
        and value[0] == ENTRY
        and len(value[2]) == 32
    ):
        return RawEntry(value[1], value[2], value[3])
    match value:
        case [1, bytes() as leaf, None, None] if value[0] is not True:
            return RawEntry(leaf, None, None)
        case [2, str() as table, str() as key, (bytes() | None) as changed]:
            return StateRecord(table, key, changed)
        case [3, bytes() as note, bool() as closing]:
            return HeadRecord(note, closing)
    raise RecordError(f"no record of the journal: {brief(value)}")


def shape_note(value: Any) -> bytes | None:
    """``value`` as the note in the last place. Raises :class:`RecordError`."""
    if value is None or type(value) is bytes:
        return value
    raise RecordError(f"the note of the group is {type(value).__name__}")
