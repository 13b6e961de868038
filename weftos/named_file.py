"""The one reader of files that a person names: on the command line, as the configuration, or by their directory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_STDIN = Path("/dev/stdin")
_DESCRIPTORS = Path("/proc/self/fd")


def read_named(path: Path, most_bytes: int) -> bytes:
    """What stands in ``path``, or as much of it as ``most_bytes``. Raises OSError, also for what is no regular file: a
    pipe or a device is not waited for, unless the caller has opened it and names the descriptor.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        if _is_descriptor(path):
            os.set_blocking(fd, True)
        elif not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most_bytes)


def _is_descriptor(path: Path) -> bool:
    """Standard input, or what a shell writes for ``<(...)``."""
    return path == _STDIN or path.parent.resolve() == _DESCRIPTORS.resolve()
