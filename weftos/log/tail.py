"""What is added to logs from now on, also across their rotations.

A file that is rotated away is read to its end, then the one that came after it, found by the place of the first among
the numbered ones. Whoever asks so seldom that a file has come and gone meanwhile misses what stood in that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weftos.log.log_files import earlier_files, record_of

MOST_BYTES = 2**20
"""Read at once; and of one line."""
MOST_FILES = 1_000


class LogTail:
    """One log. For one thread at a time."""

    def __init__(self, path: Path, wanted: Mapping[str, Any]) -> None:
        self._path = path
        self._wanted = wanted
        self._rest = b""
        self._fd = _opened(path)
        if self._fd >= 0:
            os.lseek(self._fd, 0, os.SEEK_END)

    def read(self) -> list[dict[str, Any]]:
        """New lines whose fields equal ``wanted``; of very many the oldest, the others next time. Raises OSError."""
        found: list[dict[str, Any]] = []
        for _ in range(MOST_FILES):
            if self._fd < 0 and (fd := _opened(self._path)) >= 0:
                self._fd = fd
            if self._fd < 0:
                break
            complete = self._is_rotated()  # before it is read: nothing is added to it any more
            data = os.read(self._fd, MOST_BYTES)
            found += self._lines(data)
            if len(data) == MOST_BYTES or not complete:
                break
            self._go_on()
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lines(self, data: bytes) -> Iterator[dict[str, Any]]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= MOST_BYTES else b""
        for line in lines:
            record = record_of(line)
            if record is not None and all(record.get(key) == value for key, value in self._wanted.items()):
                yield record

    def _is_rotated(self) -> bool:
        return _identity(self._path) not in (None, _of(os.fstat(self._fd)))

    def _go_on(self) -> None:
        """With the file that came after this one; the oldest there is when this one is gone."""
        mine = _of(os.fstat(self._fd))
        self.close()
        self._rest = b""
        while self._fd < 0:
            self._fd = _opened(self._after(mine))
            if self._fd >= 0 and _identity(self._after(mine)) != _of(os.fstat(self._fd)):
                self.close()  # rotated just then: another has its name

    def _after(self, mine: tuple[int, int]) -> Path:
        """While a log is being rotated there is a gap in its numbers, so they are not counted through."""
        successor = self._path
        for file in earlier_files(self._path):
            if _identity(file) == mine:
                break
            successor = file
        return successor


class LogTails:
    """Several logs, by the time in their lines."""

    def __init__(self, paths: Sequence[Path], wanted: Mapping[str, Any]) -> None:
        self._tails = [LogTail(path, wanted) for path in paths]

    def read(self) -> list[dict[str, Any]]:
        """As :meth:`LogTail.read`."""
        found = [line for tail in self._tails for line in tail.read()]
        return sorted(found, key=lambda line: str(line.get("time", "")))

    def close(self) -> None:
        for tail in self._tails:
            tail.close()


def _opened(path: Path) -> int:
    """A descriptor, -1 when nothing is there."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return -1


def _of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        return _of(path.lstat())
    except FileNotFoundError:
        return None
