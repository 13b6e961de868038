"""Files of log lines: bounded by renaming older ones away, and read from the newest line back."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class RotatingFile:
    """Lines in ``path``. Before it would exceed ``max_bytes`` it becomes ``path.1``, that one ``path.2``.

    ``backups`` older files are kept. Mode 0600. For one thread.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._fd = -1
        self._size = 0

    def write(self, line: bytes) -> None:
        """Append ``line``. Raises OSError; the file stays usable."""
        if self._fd >= 0 and self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
        written = os.write(self._fd, line)
        self._size += written
        if written < len(line):
            raise OSError(f"{written} of {len(line)} bytes written to {self._path}")

    def _rotate(self) -> None:
        self.close()
        for number in range(self._backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(numbered(self._path, number), numbered(self._path, number + 1))
        os.replace(self._path, numbered(self._path, 1))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def numbered(path: Path, number: int) -> Path:
    """What the log at ``path`` became when it was rotated so many times."""
    return path.with_name(f"{path.name}.{number}")


def earlier_files(path: Path) -> list[Path]:
    """Those that were rotated away of the log at ``path``, the newest first."""
    found = path.parent.glob(f"{glob.escape(path.name)}.*")
    named = [(int(file.suffix[1:]), file) for file in found if file.suffix[1:].isdecimal()]
    return [file for _, file in sorted(named)]


def read_last(path: Path, limit: int, wanted: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The newest ``limit`` lines whose fields equal ``wanted``, oldest first, from ``path`` and older files.

    Reads one file at a time, newest first; a line that is not a JSON object is passed over.
    """
    found: list[dict[str, Any]] = []
    for file in (path, *earlier_files(path)):
        try:
            lines = file.read_bytes().splitlines()
        except FileNotFoundError:  # not there yet, or renamed just now
            continue
        for line in reversed(lines):
            record = record_of(line)
            if record is not None and all(record.get(key) == value for key, value in (wanted or {}).items()):
                found.append(record)
                if len(found) == limit:
                    return found[::-1]
    return found[::-1]


def read_last_of(paths: Sequence[Path], limit: int, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of several logs, by the time in their lines."""
    found = [line for path in paths for line in read_last(path, limit, wanted)]
    return sorted(found, key=lambda line: str(line.get("time", "")))[-limit:]


def record_of(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is; None when it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
