"""Space on the disk that is set aside, so that a full disk still takes what was accepted and the entry that says so."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from chain.disk import Disk

RESERVE_BYTES = 4 * 2**20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """``path`` is a file of ``size`` bytes that mean nothing. ``whole``: it is there. One thread at a time."""

    def __init__(self, path: Path, disk: Disk, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._disk = disk
        self._size = size
        self.whole = False

    def make(self) -> bool:
        """Set the space aside, unless it is already; False when there is not enough. Raises OSError for other faults.

        It needs no sync: a reserve that a power cut took is made again at the next start.
        """
        with contextlib.suppress(FileNotFoundError):
            self.whole = self._disk.size(self._path) == self._size
        if self.whole:
            return True
        try:
            self._allocate()
        except OSError as error:
            self._disk.remove(self._path)
            if error.errno not in NO_SPACE:
                raise
            return False
        self.whole = True
        return True

    def need(self) -> None:
        """As :meth:`make`; raises OSError (ENOSPC) when there is not enough space."""
        if not self.make():
            free = f"there are not {self._size:,} bytes free to be set aside for when it is full: make room"
            raise OSError(errno.ENOSPC, f"the disk is full, {free}", str(self._path))

    def release(self) -> bool:
        """Give the space back; False when there was none. Raises OSError."""
        if not self.whole:
            return False
        self.whole = False
        self._disk.remove(self._path)
        return True

    def _allocate(self) -> None:
        handle = self._disk.create(self._path)
        try:
            self._disk.allocate(handle, self._size)
        finally:
            self._disk.close(handle)
