"""What tells a directory of weftos' own, which no workspace shows, from any other: a data directory of a node (of this
one or of another), one that is being made, the directory of a cluster, a runtime directory.

All by descriptor, so that what was looked at is what is used.
"""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path

from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths, identity

MARKS = (b"weftos-data", b"weftos-runtime")
FORMAT_FILE = "format"
KEY_FILE = "ed25519.key"
_OF_A_CLUSTER = ("cluster.json", "boot.json")
OPEN_FOLDER = "workspaces"
"""The one folder of a data directory that agents are shown."""
_UP = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_DEPTH = 4096
_MAX_LOOKED_AT = 1000


def is_ours(directory: int) -> bool:
    """Whether the directory behind this descriptor is one of weftos' own."""
    return (
        _begins_with_a_mark(directory)
        or _has(directory, f"keys/{KEY_FILE}")
        or all(_has(directory, name) for name in _OF_A_CLUSTER)
    )


def lies_in_ours(directory: int, protected: ProtectedPaths) -> bool:
    """Whether it is one of weftos' own or protected, or lies in one. What is below the ``workspaces`` of a data
    directory lies in nothing that is further up. Raises OSError.
    """
    return _lies_in(directory, OPEN_FOLDER, protected)


def _lies_in(directory: int, but_below: str, protected: ProtectedPaths) -> bool:
    here, came_by_it, closed = os.dup(directory), False, protected.identities()
    try:
        for depth in range(_MAX_DEPTH):
            if is_ours(here):
                return not came_by_it
            if identity(os.fstat(here)) in closed:
                return True
            above = os.open("..", _UP, dir_fd=here)
            if os.path.samestat(os.fstat(above), os.fstat(here)):
                os.close(above)
                return False
            came_by_it = depth > 0 and bool(but_below) and _is_named(above, but_below, here)
            os.close(here)
            here = above
        return True
    finally:
        os.close(here)


def shows_ours(workspace: Path) -> bool:
    """Whether a directory is one of weftos' own, holds one directly, or lies in one. Raises OSError.

    What lies deeper is kept from the tools when they come there: a walk over everything below would have no bound.
    """
    handle = os.open(workspace, _UP)
    try:
        if _lies_in(handle, "", NOTHING_PROTECTED):
            return True
        with os.scandir(workspace) as entries:
            for entry in itertools.islice(entries, _MAX_LOOKED_AT):
                if entry.is_dir(follow_symlinks=False) and _is_ours_at(handle, entry.name):
                    return True
        return False
    finally:
        os.close(handle)


def _is_ours_at(directory: int, name: str) -> bool:
    try:
        inner = os.open(name, _UP, dir_fd=directory)
    except OSError:
        return False
    try:
        return is_ours(inner)
    finally:
        os.close(inner)


def would_mark(directory: int, name: str, content: bytes) -> bool:
    """Whether a file so written there would make a directory look like one of ours, and so shut everybody out of it.

    In either case of letters, since some file systems know no difference.
    """
    name = name.casefold()
    if name == FORMAT_FILE:
        return content.startswith(MARKS)
    if name in _OF_A_CLUSTER:
        return all(_has(directory, other) for other in _OF_A_CLUSTER if other != name)
    return name == KEY_FILE  # its directory is called keys, or is so by another way


def _begins_with_a_mark(directory: int) -> bool:
    try:
        if not stat.S_ISREG(os.stat(FORMAT_FILE, dir_fd=directory, follow_symlinks=False).st_mode):
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open(FORMAT_FILE, flags, dir_fd=directory)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a file that cannot be looked at may say so
    try:
        return os.read(file, 64).startswith(MARKS)
    finally:
        os.close(file)


def _has(directory: int, name: str) -> bool:
    """A directory of that name, which agents can make, does not count."""
    try:
        return not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _is_named(parent: int, name: str, child: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), os.fstat(child))
    except OSError:
        return False
