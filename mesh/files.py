"""The mesh's small private files: mode 0600, written aside and renamed, so that half a file never has the name.

The shell of ``identity``, ``tokens`` and ``peers``; nothing is decided here.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mesh.errors import MeshFileError

MAX_FILE_BYTES = 4 * 2**20


def read_private(path: Path) -> bytes | None:
    """The file's bytes, None when there is no such file.

    Raises :class:`MeshFileError` when it is not a regular file, is open to others, too long or unreadable.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            content = os.read(fd, MAX_FILE_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MeshFileError(f"cannot read {path}: {error.strerror}; run as the user who owns it") from error
    if not stat.S_ISREG(status.st_mode):
        raise MeshFileError(f"{path} is not a regular file; move it away")
    if status.st_mode & 0o077:
        raise MeshFileError(
            f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, must be 0600: others could read its secrets. "
            f"If nobody did, run `chmod 600 {path}`"
        )
    if len(content) > MAX_FILE_BYTES:
        raise MeshFileError(f"{path} is over {MAX_FILE_BYTES} bytes; restore it from a copy")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` in one step; on return it is on disk. Raises :class:`MeshFileError`."""
    temporary: str | None = None
    try:
        fd, temporary = tempfile.mkstemp(prefix=path.name + ".new-", dir=path.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise MeshFileError(f"cannot write {path}: {error.strerror}; nothing was changed") from error


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold ``<directory>/lock`` over a read-change-write; the directory is made (0700) when missing."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MeshFileError(f"cannot lock {directory}: {error.strerror}; it must be writable") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
