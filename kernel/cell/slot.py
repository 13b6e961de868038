"""Eight bytes of shared memory that say which process a cell is running right now.

The cell writes the PID before each step of a behaviour and 0 after it; the node reads them when the cell has
died, to tell the process that was running (``crash``) from those that merely lived there (``cell_lost``). One
aligned 64-bit store, native byte order: both ends are on the same machine. Of a cell on another machine the node
knows what its newest beat said (:class:`ToldSlot`), which is a second old and often 0.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from pathlib import Path

from kernel.cell.stacks import dump_path

SLOT_BYTES = 8


class Slot:
    """The cell's end: ``running[0] = pid`` is the whole interface, since it is written twice per step."""

    def __init__(self, path: str | None) -> None:
        """Map the file at ``path``; None gives a slot of its own that nobody reads."""
        if path is None:
            memory = mmap.mmap(-1, SLOT_BYTES)
        else:
            with open(path, "r+b") as file:
                memory = mmap.mmap(file.fileno(), SLOT_BYTES)
        self.running = memoryview(memory).cast("Q")


class SlotFile:
    """The node's end: creates the file, reads it, removes it.

    It is not mapped here: who reads a page that a full file system cannot give, or that is behind a file's end, is
    ended by SIGBUS. Its bytes are there before a cell maps it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._file, 0, SLOT_BYTES)
        except OSError:
            self.remove()
            raise

    def read(self) -> int:
        """The PID the cell is running, 0 when none."""
        try:
            return int.from_bytes(os.pread(self._file, SLOT_BYTES, 0), sys.byteorder)
        except OSError:  # whoever asks has a dead cell to deal with
            return 0

    def remove(self) -> None:
        """Close and delete. The slot is of no use afterwards."""
        os.close(self._file)
        self._file = -1
        for path in (self.path, Path(dump_path(str(self.path)))):
            with contextlib.suppress(OSError):  # the next boot deletes what is left
                path.unlink()


class ToldSlot:
    """The node's end for a cell on another machine: ``pid`` is what the cell said last."""

    path = None

    def __init__(self) -> None:
        self.pid = 0

    def read(self) -> int:
        return self.pid

    def remove(self) -> None:
        self.pid = 0
