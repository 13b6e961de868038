"""The way to a directory, one component at a time.

A path that is handed to the operating system as a whole leads wherever its links lead at that moment. Here each
component is opened relative to the descriptor of the one before, and a link on the way is followed only where nobody
but this user and root could have put it: it is theirs, and lies in a directory of theirs that nobody else can write, or
in which nobody can replace what is another's (the sticky bit). The last component is never a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection

DIRECTORY = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_STEPS = 255  # components and links
_ROOT = 0


def open_way(path: str, own_groups: Collection[int] = ()) -> int:
    """A descriptor (O_PATH) of the directory at an absolute ``path``. Raises OSError, ELOOP for a link that is not
    followed. ``own_groups``: those of which nobody is but this user.
    """
    here, todo = os.open("/", DIRECTORY), _steps(path)
    try:
        for _ in range(_MAX_STEPS):
            if not todo:
                return here
            name = todo.pop()
            target = _link(name, here, own_groups) if todo else ""
            todo += _steps(target)
            if not target or target.startswith("/"):
                following = os.open("/" if target else name, DIRECTORY, dir_fd=here)
                os.close(here)
                here = following
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except BaseException:
        os.close(here)
        raise


def _steps(path: str) -> list[str]:
    """The last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]


def _link(name: str, directory: int, own_groups: Collection[int]) -> str:
    """Where the link of this name leads; empty when it is none. Raises OSError (ELOOP) for one that others may have put
    there. When it is swapped after this, what is opened is no link.
    """
    found, around = os.stat(name, dir_fd=directory, follow_symlinks=False), os.fstat(directory)
    if not stat.S_ISLNK(found.st_mode):
        return ""
    own = (_ROOT, os.geteuid())
    by_group = around.st_mode & stat.S_IWGRP and around.st_gid not in (_ROOT, *own_groups)
    shared = (by_group or around.st_mode & stat.S_IWOTH) and not around.st_mode & stat.S_ISVTX
    if found.st_uid not in own or around.st_uid not in own or shared:
        raise OSError(errno.ELOOP, "leads through a symbolic link that others may have put there")
    return os.readlink(name, dir_fd=directory)
