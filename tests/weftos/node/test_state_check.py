"""State held against entries beside a node that drops segments meanwhile, and what a verification says it covers."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Ledger
from chain.verify.verify import ATTEMPTS, verify
from tests.chain.twins.forged_state import LIMITS, make_story
from tests.chain.twins.ledgers import draft
from weftos.cli.chain.coverage import coverage
from weftos.helpers.compact import compact
from weftos.node.state_check import compare_state


class Compacting(Disk):
    """As a node does it beside the reader: each of the first ``times`` that the journal is listed, the directory is
    as it stands after one more compaction.
    """

    def __init__(self, data: Path, times: int) -> None:
        self._data = data
        self.left = times

    def names(self, directory: Path) -> list[str]:
        if directory == self._data / "journal" and self.left:
            self.left -= 1
            asyncio.run(compacted(self._data))
        return Disk.names(self, directory)


class CompactingWhileRead(Disk):
    """The same each time that a segment is begun to be read."""

    def __init__(self, data: Path, times: int) -> None:
        self._data = data
        self._journal: set[int] = set()
        self.left = times

    def read(self, path: Path) -> bytes:
        data = Disk.read(self, path)
        self._read(path.parent == self._data / "journal")
        return data

    def open_to_read(self, path: Path) -> int:
        handle = Disk.open_to_read(self, path)
        self._journal.discard(handle)
        if path.parent == self._data / "journal":
            self._journal.add(handle)
        return handle

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        self._read(handle in self._journal and offset == 0)
        return Disk.read_open(self, handle, offset, length)

    def _read(self, begins: bool) -> None:
        if begins and self.left:
            self.left -= 1
            asyncio.run(compacted(self._data))


async def written(data: Path) -> None:
    """One more run of the node, in a segment of its own."""
    ledger = Ledger.open(data, load_keys(data / "keys"), now_us=lambda: 2 * 10**15)
    ledger.start(asyncio.get_running_loop())
    await ledger.commit([draft(0)], durable=True).durable()
    await ledger.close()


async def compacted(data: Path) -> None:
    await written(data)
    ledger = Ledger.open(data, load_keys(data / "keys"), now_us=lambda: 2 * 10**15)
    ledger.start(asyncio.get_running_loop())
    await ledger.publish()
    made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
    await ledger.upkeep.place_snapshot(made["group"], bytes.fromhex(made["digest"]))
    assert await ledger.upkeep.drop_before(made["group"])
    await ledger.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    make_story(tmp_path / "data")
    return tmp_path / "data"


def test_segments_that_a_running_node_drops_are_no_finding(data: Path) -> None:
    disk = Compacting(data, 1)
    undisturbed = compare_state(data)
    assert compare_state(data, disk) == undisturbed
    assert disk.left == 0


def test_a_node_that_never_lets_it_be_read_leaves_it_uncompared(data: Path) -> None:
    found, why = compare_state(data, Compacting(data, ATTEMPTS))
    assert (found, why) == ([], f"the node changed it at each of {ATTEMPTS} attempts")


@pytest.mark.parametrize("kind", [Compacting, CompactingWhileRead])
def test_a_verification_goes_on_from_what_it_has_audited_when_the_node_drops_segments(
    data: Path, kind: type[Compacting] | type[CompactingWhileRead]
) -> None:
    for _ in range(3):
        asyncio.run(written(data))
    disk = kind(data, 3 * ATTEMPTS)
    before = verify(data).entries
    report = verify(data, disk=disk)
    assert report.findings == []
    assert report.entries >= before and report.begins == 0 and report.bound
    assert disk.left < 3 * ATTEMPTS


def test_the_coverage_names_a_snapshot_only_where_there_is_one(data: Path) -> None:
    since, ever = "state since the snapshot, should Ed25519 be broken", "state, should Ed25519 be broken"
    rows = {row.what for row in coverage(verify(data), local=True)}
    assert rows >= {"the same in the snapshot", since} and ever not in rows
    shutil.rmtree(data)
    make_young(data)
    rows = {row.what for row in coverage(verify(data), local=True)}
    assert not rows & {"the same in the snapshot", since} and ever in rows


def make_young(data: Path) -> None:
    """A ledger that has no snapshot yet."""
    data.mkdir()
    create_keys(data / "keys")

    async def write() -> None:
        ledger = Ledger.open(data, load_keys(data / "keys"), now_us=lambda: 10**15)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0)], durable=True).durable()
        await ledger.close()

    asyncio.run(write())
