"""How a ledger is opened: recovered from its directory, and handed over in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chain.aio import AioDisk
from chain.disk import Disk
from chain.entry.record import EntryRecord, Record
from chain.journal.journal import SEGMENT_BYTES, Journal
from chain.journal.reserve import RESERVE_BYTES, Reserve
from chain.journal.writer import RETRY_S
from chain.keys.keys import Keys
from chain.keys.rotation import vkeys_text
from chain.ledger.loop_calls import LoopCalls
from chain.ledger.publication import Publication
from chain.ledger.unpublished import publish_covered
from chain.notes.slots import HeadSlots
from chain.state.history import journal_items
from chain.state.recovery import Reader, Recovery, recover, remove_segments
from chain.state.snapshot import covered_entries, discard_snapshot
from chain.tiles.publisher import PUBLISH_S, Publisher

RESERVE_FILE = "reserve"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes in bytes, times in seconds. ``reserve_bytes``: set aside for the moment when the disk is full."""

    segment_bytes: int = SEGMENT_BYTES
    retry_s: float = RETRY_S
    publish_s: float = PUBLISH_S
    reserve_bytes: int = RESERVE_BYTES


USUAL = Tuning()


@dataclass(frozen=True, slots=True)
class Opened:
    """What a ledger is made of."""

    data: Path
    disk: Disk
    journal: Journal
    slots: HeadSlots
    publisher: Publisher
    publication: Publication
    reserve: Reserve
    recovery: Recovery
    calls: LoopCalls
    retry_s: float


def recovered(
    data: Path,
    keys: Sequence[Keys],
    reader: Reader,
    disk: Disk | None,
    tuning: Tuning,
) -> Opened:
    """See :meth:`chain.ledger.ledger.Ledger.open`."""
    disk = disk or AioDisk()
    discard_snapshot(data / "snapshot", disk)  # the last run may have been killed while it had one made
    reserve = Reserve(data / RESERVE_FILE, disk, tuning.reserve_bytes)
    reserve.need()
    for name in ("journal", "heads"):
        disk.make_directory(data / name)
    slots, calls, publication = HeadSlots(data / "heads", disk), LoopCalls(), Publication()
    items, published = partial(journal_items, data, disk), partial(calls.post, publication.published)
    publish_covered(data, disk, keys)
    begin = covered_entries(data / "snapshot", disk)
    publisher = Publisher(data / "ledger", disk, items, published, tuning.publish_s, begin)
    publication.published(publisher.size)

    def replay(record: Record) -> None:
        """To the publisher what it has not published, and everything to the node."""
        if isinstance(record, EntryRecord) and record.entry.seq >= publisher.size:
            publisher.take((record.leaf, record.leaf_hash, record.salt, record.body_bytes))
        reader.replay(record)

    recovery = recover(data, slots, keys, disk, replace(reader, replay=replay), publisher.size)
    if recovery.snapshot is not None:
        disk.sync_directory(data / "snapshot")  # whoever placed it may have been killed before
        remove_segments(data / "journal", recovery.snapshot[0], disk)
    publisher.vkeys(vkeys_text(recovery.keys.pairs))
    origin, segment_bytes = keys[0].origin, tuning.segment_bytes
    journal = Journal(data / "journal", disk, origin, recovery.position, segment_bytes=segment_bytes)
    return Opened(
        data, disk, journal, slots, publisher, publication, reserve, recovery, calls, tuning.retry_s
    )
