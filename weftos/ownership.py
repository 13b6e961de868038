"""Whether a file, and each directory on the way to it, is in nobody's hands but the user's (and root's).

Who may write a directory may put something else in the place of what lies in it. So a path is the user's own when every
directory on the way belongs to the user or to root and can be written by no other, as sshd demands of its keys' paths.
Two exceptions, both usual: a directory with the sticky bit (``/tmp``), in which nobody can replace what is another's,
and one that a group may write whose only member is the user, or which is root's.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from weftos.errors import WeftosError

ROOT = 0
_MAX_STEPS = 255  # components and symbolic links of one path; Linux follows 40 links
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def way_fault(path: Path, uid: int | None = None) -> str:
    """Which directory on the way to ``path`` (itself not counted) somebody else could use to put another file in its
    place, in words; empty when none. ``uid``: the user, by default this process's. What is not there yet is nobody's.
    Raises OSError."""
    own = os.geteuid() if uid is None else uid
    for place, found in _way(path):
        if found.st_uid not in (ROOT, own):
            return f"{place} on the way to it belongs to {name_of(found.st_uid)}"
        if stat.S_ISDIR(found.st_mode) and not found.st_mode & stat.S_ISVTX and _is_shared(found, own):
            return f"{place} on the way to it can be written by others (mode {_mode(found)})"
    return ""


def own_fault(path: Path) -> str:
    """Why ``path`` (a link: what it leads to) is not this user's alone to change; empty when it is. Raises OSError."""
    own, found = os.geteuid(), os.stat(path)
    if found.st_uid != own:
        return _owner_fault(path, found, own)
    if found.st_mode & _OTHERS:
        return f"{path} has mode {_mode(found)}, so that others can write it: chmod go-w {path}"
    return ""


def others_fault(path: Path) -> str:
    """How somebody else than this user and root could decide what is at ``path``, in words; empty when nobody could.

    Where nothing is yet, who can write the nearest directory above makes it. What cannot be looked at is a fault.
    """
    own = os.geteuid()
    try:
        if fault := way_fault(path):
            return fault
        real = Path(os.path.realpath(path))
        there = next(step for step in (real, *real.parents) if step.exists())
        found = there.stat()
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror or error}"
    if found.st_uid not in (ROOT, own):
        return _owner_fault(there, found, own)
    return f"{there} can be written by others (mode {_mode(found)})" if _is_shared(found, own) else ""


def _owner_fault(path: Path, found: os.stat_result, own: int) -> str:
    return "" if found.st_uid == own else f"{path} belongs to {name_of(found.st_uid)}, you are {name_of(own)}"


def name_of(uid: int) -> str:
    """A user for a message: number, and name where there is one."""
    try:
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"user {uid}"


def check_own_place(data: Path) -> None:
    """That a data directory, and what decides in it, is this user's alone to write. Raises WeftosError (``refused``).

    What somebody else can write there is his word in the place of ours: code to be run, rights, state.
    """
    fault = own_fault(data)
    keys = data / "keys"
    if not fault and keys.is_dir():
        fault = own_fault(keys)
    fault = fault or _shared_entry(data) or way_fault(data)
    if fault:
        raise WeftosError(
            f"the data directory {data} is not yours alone: {fault}. Whoever can write there decides what the node "
            "runs and believes; see what was changed, then set owner and mode right",
            "refused",
        )


def check_own_directory(place: Path) -> None:
    """That nobody else decides what lies in ``place``, before anything there is written or acted on.

    Another user's lock could lead to a file of ours, his ``boot.json`` name processes of ours to be ended; and root
    runs such commands too. Raises WeftosError (``refused``), OSError.
    """
    if fault := own_fault(place) or way_fault(place):
        raise WeftosError(f"{place} is not yours alone, and nothing was done there: {fault}", "refused")


def make_own_ground(place: Path) -> None:
    """Make a directory, mode 0700, that is about to become a data directory, with what is missing above it; one that is
    there must be ours, its mode will be set. Nothing is made where somebody else decides what lies on the way.

    Raises WeftosError (``refused``), OSError.
    """
    fault = way_fault(place)
    if not fault:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = _owner_fault(place, os.stat(place), os.geteuid()) or way_fault(place)
    if fault:
        raise WeftosError(f"{place} is no place for a data directory of yours: {fault}", "refused")


def _shared_entry(data: Path) -> str:
    """As ``own_fault``, for what lies directly in the data directory; a group of the user's own may write there."""
    own = os.geteuid()
    for entry in sorted(data.iterdir()):
        try:
            found = entry.stat()
        except FileNotFoundError:
            continue  # removed meanwhile, or a link that leads nowhere
        if found.st_uid != own:
            return f"{entry} belongs to {name_of(found.st_uid)}"
        if _is_shared(found, own):
            return f"{entry} can be written by others (mode {_mode(found)}): chmod go-w {entry}"
        if entry.is_symlink() and (fault := way_fault(entry)):
            return fault
    return ""


def _way(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every directory and symbolic link that is passed on the way to ``path``, from the root on."""
    todo = list(reversed(path.absolute().parts[1:]))
    here = "/"
    yield here, os.lstat(here)
    for _ in range(_MAX_STEPS):
        if not todo:
            return
        part = todo.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        try:
            found = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(found.st_mode):
            yield place, found
            target = Path(os.readlink(place))
            here = "/" if target.is_absolute() else here
            todo += reversed([step for step in target.parts if step != "/"])
            continue
        if not todo:
            return
        yield place, found
        here = place
    raise OSError(f"{path} leads through more than {_MAX_STEPS} directories and links")


def _is_shared(found: os.stat_result, own: int) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and found.st_gid != ROOT and found.st_gid not in own_groups(own)


def own_groups(uid: int | None = None) -> tuple[int, ...]:
    """The group of the user's own, as many systems give one to each: it has the user's name, and no other member."""
    try:
        user = pwd.getpwuid(os.geteuid() if uid is None else uid)
        group = grp.getgrnam(user.pw_name)
    except KeyError:
        return ()
    return (group.gr_gid,) if set(group.gr_mem) <= {user.pw_name} else ()


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"
