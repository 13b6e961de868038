"""Opening a journal that was there before: read it all, check it against the heads, say where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chain.disk import Disk
from chain.errors import ChainError, DamageError, ForeignDataError, KeyFileError, RotationError
from chain.head import TreeHead, parse_head
from chain.keys import Keys
from chain.note import verify
from chain.reader import JournalReader, Position, Tail
from chain.record import EntryRecord, Record
from chain.rotation import KIND, KeyHistory
from chain.sequencer import Sequencer
from chain.slots import FullHead, HeadSlots


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found. ``keys`` are those in force; ``note`` is the newest head in the journal (empty when there is
    none), ``full`` the newest in the slots; ``closed`` whether the last run had stopped cleanly, or there was none.
    """

    keys: Keys
    sequencer: Sequencer
    position: Position
    note: bytes
    full: FullHead | None
    tail: Tail | None
    groups: int
    closed: bool

    @property
    def torn_bytes(self) -> int:
        return self.tail.bytes if self.tail else 0


def recover(
    directory: Path, slots: HeadSlots, found: Sequence[Keys], disk: Disk, replay: Callable[[Record], None]
) -> Recovery:
    """Read the journal in ``directory``, handing each record to ``replay`` in order.

    ``found`` are the keys of this node that may be the ones in force: the journal says which. Raises DamageError,
    ForeignDataError (the data is another node's), KeyFileError, OSError, and what ``replay`` raises.
    """
    keys = found[0]
    full = slots.load(*(pair.both for candidate in found for pair in candidate.pairs))
    history = KeyHistory(keys.pairs[0])
    sequencer = Sequencer(keys.origin)
    reader = JournalReader(directory, disk)
    note, note_at = b"", Position()
    groups = 0
    for group in reader.groups():
        if reader.position.origin != keys.origin:
            break
        for record in group.records:
            if isinstance(record, EntryRecord):
                sequencer.follow(record.entry, record.leaf_hash)
                if full is not None and record.entry.seq + 1 == full.head.size:
                    _same_root(full.head, sequencer, reader.position, "the full head in heads/")
                if record.entry.kind == KIND:
                    _follow(history, record)
            replay(record)
        if group.note is not None:
            note, note_at = group.note, reader.position
        groups += 1
    position = reader.position
    if position.origin and position.origin != keys.origin:
        raise ForeignDataError(
            f"the journal belongs to {position.origin}, the keys to {keys.origin}: nothing was touched"
        )
    size = sequencer.tree.size
    if full is not None and full.head.size > size:
        what = (
            f"the head in heads/ covers {full.head.size} entries, the journal holds {size}: its end is gone"
        )
        raise DamageError(position.file, position.offset, size, what)
    if size:
        _check_note(note, note_at, history, sequencer)
    keys = _choose(found, history)
    _check_full(full, history)
    closed = position.closed or groups == 0
    return Recovery(keys, sequencer, position, note, full, reader.tail, groups, closed)


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
