"""The runtime directory of a node: short enough for sockets, mode 0700, ours, and gone after a clean stop."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from weftos.errors import WeftosError

MAX_SOCKET_PATH = 107
RAY_SOCKET_CHARS = 62


def runtime_path(data: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the runtime directory of a data directory is. Raises WeftosError when sockets would not fit in it."""
    base = environment.get("XDG_RUNTIME_DIR")
    tag = hashlib.sha256(os.fsencode(data)).hexdigest()[:8]
    place = Path(base) / f"weftos-{tag}" if base else Path("/tmp") / f"weftos-{os.getuid()}-{tag}"
    longest = place / "ray" / ("x" * RAY_SOCKET_CHARS)
    if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
        raise WeftosError(
            f"the runtime directory {place} is too long for sockets: set XDG_RUNTIME_DIR to a shorter one",
            "invalid",
        )
    return place


def make_runtime(data: Path) -> Path:
    """Make it, empty. Raises WeftosError, OSError."""
    place = runtime_path(data)
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
