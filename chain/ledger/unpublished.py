"""What a snapshot covers and the published ledger lacks, while the journal's older segments still hold it.

Earlier versions of weftos put a snapshot in its place before all that it covers was published. A node that was killed
then could not start: recovery reads the journal behind the snapshot, and finds those entries nowhere. The segments
before it are there, since none goes before its entries are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from chain.disk import Disk
from chain.entry.entry import decode_entry
from chain.entry.frame import SEGMENT_HEADER_BYTES, FormatError, Frame, decode_segment_header
from chain.entry.reader import Position, segment_names
from chain.entry.record import RawEntry, RecordError, decode_payload
from chain.errors import DamageError, EntryError, LedgerUnavailable
from chain.keys.keys import Keys
from chain.keys.rotation import vkeys_text
from chain.merkle.head import TreeHead
from chain.merkle.merkle import leaf_hash
from chain.notes.note import join_note
from chain.state.binding import check_snapshot, frames
from chain.state.snapshot import Snapshot, covered_entries, read_signed
from chain.tiles.publisher import Publisher
from chain.tiles.tile_layout import Item
from chain.tiles.tile_store import TileStore


def publish_covered(data: Path, disk: Disk, found: Sequence[Keys]) -> None:
    """Publish it, if the segments lead to the snapshot, entry by entry and byte by byte, and one of the keys ``found``
    has signed that. Otherwise nothing is changed: recovery says what is missing.

    Raises DamageError, ForeignDataError, TileError, OSError, LedgerUnavailable when it cannot be written.
    """
    store = TileStore(data / "ledger", disk)
    signed = (
        read_signed(data / "snapshot", disk)
        if covered_entries(data / "snapshot", disk) > store.size
        else None
    )
    if signed is None:
        return
    snapshot, start = signed.snapshot, store.size
    tree = store.compact_range(start)
    keys = next((keys for keys in found if len(keys.pairs) == snapshot.rotations + 1), None)
    items = _covered(data / "journal", disk, snapshot, start)
    for _, hashed, _, _ in items:
        tree.append(hashed)
    if keys is None or check_snapshot(signed, [keys.pair]) or tuple(tree.nodes) != snapshot.nodes:
        return
    text = TreeHead(keys.origin, snapshot.seq, tree.root()).text()
    publisher = Publisher(data / "ledger", disk, lambda seq: items[seq - start :], lambda size: None)
    publisher.vkeys(vkeys_text(keys.pairs))
    publisher.signed(join_note(text, keys.ed25519_line(text), keys.mldsa_line(text)))
    publisher.start(lambda fault: None)
    publisher.stop()
    if publisher.fault is not None:
        raise LedgerUnavailable(publisher.fault)


def _covered(journal: Path, disk: Disk, snapshot: Snapshot, start: int) -> list[Item]:
    """Entries from ``start`` on in the segments before the snapshot's; none when their frames do not lead to it."""
    items: list[Item] = []
    for name, offset, frame in _older_frames(journal, disk, snapshot):
        try:
            records, _ = decode_payload(frame.payload)
            items += [
                (record.leaf, leaf_hash(record.leaf), record.salt, record.body)
                for record in records
                if isinstance(record, RawEntry) and decode_entry(record.leaf).seq >= start
            ]
        except (RecordError, EntryError) as error:
            raise DamageError(name, offset, -1, str(error)) from error
        if (frame.group + 1, frame.checksum) == (snapshot.group, snapshot.checksum):
            return items
    return []


def _older_frames(journal: Path, disk: Disk, snapshot: Snapshot) -> Iterator[tuple[str, int, Frame]]:
    for first in segment_names(journal, disk)[:1]:
        try:
            header, _ = decode_segment_header(disk.read_at(journal / first, 0, SEGMENT_HEADER_BYTES))
        except FormatError as error:
            raise DamageError(first, 0, -1, str(error)) from error
        yield from frames(
            journal, disk, Position(group=header.first_group, checksum=header.previous), snapshot.origin
        )
