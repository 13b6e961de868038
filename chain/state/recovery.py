"""Opening a ledger that was there before: read it, check it against the heads, say where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chain.disk import Disk
from chain.entry.frame import Frame, segment_name
from chain.entry.reader import JournalReader, Position, Tail, replay_group, segment_names
from chain.entry.record import EntryRecord, Record
from chain.errors import (
    ChainError,
    DamageError,
    ForeignDataError,
    KeyFileError,
    RotationError,
    UnboundState,
)
from chain.journal.sequencer import Sequencer
from chain.keys.keys import Keys
from chain.keys.rotation import KIND, KeyHistory, KeyPair
from chain.merkle.head import TreeHead, parse_head
from chain.notes.note import verify
from chain.notes.slots import FullHead, HeadSlots
from chain.state.binding import Unbound, find_unbound, last_frame, unbound
from chain.state.snapshot import SignedSnapshot, Snapshot, read_signed
from chain.tiles.tile_store import TileStore


@dataclass(frozen=True, slots=True)
class Reader:
    """Who hears what is found: ``restore`` the state of the newest snapshot, ``replay`` then every record of the
    journal behind it, in order.

    ``accept``: take over state that the keys have not signed. ``agree`` is asked when all has been read, with what was
    taken over so: when it raises, journal, snapshot and what is published stay as they are.
    """

    replay: Callable[[Record], None] = lambda record: None
    restore: Callable[[bytes], None] = lambda state: None
    accept: bool = False
    agree: Callable[[tuple[Unbound, ...]], None] = lambda unbound: None


NOBODY = Reader()


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found. ``keys`` are those in force; ``note`` is the newest head in the journal (empty when there is
    none), ``full`` the newest in the slots; ``closed`` whether the last run had stopped cleanly, or there was none;
    ``unbound`` what no key vouches for and a person has accepted; ``snapshot`` group and digest of the one
    that was read.
    """

    keys: Keys
    sequencer: Sequencer
    position: Position
    note: bytes
    full: FullHead | None
    tail: Tail | None
    groups: int
    closed: bool
    unbound: tuple[Unbound, ...]
    snapshot: tuple[int, bytes] | None

    @property
    def torn_bytes(self) -> int:
        return self.tail.bytes if self.tail else 0


def recover(
    data_dir: Path,
    slots: HeadSlots,
    found: Sequence[Keys],
    disk: Disk,
    reader: Reader,
    whole: int,
) -> Recovery:
    """Take over the snapshot, read the journal behind it, and hold both against the heads and what is published.

    Changes nothing on the disk. ``found`` are the keys of this node that may be the ones in force: the journal says
    which. What these have not signed is refused before any of it is handed out, unless ``reader`` is to accept it.
    ``whole``: so many entries are published with all their files; the others must be in the journal.
    Raises UnboundState, DamageError, ForeignDataError (the data is another node's), ReplayError (``replay`` raised
    something), KeyFileError, OSError, and what ``restore`` and ``agree`` raise.
    """
    keys = found[0]
    full = slots.load(*(pair.both for candidate in found for pair in candidate.pairs))
    published = _published(data_dir / "ledger", keys.origin, disk, whole)
    signed = read_signed(data_dir / "snapshot", disk)
    snapshot = signed.snapshot if signed else None
    known = _known(found, snapshot)
    bound = _Bound(data_dir / "journal", disk, signed, KeyHistory(*known))
    unsigned = bound.check(found)
    if unsigned and not reader.accept:
        raise UnboundState("; ".join(map(str, unsigned)))
    sequencer = Sequencer(keys.origin)
    history = KeyHistory(*known)
    note, note_at = b"", Position()
    if snapshot is not None:
        _check_snapshot(snapshot, published, keys.origin)
        sequencer = Sequencer(
            keys.origin, snapshot.tree(), snapshot.last_hash, snapshot.time_us, dict(snapshot.counts)
        )
        note = snapshot.note
        reader.restore(snapshot.state)
    journal = JournalReader(data_dir / "journal", disk, start_of(snapshot))
    claims = [(full.head, "the full head in heads/")] if full else []
    if published.head is not None:
        claims.append((published.head, "the checkpoint in ledger/"))
        if whole < published.head.size:
            claims.append((TreeHead(keys.origin, whole, published.root(whole)), "what is there of ledger/"))
    for head, which in claims:
        if snapshot is not None and head.size <= snapshot.seq and head.root != published.root(head.size):
            raise DamageError("ledger/", 0, head.size, f"{which} says another root than the tiles")
    groups = 0
    for group in journal.groups():
        if journal.position.origin != keys.origin:
            break
        for record in replay_group(group, reader.replay):
            if isinstance(record, EntryRecord):
                sequencer.follow(record.entry, record.leaf_hash)
                for head, which in claims:
                    if record.entry.seq + 1 == head.size:
                        _same_root(head, sequencer, journal.position, which)
                if record.entry.kind == KIND:
                    _follow(history, record)
        if group.note is not None:
            note, note_at = group.note, journal.position
        groups += 1
    position = journal.position
    if position.origin and position.origin != keys.origin:
        raise ForeignDataError(
            f"the journal belongs to {position.origin}, the keys to {keys.origin}: nothing was touched"
        )
    size = sequencer.tree.size
    for head, which in claims:
        if head.size > size:
            what = f"{which} covers {head.size} entries, the journal holds {size}: its end is gone"
            raise DamageError(position.file, position.offset, size, what)
    if snapshot is not None and not position.file:
        raise DamageError("journal/", 0, size, f"no segment is there that begins with group {snapshot.group}")
    if size:
        _check_note(note, note_at, history, sequencer)
    keys = _choose(found, history)
    if journal.last != bound.last:
        raise DamageError(position.file, position.offset, size, "the journal was changed while it was read")
    unsigned = unsigned or bound.check([keys])
    if unsigned and not reader.accept:
        raise UnboundState("; ".join(map(str, unsigned)))
    if full is not None and (snapshot is None or full.head.size >= snapshot.seq):
        _check_full(full, history)
    closed = position.closed or (groups == 0 and snapshot is None)
    kept = (signed.snapshot.group, signed.digest) if signed else None
    reader.agree(tuple(unsigned))
    return Recovery(
        keys, sequencer, position, note, full, journal.tail, groups, closed, tuple(unsigned), kept
    )


