"""The runtime directory of a node: short enough for sockets, mode 0700, ours, and gone after a clean stop.

It lies where others cannot make it: in a directory of the user's own, or in ``/tmp`` under a name that is drawn anew at
each start and stands in ``boot.json``. What somebody has made under the name of an earlier one is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from weftos.errors import WeftosError
from weftos.paths import TEMPORARY, another_nodes, read_format, runtime_home, runtime_mark, runtime_name

MAX_SOCKET_PATH = 107  # unix(7): sun_path without its closing zero
RAY_SUFFIX_BYTES = 62  # what Ray adds to its directory for its longest socket
PREFIX = "weftos-"


def longest_socket(data: Path) -> int:
    """How many bytes the longest socket path of a node on ``data`` will have."""
    place = runtime_home() / runtime_name(data)
    return len(os.fsencode(place / "ray" / ("x" * RAY_SUFFIX_BYTES)))


def make_runtime(data: Path) -> Path:
    """Make it, empty. Raises WeftosError, OSError."""
    home = runtime_home()
    if longest_socket(data) > MAX_SOCKET_PATH:
        raise WeftosError(
            f"the runtime directory {home / runtime_name(data)} is too long for sockets: set XDG_RUNTIME_DIR to a "
            "shorter one",
            "invalid",
        )
    place = home / runtime_name(data)
    if home == TEMPORARY or _is_another_nodes(place, data):
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home))
    else:
        if not remove_runtime(place):
            raise WeftosError(f"{place} is not a runtime directory of this user: remove it", "conflict")
        place.mkdir(mode=0o700)
    (place / "format").write_text(runtime_mark(data))
    return place


def _is_another_nodes(place: Path, data: Path) -> bool:
    """Whether it is that of a node whose data directory was moved, while it ran, from where ours is."""
    with contextlib.suppress(OSError):  # then :func:`remove_runtime` judges it
        return bool(another_nodes(place, data))
    return False


def remove_recorded(place: Path, data: Path) -> bool:
    """As :func:`remove_runtime`, for the place that ``boot.json`` in ``data`` names: who can write there can name any,
    so only a directory that bears the mark of a runtime directory of ``data`` is removed, or an empty one.
    """
    try:
        if any(place.iterdir()) and read_format(place) != runtime_mark(data):
            return False
    except OSError:
        return not os.path.lexists(place)
    return remove_runtime(place)


def remove_runtime(place: Path) -> bool:
    """Remove the runtime directory of an earlier run; whether nothing is there any more.

    What is not a directory of this user, or not called like one of ours, stays: its maker has taken the name since.
    """
    try:
        found = place.lstat()
    except FileNotFoundError:
        return True
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or not place.name.startswith(PREFIX):
        return False
    shutil.rmtree(place)
    return True
