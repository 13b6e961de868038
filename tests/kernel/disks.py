"""Disks that refuse or are slow, as a test says."""

from __future__ import annotations

import threading

from chain.disk import Disk


class FullDisk(Disk):
    """A disk that can be told to refuse."""

    full = False

    def write(self, handle: int, offset: int, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(handle, offset, data)


class SlowDisk(Disk):
    """A disk whose syncs take until ``ready`` is set."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.ready.set()

    def sync(self, handle: int) -> None:
        self.ready.wait()
        super().sync(handle)
