"""The archive's file, as DuckDB may have it: this one file, no extensions, a bounded memory, one process at a time.

No statement can change that afterwards: the configuration is locked as soon as the file is open.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import duckdb

from chain.disk import open_regular
from chain.errors import ChainError

MEMORY_LIMIT = "256MB"

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": MEMORY_LIMIT,
    "checkpoint_threshold": "64MB",  # a checkpoint holds up the loading; mostly there is a quiet moment before
    "threads": "1",
}


class ArchiveBusy(ChainError):
    """Another process has the archive's file open."""


class ArchiveUnavailable(ChainError):
    """The archive cannot answer or store now, and that is not because of its content."""


def connect(path: Path | None, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Open the file, or make it; None: one in memory. Raises duckdb.Error."""
    place = ":memory:" if path is None else str(path)
    database = duckdb.connect(place, read_only=read_only, config=_CONFIG)
    database.execute("SET lock_configuration = true").fetchall()
    return database


def refuse_when_busy(path: Path, *, read_only: bool = False) -> None:
    """DuckDB holds an fcntl lock on its file, and would call a locked one unreadable: so ask for the lock first.

    Raises ArchiveBusy, OSError. Not for a process that has the file open itself: the lock would be gone.
    """
    lock = fcntl.LOCK_SH if read_only else fcntl.LOCK_EX
    try:
        with open_regular(path) if read_only else open(path, "r+b") as file:
            fcntl.lockf(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArchiveBusy(
            f"{path} is open in another process, the node that runs on it: end that one first"
        ) from None


def is_passing(error: duckdb.Error) -> bool:
    """Whether memory or disk ran out, as against a database that cannot be read."""
    return isinstance(error, duckdb.OutOfMemoryException) or (
        isinstance(error, duckdb.IOException) and "Could not read" not in str(error)
    )
