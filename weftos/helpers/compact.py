"""Makes the next snapshot: ``python -P -m weftos.helpers.compact --data DIR --group G --checksum CHECKSUM --snapshot
SNAPSHOT --session-records N --session-bytes N --sessions N --sessions-bytes N``.

A process of its own beside the node, with low priority. It has no key and asks nobody: it reads the newest snapshot and
the sealed segments of the journal up to group G, through the reducer that the node itself has, and writes what they
come to. Prints what it covers as one line of JSON; the node signs that and puts it in its place.

The node says what the snapshot is to be made of: the digest of the one before (SNAPSHOT) and the checksum of the frame
before group G (CHECKSUM). Files that were changed since the node read or wrote them make no snapshot, so it signs none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.entry import ZERO_HASH
from chain.entry.frame import NO_CHECKSUM
from chain.entry.reader import EntryRecord, JournalReader, Position, ReadGroup, StateRecord, replay_group
from chain.errors import ChainError, DamageError
from chain.journal.sequencer import stale_counters
from chain.keys.rotation import KIND as ROTATED
from chain.merkle.head import parse_head
from chain.merkle.merkle import CompactRange
from chain.notes.note import parse
from chain.state.snapshot import (
    SNAPSHOT_FILE,
    Snapshot,
    read_signed,
    record_bytes,
    snapshot_records,
    write_snapshot,
)
from chain.vectors.document_table import is_document
from kernel.bounds import STATE_LIMITS
from kernel.helper.helper import die_with_parent
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state

NICE = 10


class Compactor:
    """What the journal of ``data`` comes to, from its newest snapshot on, which must have ``digest`` (empty: none).
    ``limits``: :data:`kernel.bounds.STATE_LIMITS`, as the node has them.
    """

    def __init__(self, data: Path, limits: Sequence[int], disk: Disk, digest: bytes) -> None:
        self._data, self._digest = data, digest
        self._disk = disk
        self._state = State(*limits)
        self._changed: dict[tuple[str, str], StateRecord] = {}
        found = read_signed(data / "snapshot", disk)
        if (found.digest if found else b"") != digest:
            raise DamageError("snapshot/state.ws", 0, -1, "it is not the one that the node has signed")
        if found is not None:
            before = found.snapshot
            restore_state(self._state, before.state)
        else:
            before = Snapshot("", 0, NO_CHECKSUM, 0, ZERO_HASH, 0, {}, (), b"", 0, b"")
        self._tree = CompactRange.from_nodes(before.seq, before.nodes)
        self._counts = dict(before.counts)
        self._kept_bytes = disk.size(data / "snapshot" / SNAPSHOT_FILE) - len(before.state) if found else 0
        self._time_us, self._note, self._rotations = before.time_us, before.note, before.rotations
        position = Position(
            group=before.group,
            checksum=before.checksum,
            seq=before.seq,
            last_hash=before.last_hash,
            origin=before.origin,
        )
        self._reader = JournalReader(data / "journal", disk, position)

    def read_to(self, group: int, checksum: bytes) -> None:
        """Read on up to ``group``, which stays unread; the frame before it must have ``checksum``.

        Raises DamageError, ForeignDataError, OSError.
        """
        self._read_to(group)
        at = self._reader.position
        if at.checksum != checksum:
            what = f"group {at.group - 1} is not the one that the node has written"
            raise DamageError(at.file, at.offset, at.seq, what)

    def _read_to(self, group: int) -> None:
        if self._reader.position.group >= group:
            return
        for read in self._reader.groups():
            self._take(read)
            if self._reader.position.group >= group:
                break
        at = self._reader.position
        if at.group < group:
            raise DamageError(at.file, at.offset, at.seq, f"the journal ends before group {group}")
        if self._note:
            head = parse_head(parse(self._note).text)
            if (head.size, head.root) != (self._tree.size, self._tree.root()):
                raise DamageError(at.file, at.offset, at.seq, "its entries are not those of its newest head")

    def _take(self, group: ReadGroup) -> None:
        for record in replay_group(group, partial(replay_into, self._state)):
            if isinstance(record, EntryRecord):
                self._tree.append(record.leaf_hash)
                self._counts[record.entry.pid] = record.entry.count + 1
                self._time_us = record.entry.time_us
                self._rotations += record.entry.kind == ROTATED
            elif isinstance(record, StateRecord) and is_document(record):
                self._changed[record.table, record.key] = record
        self._note = group.note or self._note

    def write(self) -> tuple[Snapshot, bytes]:
        """Write the snapshot of where it stands, beside the one before; it and its digest. Raises OSError,
        DamageError.
        """
        at = self._reader.position
        for pid in stale_counters(self._counts, {slot.pid for slot in self._state.slots.values()}):
            del self._counts[pid]
        snapshot = Snapshot(
            origin=at.origin,
            group=at.group,
            checksum=at.checksum,
            seq=at.seq,
            last_hash=at.last_hash,
            time_us=self._time_us,
            counts=self._counts,
            nodes=tuple(self._tree.nodes),
            note=self._note,
            rotations=self._rotations,
            state=encode_state(self._state),
        )
        most = self._kept_bytes + sum(map(record_bytes, self._changed.values()))
        return snapshot, write_snapshot(self._data / "snapshot", self._disk, snapshot, self._records(), most)

    def _records(self) -> Iterator[StateRecord]:
        for record in snapshot_records(self._data / "snapshot", self._disk, self._digest):
            if (record.table, record.key) not in self._changed:
                yield record
        yield from (record for record in self._changed.values() if record.value is not None)


def compact(
    data: Path, upto: tuple[int, bytes], limits: Sequence[int], digest: bytes, disk: Disk | None = None
) -> dict[str, Any]:
    """Write the snapshot of everything before a group, beside the one that has ``digest``. ``upto``: that group, and
    the checksum before it. Raises ChainError, OSError.
    """
    disk = disk or Disk()
    compactor = Compactor(data, limits, disk, digest)
    compactor.read_to(*upto)
    snapshot, made = compactor.write()
    return {"group": snapshot.group, "entries": snapshot.seq, "digest": made.hex()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process. Exit status 1 when there is no new snapshot; standard error says why."""
    parser = argparse.ArgumentParser(prog="weftos.helpers.compact")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--checksum", type=bytes.fromhex, required=True)
    parser.add_argument("--snapshot", type=bytes.fromhex, default=b"")
    for name in STATE_LIMITS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, required=True)
    arguments = parser.parse_args(argv)
    die_with_parent()
    os.nice(NICE)
    limits = tuple(getattr(arguments, name) for name in STATE_LIMITS)
    upto = (arguments.group, arguments.checksum)
    try:
        print(json.dumps(compact(arguments.data, upto, limits, arguments.snapshot)))
    except (ChainError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
