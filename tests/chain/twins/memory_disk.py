"""A twin of ``chain.disk.Disk`` in memory: it can fail, tear a write, stop dead, and forget what was not synced."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from chain.disk import Disk


class PowerCut(Exception):
    """The machine stopped at this operation; nothing of ours runs on."""


@dataclass
class Inode:
    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


class MemoryDisk(Disk):
    """``faults``: operation name to the errors its next calls raise, first one first. A ``write`` that fails has
    written ``torn`` bytes. ``cut_at``: the number of the changing operation (from 0) at which :class:`PowerCut` is
    raised. ``steps`` counts changing operations, ``log`` names them. ``quick``: syncs can be waited for by the loop.
    ``room``: how many bytes are free, whatever is written.
    """

    def __init__(self) -> None:
        self.names_now: dict[Path, Inode] = {}
        self.names_synced: dict[Path, Inode] = {}
        self.directories: set[Path] = set()
        self.handles: dict[int, Inode] = {}
        self.faults: dict[str, list[int]] = {}
        self.torn = 0
        self.quick = True
        self.room = 2**40
        self.cut_at: int | None = None
        self.steps = 0
        self.log: list[str] = []
        self._next_handle = 3
        self._lock = RLock()

    def fail(self, operation: str, code: int = errno.EIO, times: int = 1) -> None:
        self.faults.setdefault(operation, []).extend([code] * times)

    def crash(self, kept_bytes: int = 0) -> MemoryDisk:
        """The disk as the next boot finds it: what was synced, and ``kept_bytes`` of what each file had besides."""
        after = MemoryDisk()
        with self._lock:  # the ledger's threads may be at work
            after.directories = set(self.directories)
            for path, inode in self.names_synced.items():
                content = bytes(inode.now[: len(inode.synced) + kept_bytes]) if kept_bytes else inode.synced
                after.names_now[path] = Inode(bytearray(content), content)
        after.names_synced = dict(after.names_now)
        return after

    def _step(self, operation: str) -> None:
        if self.cut_at is not None and self.steps >= self.cut_at:
            raise PowerCut(operation)
        self.steps += 1
        self.log.append(operation)
        codes = self.faults.get(operation)
        if codes:
            code = codes.pop(0)
            raise OSError(code, errno.errorcode[code])

    def _at(self, path: Path) -> Inode:
        if path not in self.names_now:
            raise FileNotFoundError(errno.ENOENT, str(path))
        return self.names_now[path]

    def names(self, directory: Path) -> list[str]:
        with self._lock:
            return sorted(path.name for path in self.names_now if path.parent == directory)

    def read(self, path: Path) -> bytes:
        return bytes(self._at(path).now)

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        return bytes(self._at(path).now[offset : offset + length])

    def size(self, path: Path) -> int:
        return len(self._at(path).now)

    def make_directory(self, directory: Path) -> None:
        self.directories.add(directory)

    def _handle(self, inode: Inode) -> int:
        self._next_handle += 1
        self.handles[self._next_handle] = inode
        return self._next_handle

    def create(self, path: Path) -> int:
        with self._lock:
            self._step("create")
            inode = self.names_now[path] = Inode()
            return self._handle(inode)

    def open(self, path: Path) -> int:
        with self._lock:
            return self._handle(self._at(path))

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        return bytes(self.handles[handle].now[offset : offset + length])

    def write(self, handle: int, offset: int, data: bytes) -> None:
        with self._lock:
            inode = self.handles[handle]
            try:
                self._step("write")
            except (OSError, PowerCut):
                inode.now[offset : offset + self.torn] = data[: self.torn]
                raise
            inode.now[offset : offset + len(data)] = data

    def truncate(self, handle: int, size: int) -> None:
        with self._lock:
            self._step("truncate")
            del self.handles[handle].now[size:]

    def allocate(self, handle: int, size: int) -> None:
        with self._lock:
            self._step("allocate")
            self.handles[handle].now.extend(bytes(size))

    def free(self, directory: Path) -> int:
        return self.room

    def sync(self, handle: int) -> None:
        with self._lock:
            self._step("sync")
            inode = self.handles[handle]
            inode.synced = bytes(inode.now)

    def sync_within(self, handle: int, within_s: float) -> bool:
        if self.quick:
            self.sync(handle)
        return self.quick

    def close(self, handle: int) -> None:
        del self.handles[handle]

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._step("rename")
            self.names_now[target] = self.names_now.pop(source)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._step("remove")
            self.names_now.pop(path, None)

    def sync_directory(self, directory: Path) -> None:
        with self._lock:
            self._step("sync_directory")
            for path in [path for path in self.names_synced if path.parent == directory]:
                del self.names_synced[path]
            here = {path: inode for path, inode in self.names_now.items() if path.parent == directory}
            self.names_synced.update(here)
