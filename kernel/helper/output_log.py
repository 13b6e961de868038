"""What child processes print, in files of bounded size, at a bounded rate.

A child that has a file for its output can fill the disk in seconds. So it gets a pipe, read here by one thread for all
children: at most ``RATE_BYTES`` a second of each, after a first ``BURST_BYTES``; who prints faster waits, as anybody
does whose reader is slow. A file that would exceed ``MAX_FILE_BYTES`` becomes ``NAME.1``, in place of an earlier one. A
disk that takes nothing loses what is printed meanwhile, and holds up nobody.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from pathlib import Path

RATE_BYTES = 2**21
BURST_BYTES = 2**22
MAX_FILE_BYTES = 4 * 2**20
_PIECE = 2**16
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class BoundedFile:
    """Bytes appended to ``path``; at most ``max_bytes`` there, and as many in ``path.1``. For one thread."""

    def __init__(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def append(self, data: bytes) -> None:
        """Opened each time, since several children may share it. What the disk does not take is lost."""
        with contextlib.suppress(OSError):
            file = os.open(self._path, _APPEND, 0o600)
            try:
                if os.fstat(file).st_size + len(data) > self._max_bytes:
                    os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
                    full, file = file, os.open(self._path, _APPEND, 0o600)
                    os.close(full)
                os.write(file, data)
            finally:
                os.close(file)


class Allowance:
    """How much may be read of one child now: ``burst`` at first, then ``rate`` a second. ``now`` in seconds."""

    def __init__(self, now: float, rate: float = RATE_BYTES, burst: float = BURST_BYTES) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, now

    def left(self, now: float) -> int:
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return int(self._left)

    def take(self, size: int) -> None:
        self._left -= size


class OutputLogs:
    """The thread and its pipes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._poll = select.epoll()
        self._files: dict[int, tuple[BoundedFile, Allowance]] = {}
        self._thread: threading.Thread | None = None

    def pipe_to(self, path: Path) -> int:
        """A descriptor for a child's output, to be closed here once the child has it. Raises OSError, and RuntimeError
        when there is no thread to read it.

        The file is there on return.
        """
        os.close(os.open(path, _APPEND, 0o600))
        self._begin()
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        with self._lock:
            self._files[ours] = (BoundedFile(path), Allowance(time.monotonic()))
            self._poll.register(ours, select.EPOLLIN)
        return theirs

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="output", daemon=True)
                thread.start()
                self._thread = thread

    def drain(self, timeout_s: float = 1.0) -> None:
        """At the end: wait until nothing more comes, since all children are gone, or the time is over."""
        deadline = time.monotonic() + timeout_s
        while self._files and time.monotonic() < deadline:
            time.sleep(0.005)

    def _run(self) -> None:
        waiting: set[int] = set()
        while True:
            for fd, _ in self._poll.poll(0.05 if waiting else None):
                if not self._read(fd):
                    waiting.add(fd)
            now = time.monotonic()
            for fd in [fd for fd in waiting if self._files[fd][1].left(now) >= _PIECE]:
                waiting.discard(fd)
                self._poll.register(fd, select.EPOLLIN)

    def _read(self, fd: int) -> bool:
        """Read a piece; False when this child has used up what it is allowed, and is not polled any more."""
        file, allowance = self._files[fd]
        if allowance.left(time.monotonic()) < _PIECE:
            self._poll.unregister(fd)
            return False
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return True
        if data:
            allowance.take(len(data))
            file.append(data)
        else:
            with self._lock:
                self._poll.unregister(fd)
                os.close(fd)
                del self._files[fd]
        return True


OUTPUT_LOGS = OutputLogs()
"""Of this process, whose children all print into it."""
