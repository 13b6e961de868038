"""The runtime directory of a node: short enough for sockets, mode 0700, ours, and gone after a clean stop."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from weftos.errors import WeftosError
from weftos.paths import runtime_directory

MAX_SOCKET_PATH = 107  # unix(7): sun_path without its closing zero
RAY_SUFFIX_BYTES = 62  # what Ray adds to its directory for its longest socket


def checked_runtime(data: Path) -> Path:
    """Where the runtime directory of a data directory is. Raises WeftosError when sockets would not fit in it."""
    place = runtime_directory(data)
    longest = place / "ray" / ("x" * RAY_SUFFIX_BYTES)
    if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
        raise WeftosError(
            f"the runtime directory {place} is too long for sockets: set XDG_RUNTIME_DIR to a shorter one",
            "invalid",
        )
    return place


def make_runtime(data: Path) -> Path:
    """Make it, empty. Raises WeftosError, OSError."""
    place = checked_runtime(data)
    remove_runtime(place)
    place.mkdir(mode=0o700)
    return place


def remove_runtime(place: Path) -> None:
    """Remove the runtime directory of an earlier run, if it is a directory of ours and nobody else's."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not place.name.startswith("weftos-"):
        raise WeftosError(f"{place} is not a runtime directory of this user: remove it", "conflict")
    shutil.rmtree(place)
