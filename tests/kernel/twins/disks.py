"""Disks that refuse or are slow, as a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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


WRITING = (
    "create", "create_new", "write", "truncate", "allocate", "sync", "rename", "remove",
    "remove_directory", "new_directory", "sync_directory",
)  # fmt: skip


class StumblingDisk(Disk):
    """Calls ``stumble(number, half)`` before each call that writes, which may kill, raise OSError, or neither; ``half``
    does half of it, when it is a write.
    """

    def __init__(self, stumble: Callable[[int, Callable[[], None]], None]) -> None:
        self.calls = 0
        self._stumble = stumble
        self._counting = threading.Lock()

    def step(self, kind: str, half: Callable[[], None] = lambda: None) -> None:
        """Count one call of ``kind``; something that is no call of the disk too."""
        with self._counting:
            number, self.calls = self.calls, self.calls + 1
        self._stumble(number, half)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self.step("write", lambda: Disk.write(self, handle, offset, data[: len(data) // 2]))
        super().write(handle, offset, data)

    def sync_within(self, handle: int, within_s: float) -> bool:
        self.sync(handle)
        return True


def _counted(name: str) -> Callable[..., Any]:
    original = getattr(Disk, name)

    def call(self: StumblingDisk, *values: Any) -> Any:
        self.step(name)
        return original(self, *values)

    return call


for _name in WRITING:
    if _name != "write":
        setattr(StumblingDisk, _name, _counted(_name))
