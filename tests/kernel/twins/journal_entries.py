"""The ledger as an erasure reads it, straight from a journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import read_records
from chain.entry.record import EntryRecord


class JournalEntries:
    """``kernel.upkeep.erasure.Entries`` over the journal of ``data``, as it is when this is made."""

    def __init__(self, data: Path) -> None:
        records = read_records(data / "journal", Disk())
        self._entries = [record for record in records if isinstance(record, EntryRecord)]

    @property
    def size(self) -> int:
        return len(self._entries)

    def entries(self, start: int = 0) -> Iterator[EntryRecord]:
        return iter(self._entries[start:])

    def entry(self, seq: int) -> EntryRecord:
        return self._entries[seq]
