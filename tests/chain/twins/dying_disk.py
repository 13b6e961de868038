"""A real disk that kills its process instead of one of the operations that change anything."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from chain.disk import Disk


class DyingDisk(Disk):
    """``counts(operation, path)`` says, on the thread that asks for it, which operations count; instead of the one of
    number ``left``, from when that is set, comes SIGKILL.
    """

    def __init__(self, counts: Callable[[str, Path], bool]) -> None:
        self.left: int | None = None
        self._counts = counts
        self._paths: dict[int, Path] = {}
        self._lock = Lock()

    def _step(self, operation: str, path: Path) -> None:
        with self._lock:
            if self.left is not None and self._counts(operation, path):
                self.left -= 1
                if self.left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    def _named(self, handle: int, path: Path) -> int:
        self._paths[handle] = path
        return handle

    def make_directory(self, directory: Path) -> None:
        self._step("make_directory", directory)
        super().make_directory(directory)

    def new_directory(self, directory: Path) -> None:
        self._step("new_directory", directory)
        super().new_directory(directory)

    def create(self, path: Path) -> int:
        self._step("create", path)
        return self._named(super().create(path), path)

    def create_new(self, path: Path) -> int:
        self._step("create_new", path)
        return self._named(super().create_new(path), path)

    def open(self, path: Path) -> int:
        return self._named(super().open(path), path)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._step("write", self._paths[handle])
        super().write(handle, offset, data)

    def sync(self, handle: int) -> None:
        self._step("sync", self._paths[handle])
        super().sync(handle)

    def sync_within(self, handle: int, within_s: float) -> bool:
        self.sync(handle)
        return True

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename", target)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step("remove", path)
        super().remove(path)

    def remove_directory(self, directory: Path) -> None:
        self._step("remove_directory", directory)
        super().remove_directory(directory)

    def sync_directory(self, directory: Path) -> None:
        self._step("sync_directory", directory)
        super().sync_directory(directory)
