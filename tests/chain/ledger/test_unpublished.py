"""A snapshot that covers more than is published: it is not put in its place, and where it has been, a node starts."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.errors import DamageError, LedgerUnavailable, UnboundState
from chain.keys.keys import Keys, create_keys, load_keys
from chain.ledger.ledger import Ledger, Tuning
from chain.state.binding import snapshot_note
from chain.state.history import History
from chain.state.snapshot import place_snapshot, read_signed
from chain.tiles.tile_store import TileStore
from chain.verify.verify import verify
from tests.chain.twins.ledgers import OTHER_KEYS, Clock, draft
from tests.weftos.twins.compacting import LIMITS
from weftos.helpers.compact import compact

GROUPS = 40
DISK = Disk()


@pytest.fixture(autouse=True)
def _no_head_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of a head may begin a segment of its own, and the tests take the last two for those of their groups."""
    monkeypatch.setattr(Ledger, "_may_record", lambda ledger, now_s: False)


class UnpublishingDisk(Disk):
    """Takes nothing for the published ledger any more once it is ``full``."""

    full = False

    def create(self, path: Path) -> int:
        if self.full and "ledger" in path.parts:
            raise OSError(errno.ENOSPC, "full on purpose")
        return super().create(path)


def opened(data: Path, disk: Disk = DISK) -> Ledger:
    return Ledger.open(
        data,
        load_keys(data / "keys"),
        now_us=Clock(),
        disk=disk,
        tuning=Tuning(segment_bytes=4_000, retry_s=0.01),
    )


async def _covered(ledger: Ledger, data: Path) -> tuple[int, bytes]:
    """A snapshot of all so far, written beside; its group and digest."""
    await ledger.upkeep.roll()
    made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
    return made["group"], bytes.fromhex(made["digest"])


async def _killed(running: Path, left: Path, signer: Keys | None) -> None:
    """Put in its place what covers more than is published; ``left`` is what a killed node leaves then."""
    disk = UnpublishingDisk()
    ledger = opened(running, disk)
    ledger.start(asyncio.get_running_loop())
    for number in range(GROUPS):
        await ledger.commit([draft(number)], durable=True).durable()
        if number in (GROUPS // 4, GROUPS // 2):
            await ledger.publish()
            disk.full = number == GROUPS // 2
        if number == GROUPS // 4:
            group, digest = await _covered(ledger, running)
            await ledger.upkeep.place_snapshot(group, digest)
            assert await ledger.upkeep.drop_before(group) > 1
    before = (running / "snapshot" / "state.ws").read_bytes()
    group, digest = await _covered(ledger, running)
    words = f"the new snapshot covers {GROUPS} entries, {TileStore(running / 'ledger').size} are published"
    with pytest.raises(LedgerUnavailable, match=words):
        await ledger.upkeep.place_snapshot(group, digest)
    assert (running / "snapshot" / "state.ws").read_bytes() == before
    note = snapshot_note([signer or ledger.keys], group, digest)
    place_snapshot(running / "snapshot", DISK, digest, note)
    await ledger.commit([draft(GROUPS)], durable=True).durable()
    while ledger.full_size < ledger.size:  # no head is on its way to its slot while its directory is copied
        await asyncio.sleep(0.005)
    shutil.copytree(running, left)
    with pytest.raises(LedgerUnavailable):
        await ledger.close()


def killed(tmp_path: Path, signer: Keys | None = None) -> Path:
    (tmp_path / "running").mkdir()
    create_keys(tmp_path / "running" / "keys")
    asyncio.run(_killed(tmp_path / "running", tmp_path / "left", signer))
    return tmp_path / "left"


def test_what_it_covers_is_published_at_the_next_start(tmp_path: Path) -> None:
    data = killed(tmp_path)

    async def run() -> None:
        ledger = opened(data)
        assert ledger.size == GROUPS + 1 and ledger.published_size == GROUPS
        assert [record.entry.seq for record in History(data).entries()] == list(range(GROUPS + 1))
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0)], durable=True).durable()
        await ledger.close()

    asyncio.run(run())
    report = verify(data)
    assert report.findings == [] and (report.entries, report.published) == (GROUPS + 2, GROUPS + 2)
    found = read_signed(data / "snapshot", DISK)
    assert found is not None and found.snapshot.seq == GROUPS


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_entries_that_the_segments_do_not_hold_are_missing(tmp_path: Path, change: str) -> None:
    data = killed(tmp_path)
    checkpoint = (data / "ledger" / "checkpoint").read_bytes()
    segment = sorted((data / "journal").iterdir())[-2]
    if change == "gone":
        segment.unlink()
    else:
        content = segment.read_bytes()
        segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        DamageError, match=f"entries are published, the snapshot covers {GROUPS}: the end is gone"
    ):
        opened(data)
    assert (data / "ledger" / "checkpoint").read_bytes() == checkpoint


def test_for_a_snapshot_that_the_node_has_not_signed_nothing_is_published(tmp_path: Path) -> None:
    data = killed(tmp_path, OTHER_KEYS)
    checkpoint = (data / "ledger" / "checkpoint").read_bytes()
    with pytest.raises(UnboundState, match=r"snapshot/state\.ws"):
        opened(data)
    assert (data / "ledger" / "checkpoint").read_bytes() == checkpoint


def test_a_disk_that_takes_it_not_says_so(tmp_path: Path) -> None:
    disk = UnpublishingDisk()
    disk.full = True
    data = killed(tmp_path)
    with pytest.raises(LedgerUnavailable, match=r"the ledger cannot be published: .*full on purpose"):
        opened(data, disk)
    opened(data)._writer._journal.close()
