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
    """The node's end: creates the file, reads it, removes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(descriptor, SLOT_BYTES)
            self._memory = mmap.mmap(descriptor, SLOT_BYTES)
        except OSError:
            self._delete()
            raise
        finally:
            os.close(descriptor)

    def read(self) -> int:
        """The PID the cell is running, 0 when none."""
        return int.from_bytes(self._memory[:SLOT_BYTES], sys.byteorder)

    def remove(self) -> None:
        """Unmap and delete. The slot is of no use afterwards."""
        self._memory.close()
        self._delete()

    def _delete(self) -> None:
        with contextlib.suppress(OSError):  # the next boot deletes what is left
            self.path.unlink()


class ToldSlot:
    """The node's end for a cell on another machine: ``pid`` is what the cell said last."""

    path = None

    def __init__(self) -> None:
        self.pid = 0

    def read(self) -> int:
        return self.pid

    def remove(self) -> None:
        self.pid = 0
