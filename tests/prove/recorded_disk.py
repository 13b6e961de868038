"""A disk in memory that remembers each operation, and the disks that a power cut could leave of it.

What a machine promises: a file's bytes and length are there once the file was synced, a directory's names once the
directory was synced. Whatever was not synced yet may be there or not, each operation for itself, and a write of it in
part, in blocks of 512 bytes.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from threading import RLock

from chain.disk import Disk

BLOCK_BYTES = 512
ALL_SUBSETS = 8
TORN_KINDS = 2
CONTENT = ("write", "truncate", "allocate")


@dataclass(frozen=True, slots=True)
class Operation:
    """``kind``: write, truncate, allocate (of inode ``inode``), name (``path`` is ``inode`` from now on), rename
    (``path`` moves to ``target``), move (the same for a directory), remove, mkdir, rmdir, sync, sync_directory, or mark
    (``data`` says what was promised to a caller).
    """

    kind: str
    inode: int = -1
    path: Path = Path()
    target: Path = Path()
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Content:
    """Files by inode, and names."""

    inodes: dict[int, bytes]
    names: dict[Path, int]
    directories: set[Path]

    def copy(self) -> Content:
        return Content(self.inodes.copy(), self.names.copy(), self.directories.copy())

    def files(self) -> dict[Path, bytes]:
        """Every file by its name."""
        return {path: self.inodes[inode] for path, inode in self.names.items()}

    def reachable(self, root: Path) -> Content:
        """Only what is in directories that are there, all the way up to ``root``."""
        there = {root}
        for directory in sorted(self.directories):
            if directory.parent in there:
                there.add(directory)
        names = {path: inode for path, inode in self.names.items() if path.parent in there}
        return Content(self.inodes, names, there)

    def apply(self, operation: Operation, kept_bytes: int | None = None) -> None:
        """``kept_bytes``: how much of a write has reached the disk."""
        match operation.kind:
            case "write":
                data = operation.data if kept_bytes is None else operation.data[:kept_bytes]
                old = self.inodes.get(operation.inode, b"").ljust(operation.offset, b"\0")
                self.inodes[operation.inode] = (
                    old[: operation.offset] + data + old[operation.offset + len(data) :]
                )
            case "allocate":
                self.inodes[operation.inode] = self.inodes.get(operation.inode, b"").ljust(
                    operation.offset, b"\0"
                )
            case "truncate":
                self.inodes[operation.inode] = self.inodes.get(operation.inode, b"")[: operation.offset]
            case "name":
                self.names[operation.path] = operation.inode
                self.inodes.setdefault(operation.inode, b"")
            case "rename":
                self.names[operation.target] = operation.inode
                self.inodes.setdefault(operation.inode, b"")
                if self.names.get(operation.path) == operation.inode:
                    del self.names[operation.path]
            case "move":
                self._move(operation.path, operation.target)
            case "remove":
                self.names.pop(operation.path, None)
            case "mkdir":
                self.directories.add(operation.path)
            case "rmdir":
                self.directories.discard(operation.path)

    def _move(self, source: Path, target: Path) -> None:
        """A directory gets another name, if it is there, with what is in it."""
        if source in self.directories:
            self.directories.remove(source)
            self.directories.add(target)
            for path in [path for path in self.names if path.parent == source]:
                self.names[target / path.name] = self.names.pop(path)


class WatchedDisk(Disk):
    """A disk with a ledger in ``root`` that is told what was promised, and made to fail."""

    root: Path

    def mark(self, promise: bytes) -> None:
        """Something was promised to a caller."""
        raise NotImplementedError

    def telling(self) -> AbstractContextManager[object]:
        """While something is committed and said, which are one: the disk ends nothing in between."""
        return nullcontext()

    def fail(self, kind: str, code: int = errno.EIO) -> None:
        """The next operation of this kind fails, once."""
        raise NotImplementedError

    def heal(self) -> None:
        """Nothing is to fail any more."""
        raise NotImplementedError


class RecordedDisk(WatchedDisk):
    """``operations``: what has happened since it was made. ``fail(kind)`` makes the next one of a kind fail, once.
    ``inherited``: how many of them somebody did who was killed behind them.
    """

    def __init__(self, root: Path, content: Content | None = None) -> None:
        self.root = root
        self.before = content.copy() if content else Content({}, {}, {root})
        self.now = self.before.copy()
        self.operations: list[Operation] = []
        self.inherited = 0
        self._handles: dict[int, int] = {}
        self._next = max(self.before.inodes, default=0) + 1
        self._failing: dict[str, int] = {}
        self._in_time = False
        self._lock = RLock()

    def after_kill(self, count: int) -> RecordedDisk:
        """What whoever comes next finds when this one's user was killed behind ``count`` operations: all they did, of
        which what was not synced is in the machine's memory alone.
        """
        left = RecordedDisk(self.root, self.before)
        left.operations = self.operations[:count]
        left.inherited = count
        for operation in left.operations:
            left.now.apply(operation)
        left._next = max(left.now.inodes, default=0) + 1
        return left

    def fail(self, kind: str, code: int = errno.EIO) -> None:
        self._failing[kind] = code

    def heal(self) -> None:
        self._failing.clear()

    def mark(self, promise: bytes) -> None:
        with self._lock:
            self.operations.append(Operation("mark", data=promise))

    def _do(self, operation: Operation) -> None:
        with self._lock:
            if operation.kind in self._failing:
                raise OSError(self._failing.pop(operation.kind), f"{operation.kind} fails on purpose")
            self.operations.append(operation)
            self.now.apply(operation)

    def _inode(self, path: Path) -> int:
        try:
            return self.now.names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from None

    def _open(self, inode: int) -> int:
        with self._lock:
            self._next += 1
            self._handles[self._next] = inode
            return self._next

    def names(self, directory: Path) -> list[str]:
        with self._lock:
            start = f"{directory}/"
            below = map(str, (*self.now.names, *self.now.directories))  # far cheaper than their parents
            found = {path[len(start) :] for path in below if path.startswith(start)}
            return sorted(name for name in found if "/" not in name)

    def read(self, path: Path) -> bytes:
        return self.now.inodes[self._inode(path)]

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def size(self, path: Path) -> int:
        return len(self.read(path))

    def free(self, directory: Path) -> int:
        """As much as anybody wants."""
        return 2**40

    def is_directory(self, directory: Path) -> bool:
        return directory in self.now.directories

    def new_directory(self, directory: Path) -> None:
        self._do(Operation("mkdir", path=directory))

    def remove_directory(self, directory: Path) -> None:
        self._do(Operation("rmdir", path=directory))

    def create(self, path: Path) -> int:
        with self._lock:
            self._next += 1
            inode = self._next
            self._do(Operation("name", inode, path))
            return self._open(inode)

    def create_new(self, path: Path) -> int:
        if path in self.now.names:
            raise FileExistsError(errno.EEXIST, "file exists", str(path))
        return self.create(path)

    def open(self, path: Path) -> int:
        return self._open(self._inode(path))

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        return self.now.inodes[self._handles[handle]][offset : offset + length]

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._do(Operation("write", self._handles[handle], offset=offset, data=bytes(data)))

    def truncate(self, handle: int, size: int) -> None:
        self._do(Operation("truncate", self._handles[handle], offset=size))

    def allocate(self, handle: int, size: int) -> None:
        self._do(Operation("allocate", self._handles[handle], offset=size))

    def sync(self, handle: int) -> None:
        self._do(Operation("sync", self._handles[handle]))

    def sync_within(self, handle: int, within_s: float) -> bool:
        """Each second time it is not known in time."""
        self._in_time = not self._in_time
        if self._in_time:
            self.sync(handle)
        return self._in_time

    def close(self, handle: int) -> None:
        self._handles.pop(handle, None)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            if source in self.now.directories:
                self._do(Operation("move", path=source, target=target))
            else:
                self._do(Operation("rename", self._inode(source), source, target))

    def remove(self, path: Path) -> None:
        with self._lock:
            if path in self.now.names:
                self._do(Operation("remove", path=path))

    def sync_directory(self, directory: Path) -> None:
        self._do(Operation("sync_directory", path=directory))


@dataclass(frozen=True, slots=True)
class CutState:
    """What a power cut left. ``promises`` were made before it; ``where`` names the operation that was to come."""

    content: Content
    promises: tuple[bytes, ...]
    where: str


def cut_states(disk: RecordedDisk, dice: random.Random) -> Iterator[CutState]:
    """Every state to be looked at, each content with the same promises once.

    The cuts are made before each sync and at the end: there the most is unsynced, and every earlier cut of the same
    stretch is one of its subsets. None is made among the operations that were inherited.
    """
    durable = disk.before.copy()
    pending: list[Operation] = []
    promises: list[bytes] = []
    seen: set[object] = set()
    for number, operation in enumerate([*disk.operations, Operation("end")]):
        if number < disk.inherited and operation.kind in ("sync", "sync_directory"):
            pending = _settle(durable, pending, operation)
        elif operation.kind in ("sync", "sync_directory", "end"):
            place = f"before operation {number}, {operation.kind} {operation.path}".rstrip(" .")
            for outcome in _outcomes(durable, pending, dice):
                content = outcome.reachable(disk.root)
                mark = len(promises), frozenset(content.files().items())
                if mark not in seen:
                    seen.add(mark)
                    yield CutState(content, tuple(promises), place)
            pending = _settle(durable, pending, operation)
        elif operation.kind == "mark":
            promises.append(operation.data)
        else:
            pending.append(operation)


def _settle(durable: Content, pending: list[Operation], sync: Operation) -> list[Operation]:
    """Make durable what ``sync`` covers; what is still pending."""
    left = []
    for operation in pending:
        if sync.kind == "sync":
            covered = operation.kind in CONTENT and operation.inode == sync.inode
        else:
            covered = operation.kind not in CONTENT and sync.path in (
                operation.path.parent,
                operation.target.parent if operation.kind in ("rename", "move") else operation.path.parent,
            )
        if covered:
            durable.apply(operation)
        else:
            left.append(operation)
    return left


def _outcomes(durable: Content, pending: Sequence[Operation], dice: random.Random) -> Iterator[Content]:
    for kept in _choices(len(pending)):
        chosen = [operation for operation, keep in zip(pending, kept, strict=True) if keep]
        yield _applied(durable, chosen)
        writes = [at for at, operation in enumerate(chosen) if operation.kind == "write"]
        if writes:
            at = dice.choice(writes)
            for blocks in _tears(len(chosen[at].data), dice):
                yield _applied(durable, chosen, at, blocks)


def _choices(count: int) -> Iterator[tuple[bool, ...]]:
    if count <= ALL_SUBSETS:
        yield from product((False, True), repeat=count)
        return
    for length in range(count + 1):
        yield (True,) * length + (False,) * (count - length)
    for one in range(count):
        yield tuple(at != one for at in range(count))
        yield tuple(at == one for at in range(count))


def _tears(length: int, dice: random.Random) -> list[int]:
    """Some lengths, in whole blocks, that a write of ``length`` bytes may have come to."""
    blocks = range(0, length, BLOCK_BYTES)
    return [BLOCK_BYTES * at for at in dice.sample(range(len(blocks)), min(TORN_KINDS, len(blocks)))]


def _applied(durable: Content, chosen: Sequence[Operation], torn: int = -1, kept_bytes: int = 0) -> Content:
    content = durable.copy()
    for at, operation in enumerate(chosen):
        content.apply(operation, kept_bytes if at == torn else None)
    return content
