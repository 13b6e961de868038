"""Where a node's files are: the data directory a command means, and the socket of the node that runs on
it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from weftos.errors import Impostor, WeftosError, reason
from weftos.named_file import read_named
from weftos.ownership import own_fault, way_fault

FORMAT_LINE = "weftos-data 1\n"
RUNTIME_LINE = "weftos-runtime 1\n"  # by which file tools know it: sockets and Ray's token lie in it
TEMPORARY = Path("/tmp")
_MAX_FORMAT_BYTES, _MAX_BOOT_BYTES = 256, 64 * 1024


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """``WEFTOS_DATA``, else ``$XDG_DATA_HOME/weftos``, else ``~/.local/share/weftos``."""
    if chosen := environment.get("WEFTOS_DATA"):
        return Path(chosen)
    if shared := environment.get("XDG_DATA_HOME"):
        return Path(shared) / "weftos"
    return Path.home() / ".local" / "share" / "weftos"


def data_directory(given: str | os.PathLike[str] | None = None) -> Path:
    """The absolute data directory: ``given`` (``--data``), else :func:`default_data`. Raises WeftosError."""
    return absolute(given if given is not None else default_data())


def absolute(given: str | os.PathLike[str]) -> Path:
    """A path as a person typed it, ``~`` and all, from the root. Raises WeftosError when ``~`` is nobody's home."""
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError:
        raise WeftosError(
            f"{Path(given).parts[0]} is nobody's home directory: give the path without ~", "invalid"
        ) from None


def has_data(data: Path) -> bool:
    """Whether ``data`` is a whole data directory. Raises WeftosError for one of another format."""
    try:
        found = read_format(data)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if found != FORMAT_LINE:
        raise WeftosError(
            f"{data / 'format'} says {found.strip()!r}, this version knows {FORMAT_LINE.strip()!r}: "
            "use the version of weftos that made it",
            "conflict",
        )
    return True


def read_format(directory: Path) -> str:
    """What the file by which ``directory`` shows what it is says, or the begin of that. Raises OSError."""
    return read_named(directory / "format", _MAX_FORMAT_BYTES).decode(errors="replace")


def existing_data(data: Path) -> Path:
    """``data``, which is a whole data directory. Raises WeftosError when it is none, or one of another format."""
    if not has_data(data):
        raise WeftosError(f"{data} is not a data directory: give the node's with --data", "not_found")
    return data


def control_socket(data: Path) -> Path:
    """The control socket of the node that runs, or last ran, on ``data``; from its boot.json.

    Raises WeftosError (``not_running``) when no node ever ran there, and Impostor when somebody else could have put
    something in its place: a node that has stopped leaves no directory, and its name is anybody's to take.
    """
    try:
        fault, place = own_fault(data), data
        if not fault:
            place = _recorded_runtime(data)
            fault = own_fault(place) or way_fault(place) or another_nodes(place, data)
    except FileNotFoundError:
        raise not_running(data) from None
    except NotADirectoryError:
        raise WeftosError(f"{data} is not a directory: give the node's with --data", "not_found") from None
    except OSError as error:
        raise WeftosError(
            f"{error.filename} cannot be read ({reason(error)}): give the node's directory with --data, and look at "
            "owner and mode there (ls -ld)",
            "not_running",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WeftosError(
            f"{data / 'boot.json'} is not readable ({error}): start the node again with weftos up --data {data}",
            "not_running",
        ) from error
    if fault:
        raise Impostor(f"whoever listens there need not be the node on {data}, and is told nothing: {fault}")
    return place / "control.sock"


def _recorded_runtime(data: Path) -> Path:
    """The runtime directory that ``boot.json`` names."""
    here = data.stat()
    boot = json.loads(read_named(data / "boot.json", _MAX_BOOT_BYTES))
    if boot["directory"] != f"{here.st_dev}:{here.st_ino}":  # as kernel.helper.os_session's directory_mark
        raise not_running(data)  # a copy: the socket is that of the node on the original
    return Path(boot["runtime"])


def runtime_mark(data: Path) -> str:
    """What the runtime directory of a node on ``data`` says of itself: no other node's is taken for it."""
    here = data.stat()
    return f"{RUNTIME_LINE}{here.st_dev}:{here.st_ino}\n"


def another_nodes(place: Path, data: Path) -> str:
    """Whether ``place`` is the runtime directory of a node on another directory than ``data``, in words; empty when it
    does not say so. Raises OSError."""
    try:
        said = read_format(place)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if said.startswith(RUNTIME_LINE) and said not in (RUNTIME_LINE, runtime_mark(data)):
        return f"{place} is the runtime directory of another node"
    return ""


def not_running(data: Path) -> WeftosError:
    """The error for a command that needs a running node."""
    return WeftosError(f"no node runs on {data}: start one with weftos up --data {data}", "not_running")


def runtime_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a node's runtime directory is made: ``XDG_RUNTIME_DIR``, or ``/run/user/UID``, where that is the user's
    alone; else ``/tmp``, under a name that nobody can foresee."""
    for place in (environment.get("XDG_RUNTIME_DIR"), f"/run/user/{os.geteuid()}"):
        if place and is_private(Path(place)):
            return Path(place)
    return TEMPORARY


def is_private(place: Path) -> bool:
    """Whether ``place`` is a directory that nobody but this user (and root) can write or exchange."""
    try:
        return place.is_dir() and not own_fault(place) and not way_fault(place)
    except OSError:
        return False


def runtime_name(data: Path) -> str:
    """What the runtime directory of a node on ``data`` is called where the directory around it is the user's."""
    return f"weftos-{sha256(os.fsencode(data.absolute())).hexdigest()[:8]}"
