"""A real disk that kills its process instead of one of the operations that change anything."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from chain.disk import Disk


class DyingDisk(Disk):
    """``counts(operation)`` says, on the thread that asks for it, which operations count; instead of the one of number
    ``left``, from when that is set, comes SIGKILL.
    """

    def __init__(self, counts: Callable[[str], bool]) -> None:
        self.left: int | None = None
        self._counts = counts
        self._lock = Lock()

    def _step(self, operation: str) -> None:
        with self._lock:
            if self.left is not None and self._counts(operation):
                self.left -= 1
                if self.left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    def make_directory(self, directory: Path) -> None:
        self._step("make_directory")
        super().make_directory(directory)

    def new_directory(self, directory: Path) -> None:
        self._step("new_directory")
        super().new_directory(directory)

    def create(self, path: Path) -> int:
        self._step("create")
        return super().create(path)

    def create_new(self, path: Path) -> int:
        self._step("create_new")
        return super().create_new(path)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._step("write")
        super().write(handle, offset, data)

    def sync(self, handle: int) -> None:
        self._step("sync")
        super().sync(handle)

    def sync_within(self, handle: int, within_s: float) -> bool:
        self.sync(handle)
        return True

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step("remove")
        super().remove(path)

    def remove_directory(self, directory: Path) -> None:
        self._step("remove_directory")
        super().remove_directory(directory)

    def sync_directory(self, directory: Path) -> None:
        self._step("sync_directory")
        super().sync_directory(directory)