def _known(found: Sequence[Keys], snapshot: Snapshot | None) -> tuple[KeyPair, tuple[KeyPair, ...], int]:
    """The first pair of keys, those that followed up to the snapshot, and how many entries that covers."""
    first, *later = max((candidate.pairs for candidate in found), key=len)
    return (first, (), 0) if snapshot is None else (first, tuple(later[: snapshot.rotations]), snapshot.seq)


class _Bound:
    """The signatures under the snapshot and the journal's last frame: without them nothing is replayed."""

    def __init__(
        self, journal: Path, disk: Disk, snapshot: SignedSnapshot | None, history: KeyHistory
    ) -> None:
        self._journal = journal
        self._disk = disk
        self._snapshot = snapshot
        self._history = history
        self._start = start_of(snapshot.snapshot if snapshot else None)
        self.last: Frame | None = last_frame(journal, disk, self._start, history.origin)

    def check(self, keys: Sequence[Keys]) -> list[Unbound]:
        """What none of ``keys`` has signed, and no keys that the journal leads to."""
        return unbound(
            self._snapshot,
            self.last,
            [each.pair for each in keys],
            self._history.origin,
            lambda: find_unbound(self._journal, self._disk, self._start, self._history),
        )


def start_of(snapshot: Snapshot | None) -> Position:
    """Where the journal is read from: its beginning, or behind what ``snapshot`` covers."""
    if snapshot is None:
        return Position()
    return Position(
        group=snapshot.group,
        checksum=snapshot.checksum,
        seq=snapshot.seq,
        last_hash=snapshot.last_hash,
        origin=snapshot.origin,
    )


def remove_segments(directory: Path, group: int, disk: Disk) -> int:
    """Remove the journal's segments that begin before ``group``, oldest first; how many. Raises OSError."""
    names = [name for name in segment_names(directory, disk) if name < segment_name(group)]
    for name in names:
        disk.remove(directory / name)
    if names:
        disk.sync_directory(directory)
    return len(names)


def _published(directory: Path, origin: str, disk: Disk, whole: int) -> TileStore:
    """What is published and there, sound in itself as far as its newest head says."""
    store = TileStore(directory, disk)
    if store.head is not None:
        if store.head.origin != origin:
            raise ForeignDataError(f"ledger/ belongs to {store.head.origin}, the keys to {origin}")
        store.cut(whole)
        if whole == store.head.size and store.root(whole) != store.head.root:
            raise DamageError("ledger/checkpoint", 0, store.size, "its root is not that of the tiles")
    return store


def _check_snapshot(snapshot: Snapshot, published: TileStore, origin: str) -> None:
    if snapshot.origin != origin:
        raise ForeignDataError(f"the snapshot belongs to {snapshot.origin}, the keys to {origin}")
    if published.size < snapshot.seq:
        what = f"{published.size} entries are published, the snapshot covers {snapshot.seq}: the end is gone"
        raise DamageError("ledger/", 0, published.size, what)
    if tuple(published.compact_range(snapshot.seq).nodes) != snapshot.nodes:
        what = f"the published entries are not the {snapshot.seq} that it covers"
        raise DamageError("snapshot/state.ws", 0, snapshot.seq, what)


def _follow(history: KeyHistory, record: EntryRecord) -> None:
    try:
        history.rotated(record.entry.seq, record.body)
    except RotationError as error:
        raise DamageError(record.file, record.offset, record.entry.seq, str(error)) from error


def _choose(found: Sequence[Keys], history: KeyHistory) -> Keys:
    """Those that the journal leads to."""
    for keys in found:
        if keys.pairs == history.pairs:
            return keys
    times = " or ".join(str(len(keys.pairs) - 1) for keys in found)
    raise KeyFileError(
        f"the keys were changed {history.rotations} times in the journal, and {times} times in the files of keys, "
        "or to other keys: the two are not of one moment; restore the whole data directory from one copy"
    )


def _check_full(full: FullHead | None, history: KeyHistory) -> None:
    """The full head is signed by the keys of its size."""
    if full is not None:
        try:
            verify(full.note, history.at(full.head.size).both)
        except ChainError as error:
            what = f"the head of {full.head.size} entries is not signed by the keys of its time: {error}"
            raise DamageError("heads/", 0, -1, what) from error


def _check_note(note: bytes, at: Position, history: KeyHistory, sequencer: Sequencer) -> None:
    try:
        head = parse_head(verify(note, (history.at(sequencer.tree.size).ed25519,)).text)
    except ChainError as error:
        raise DamageError(at.file, at.offset, at.seq, f"head of the last group: {error}") from error
    _same_root(head, sequencer, at, "the head of the last group")


def _same_root(head: TreeHead, sequencer: Sequencer, at: Position, which: str) -> None:
    root = sequencer.tree.root()
    if (head.size, head.root) != (sequencer.tree.size, root):
        what = (
            f"{which} says {head.size} entries with root {head.root.hex()}, "
            f"the journal holds {sequencer.tree.size} with root {root.hex()}"
        )
        raise DamageError(at.file, at.offset, sequencer.tree.size, what)
