"""Entries as they are written, read from the files beside the running node.

The reader goes on where it stood. When the node has dropped or rewritten the segment that it stood in (a snapshot took
its place, or something was erased), it begins anew behind the last entry that was seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from chain.entry.reader import EntryRecord
from chain.errors import DamageError
from chain.state.history import History
from weftos.audit.auditor import Auditor, row
from weftos.audit.select import Selection, Selector
from weftos.errors import WeftosError
from weftos.json_object import Json

POLL_S = 0.25
ATTEMPTS = 4


def follow(data: Path, selection: Selection, newest: int) -> Iterator[Json]:
    """The ``newest`` rows of ``selection``, then each new one, for ever. Raises WeftosError once the ledger is gone."""
    auditor = Auditor(data)
    selector = Selector(selection)
    size = auditor.size
    there = (record for record in islice(auditor.records(), size) if selector.matches(record))
    for record in deque(there, maxlen=newest):
        yield row(record)
    selector.finish()
    for record in _written_from(data, size):
        if selector.matches(record):
            yield row(record)


def _written_from(data: Path, start: int) -> Iterator[EntryRecord]:
    """Every entry from ``start`` on, as it comes."""
    failures = 0
    while True:
        history = History(data)
        reader = history.journal()
        for record in history.published(start, reader.position.seq):
            yield record
            start = record.entry.seq + 1
        try:
            while True:
                for group in reader.groups():
                    for entry in group.records:
                        if isinstance(entry, EntryRecord) and entry.entry.seq >= start:
                            yield entry
                            start = entry.entry.seq + 1
                failures = 0
                _wait(data)
        except (DamageError, FileNotFoundError):
            failures += 1
            if failures == ATTEMPTS:
                raise
            _wait(data)


def _wait(data: Path) -> None:
    if not (data / "journal").is_dir():
        raise WeftosError(f"the ledger in {data} is gone: it was moved or deleted meanwhile", "not_found")
    time.sleep(POLL_S)
