"""The two head slots: ``heads/a.note`` and ``heads/b.note`` hold the newest full head and the one before it.

A note is written beside, synced, and put in the place of the older one, so that a crash at any moment leaves
two whole notes; a slot that does not verify was damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chain.disk import Disk
from chain.errors import ChainError, DamageError, ForeignDataError, NoteError
from chain.merkle.head import TreeHead, parse_head
from chain.notes.note import MAX_NOTE_BYTES, VerifierKey, parse, verify

SLOT_NAMES = ("a.note", "b.note")
_NEW = "next.new"


@dataclass(frozen=True, slots=True)
class FullHead:
    """A head whose note bore every signature it must have."""

    head: TreeHead
    note: bytes


def read_full_head(note: bytes, keys: Sequence[VerifierKey]) -> FullHead:
    """The head in ``note``, signed by all of ``keys``. Raises NoteError, HeadError."""
    return FullHead(parse_head(verify(note, keys).text), note)


class HeadSlots:
    """Reads and writes the slots in ``directory``."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._next = 0

    def notes(self) -> dict[str, bytes]:
        """What is in the slots, by file name. Raises OSError."""
        present = self._disk.names(self._directory)
        return {
            name: self._disk.read_at(self._directory / name, 0, MAX_NOTE_BYTES + 1)
            for name in SLOT_NAMES
            if name in present
        }

    def load(self, *pairs: Sequence[VerifierKey]) -> FullHead | None:
        """The newest full head that one of ``pairs`` has signed, None when there is none yet; the other slot is the
        next to be written.

        One damaged slot is passed over. Raises DamageError when neither is good, ForeignDataError for another
        node's.
        """
        newest: FullHead | None = None
        fault: ChainError | None = None
        for name, note in self.notes().items():
            try:
                found = self._read(name, note, pairs)
            except ChainError as error:
                fault = error
                continue
            if newest is None or found.head.size >= newest.head.size:
                newest = found
                self._next = 1 - SLOT_NAMES.index(name)
        if fault and newest is None:
            raise fault
        return newest

    def _read(self, name: str, note: bytes, pairs: Sequence[Sequence[VerifierKey]]) -> FullHead:
        try:
            parsed = parse(note)
            claimed = parse_head(parsed.text).origin
            origin = pairs[-1][0].name
            if claimed != origin:
                raise ForeignDataError(f"heads/{name} belongs to {claimed}, the keys to {origin}")
            ids = {line.key_id for line in parsed.signatures}
            signers = next((pair for pair in pairs if pair[0].key_id in ids), pairs[-1])
            return read_full_head(note, signers)
        except NoteError as error:
            raise DamageError(
                f"heads/{name}", 0, -1, f"{error}; and no other slot holds a good head"
            ) from error

    def store(self, note: bytes) -> None:
        """Put ``note`` in the place of the older one; on the disk when this returns. Raises OSError."""
        handle = self._disk.create(self._directory / _NEW)
        try:
            self._disk.write(handle, 0, note)
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)
        self._disk.rename(self._directory / _NEW, self._directory / SLOT_NAMES[self._next])
        self._disk.sync_directory(self._directory)
        self._next = 1 - self._next
