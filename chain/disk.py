"""All file I/O of the ledger, in one small class, so that a twin in the tests can fail, tear or lose any of
it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

COPY_BYTES = 2**20
"""As much as is copied in one go."""
_READ_BYTES = 2**26


def _open_at_once(path: str | Path, flags: int) -> int:
    """Whoever reads what somebody else has made does not wait for a FIFO in a file's place."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _open_if_regular(path: str, flags: int) -> int:
    handle = _open_at_once(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


def open_regular(path: Path) -> BufferedReader:
    """Open for reading what somebody else may have put there. Raises OSError, also for what is no regular file: there
    is no writer of a FIFO to be waited for, and no end of a device.
    """
    return open(path, "rb", opener=_open_if_regular)


class Disk:
    """Plain calls to the operating system; decides nothing. Every method raises OSError as the system gave
    it.

    Handles are what :meth:`create` and :meth:`open` return; nothing but this class looks inside them.
    """

    def names(self, directory: Path) -> list[str]:
        """Sorted names in ``directory``; none when it does not exist."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def read(self, path: Path) -> bytes:
        """The whole file."""
        with open_regular(path) as file:
            return file.read()

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer at the end of the file."""
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            file.seek(offset)
            chunks: list[bytes] = []
            while length > 0:
                chunk = file.read(length)
                if not chunk:
                    break
                chunks.append(chunk)
                length -= len(chunk)
        return b"".join(chunks)

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def make_directory(self, directory: Path) -> None:
        """Create ``directory``, if it is not there, and sync its parent."""
        if not self.is_directory(directory):
            self.new_directory(directory)
            self.sync_directory(directory.parent)

    def is_directory(self, directory: Path) -> bool:
        return directory.is_dir()

    def new_directory(self, directory: Path) -> None:
        """Create ``directory`` with mode 0700; durable after :meth:`sync_directory` of its parent."""
        directory.mkdir(mode=0o700)

    def create(self, path: Path) -> int:
        """Open for writing with mode 0600, empty, whether it was there or not."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def create_new(self, path: Path) -> int:
        """Open for writing with mode 0600 what must not be there yet."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def open(self, path: Path) -> int:
        """Open an existing file for writing."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_to_read(self, path: Path) -> int:
        """Open an existing file for reading; it stays the same file when another takes its name."""
        return _open_at_once(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset`` of an open file; none at its end."""
        return os.pread(handle, length, offset)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        """Write all of ``data`` at ``offset``. After an error any part of it may have been written."""
        view = memoryview(data)
        while view:
            written = os.pwrite(handle, view, offset)
            offset += written
            view = view[written:]

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def allocate(self, handle: int, size: int) -> None:
        """Have the file hold ``size`` bytes of the disk, whether they are written or not."""
        os.posix_fallocate(handle, 0, size)

    def free(self, directory: Path) -> int:
        """How many bytes there is room for where ``directory`` is."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def sync(self, handle: int) -> None:
        """Return when the data of the file, and its length, are on the disk. Releases the GIL."""
        os.fdatasync(handle)

    def sync_within(self, handle: int, within_s: float) -> bool:
        """The same, and return after ``within_s`` seconds at the latest. False: it is not known whether it is on the
        disk, and :meth:`sync` says.
        """
        return False

    def close(self, handle: int) -> None:
        os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source``, atomically; durable after :meth:`sync_directory`."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove the file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_directory(self, directory: Path) -> None:
        """Remove an empty directory."""
        directory.rmdir()

    def sync_directory(self, directory: Path) -> None:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces that are worth a write, and not all of them at once."""
    some: list[bytes] = []
    held = 0
    for part in parts:
        some.append(part)
        held += len(part)
        if held >= COPY_BYTES:
            yield b"".join(some)
            some, held = [], 0
    if some:
        yield b"".join(some)
