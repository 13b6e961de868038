"""A file that a command makes for its user: whole or not at all, readable by nobody else, never over another."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from weftos.errors import WeftosError


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file with mode 0600 that takes the name ``path`` when the block ends well, and is on the disk then.

    Without ``force`` a file that is there already is refused, at the beginning and at the end. Raises WeftosError,
    OSError.
    """
    if not force and os.path.lexists(path):
        raise _taken(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        if force:
            os.replace(beside, path)
        else:
            os.link(beside, path)
        _sync_directory(path.parent)
    except FileExistsError as error:
        raise _taken(path) from error
    finally:
        beside.unlink(missing_ok=True)


def _taken(path: Path) -> WeftosError:
    return WeftosError(f"{path} is there already: give another name, or --force to replace it", "refused")


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
