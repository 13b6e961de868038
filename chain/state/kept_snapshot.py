"""The snapshot that a running node stands behind: which one it is, and the signatures under it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from chain.disk import Disk
from chain.errors import LedgerUnavailable
from chain.in_thread import in_thread
from chain.keys.keys import Keys
from chain.state.binding import snapshot_note
from chain.state.snapshot import (
    NEW,
    Snapshot,
    covered_entries,
    place_snapshot,
    read_signed,
    sign_snapshot,
    snapshot_digest,
)

_CHANGED = "the snapshot is not the one that the node has signed: it was changed"


class KeptSnapshot:
    """In ``directory``. ``found``: group and digest of the one that recovery took over, None when there was none.

    Whoever signs holds ``lock``, and signs with the keys in force and with those that a change under way will bring: so
    whichever are in force after a crash have signed.
    """

    def __init__(self, directory: Path, disk: Disk, found: tuple[int, bytes] | None) -> None:
        self._directory = directory
        self._disk = disk
        self._group, self.digest = found or (0, b"")
        self.lock = asyncio.Lock()

    async def place(self, group: int, digest: bytes, keys: Sequence[Keys], published: int) -> None:
        """Sign the one before ``group`` that was written beside, and put it in its place. Raises LedgerUnavailable;
        also when it covers more than the entries that are ``published``: a start would find the others nowhere.
        """
        note = snapshot_note(keys, group, digest)

        def placed() -> None:
            self._group, self.digest = group, digest

        try:
            covered = await in_thread(covered_entries, self._directory, self._disk, NEW)
            if covered > published:
                raise LedgerUnavailable(
                    f"the new snapshot covers {covered} entries, {published} are published"
                )
            await in_thread(place_snapshot, self._directory, self._disk, digest, note, placed)
        except OSError as error:
            raise LedgerUnavailable(f"the snapshot cannot be put in its place: {error}") from error

    async def sign(self, keys: Sequence[Keys]) -> None:
        """Sign the present one, if there is one. Raises LedgerUnavailable; also when another is there, whose keys are
        still needed.
        """
        if not self.digest:
            return
        note = snapshot_note(keys, self._group, self.digest)
        try:
            if await in_thread(snapshot_digest, self._directory, self._disk) != self.digest:
                raise LedgerUnavailable(_CHANGED)
            await in_thread(sign_snapshot, self._directory, self._disk, self.digest, note)
        except OSError as error:
            raise LedgerUnavailable(f"the snapshot cannot be signed: {error}") from error

    def read(self) -> Snapshot | None:
        """The present one. Raises LedgerUnavailable when it is not the one that was signed, OSError, DamageError."""
        found = read_signed(self._directory, self._disk)
        if (found.digest if found else b"") != self.digest:
            raise LedgerUnavailable(_CHANGED)
        return found.snapshot if found else None
