"""Opening a journal that was there before: read it all, check it against the heads, say where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chain.disk import Disk
from chain.errors import ChainError, DamageError, ForeignDataError
from chain.head import TreeHead, parse_head
from chain.keys import Keys
from chain.note import verify
from chain.reader import JournalReader, Position, Tail
from chain.record import EntryRecord, Record
from chain.sequencer import Sequencer
from chain.slots import FullHead, HeadSlots


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found. ``note`` is the newest head in the journal (empty when there is none), ``full`` the
    newest in the slots; ``closed`` whether the last run had stopped cleanly, or there was none.
    """

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
    directory: Path, slots: HeadSlots, keys: Keys, disk: Disk, replay: Callable[[Record], None]
) -> Recovery:
    """Read the journal in ``directory``, handing each record to ``replay`` in order.

    Raises DamageError, ForeignDataError (the data is another node's), OSError, and what ``replay`` raises.
    """
    full = slots.load((keys.ed25519, keys.mldsa))
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
        _check_note(note, note_at, keys, sequencer)
    closed = position.closed or groups == 0
    return Recovery(sequencer, position, note, full, reader.tail, groups, closed)


def _check_note(note: bytes, at: Position, keys: Keys, sequencer: Sequencer) -> None:
    try:
        head = parse_head(verify(note, (keys.ed25519,)).text)
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
