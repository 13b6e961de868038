"""Reading all that a ledger holds while its node drops segments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.reader import EntryRecord
from chain.errors import DamageError
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Ledger, Tuning
from chain.state.history import History
from tests.chain.twins.ledgers import Clock, draft
from tests.weftos.twins.compacting import LIMITS
from weftos.audit.auditor import Auditor
from weftos.audit.tree import LedgerTree
from weftos.helpers.compact import compact
from weftos.paths import FORMAT_LINE

GROUPS = 12


class Meanwhile(Disk):
    """Does ``what`` when a segment's name was told for the ``at``-th time, before it can be looked for."""

    def __init__(self, at: int, what: Callable[[], None]) -> None:
        self._at = at
        self._what = what

    def names(self, directory: Path) -> list[str]:
        found = super().names(directory)
        if directory.name == "journal":
            self._at -= 1
            if self._at == 0:
                self._what()
        return found


def goes_on(data: Path, *, compacted: bool = False) -> None:
    """The node writes some more; then all of it goes into a snapshot, and the segments away."""

    async def run() -> None:
        ledger = Ledger.open(
            data, load_keys(data / "keys"), now_us=Clock(), tuning=Tuning(segment_bytes=1_500, retry_s=0.01)
        )
        ledger.start(asyncio.get_running_loop())
        for _ in range(GROUPS):
            await ledger.commit([draft(ledger.next_seq)], durable=True).durable()
        if compacted:
            first = await ledger.upkeep.roll()
            await ledger.publish()
            made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
            await ledger.upkeep.place_snapshot(first, bytes.fromhex(made["digest"]))
            assert await ledger.upkeep.drop_before(first) > 1
        await ledger.close()

    asyncio.run(run())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys")
    (tmp_path / "format").write_text(FORMAT_LINE)
    goes_on(tmp_path, compacted=True)
    goes_on(tmp_path)
    return tmp_path


def seqs(records: list[EntryRecord]) -> list[int]:
    return [record.entry.seq for record in records]


@pytest.mark.parametrize("start", [0, GROUPS + 3])
@pytest.mark.parametrize("read", [1, 13, 20])
def test_a_reader_that_a_snapshot_overtakes_anywhere_goes_on(data: Path, read: int, start: int) -> None:
    entries = History(data).entries(start)
    found = list(islice(entries, min(read, 2 * GROUPS - start - 1)))
    goes_on(data, compacted=True)
    found += entries
    assert seqs(found)[:1] == [start]
    assert seqs(found) == list(range(start, start + len(found)))
    assert len(found) >= 2 * GROUPS - start


def test_so_does_one_whose_next_segment_goes_before_it_is_opened(data: Path) -> None:
    for at in range(1, 4):
        disk = Meanwhile(at, lambda: goes_on(data, compacted=True))
        found = seqs(list(History(data, disk).entries()))
        assert found == list(range(len(found))) and len(found) >= (1 + at) * GROUPS


def test_what_is_read_of_heads_and_sizes_is_read_again(data: Path) -> None:
    auditor = Auditor(data)
    auditor.history = History(data, Meanwhile(1, lambda: goes_on(data, compacted=True)))
    told = auditor.summary()
    assert told["entries"] == told["published_size"] == 3 * GROUPS
    auditor = Auditor(data)
    auditor.history = History(data, Meanwhile(1, lambda: goes_on(data, compacted=True)))
    assert list(LedgerTree(auditor).heads_of({4 * GROUPS})) == [4 * GROUPS]


def test_a_segment_that_is_missing_under_the_same_snapshot_is_damage(data: Path) -> None:
    names = sorted((data / "journal").iterdir())
    names[1].unlink()
    with pytest.raises(DamageError, match="a file is missing"):
        list(History(data).entries())
