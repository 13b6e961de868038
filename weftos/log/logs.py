"""The node's logs: one JSON object a line, in files of bounded size, written by a thread of their own.

A caller only puts a small dict in a bounded queue, so a slow disk stalls no event loop; structlog is imported
and run by the thread, so boot does not wait for it. When the queue is full, or the disk refuses, lines are
lost, and the first line that can be written again says how many.

Secrets do not get in: fields with a secret's name, the values of known secrets, and what looks like a bearer token or
a key.
"""

from __future__ import annotations

import logging
import math
import queue
import re
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from weftos.log.log_files import RotatingFile
from weftos.safe_text import safe_text

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
QUEUE_LINES = 10_000
MAX_TEXT_CHARACTERS = 8_192
MAX_ITEMS = 100
MAX_DEPTH = 4
REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(api[_-]?key|authorization|password|secret|cookie|private[_-]?key|seed|token)$"
)
_SECRET_TEXT = re.compile(r"(?i)\b(bearer\s+|basic\s+)[\w.~+/=-]{8,}|\b(sk|pk|ghp|xox[abp])[-_][\w-]{8,}")
_CLOSE = object()


class JsonLog:
    """A log file. :meth:`log` may be called from any thread, and never raises or waits.

    ``secrets`` are values that must not appear in any line; below 6 characters they are not looked for.
    """

    def __init__(
        self, path: Path, *, max_bytes: int, backups: int, level: str = "info", secrets: Sequence[str] = ()
    ) -> None:
        self._file = RotatingFile(path, max_bytes, backups)
        self._threshold = LEVELS[level]
        self._secrets = tuple(
            sorted((secret for secret in secrets if len(secret) >= 6), key=len, reverse=True)
        )
        self._queue: queue.Queue[Any] = queue.Queue(QUEUE_LINES)
        self._lost = 0
        self._lost_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"log {path.name}", daemon=True)
        self._thread.start()

    def log(self, level: str, event: str, /, **fields: Any) -> None:
        """Write a line, unless ``level`` (debug, info, warning, error) is below that of the log."""
        if LEVELS[level] < self._threshold:
            return
        line = {"time_ns": time.time_ns(), "level": level, "event": event, **fields}
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._count_lost(1)

    def flush(self) -> None:
        """Wait until every line logged so far is in the file, or lost."""
        self._queue.join()

    def close(self) -> None:
        """Write what is queued and end the thread."""
        if self._thread.is_alive():
            self._queue.put(_CLOSE)
            self._thread.join()
        self._file.close()

    def _run(self) -> None:
        render = None
        while True:
            line = self._queue.get()
            try:
                if line is _CLOSE:
                    return
                render = render or _renderer()
                self._write(render, line)
            except Exception as error:  # a log that ended its thread over one line would lose all others
                if not self._lost:
                    print(f"log line lost: {type(error).__name__}: {error}", file=sys.stderr)
                self._count_lost(1)
            finally:
                self._queue.task_done()

    def _count_lost(self, lines: int) -> None:
        with self._lost_lock:
            self._lost += lines

    def _write(self, render: Any, line: dict[str, Any]) -> None:
        lost = self._lost
        if lost:
            notice = {"time_ns": time.time_ns(), "level": "error", "event": "log lines lost", "lines": lost}
            self._file.write(render(notice))
            self._count_lost(-lost)
        if exc_info := line.pop("exc_info", None):
            line["exception"] = _traceback(exc_info)
        self._file.write(render(self._cleaned(line, MAX_DEPTH)))

    def _cleaned(self, value: Any, depth: int, name: str = "") -> Any:
        """``value`` as bounded JSON data, without secrets and without what a terminal would obey."""
        if name and _SECRET_NAME.search(name):
            return REDACTED
        if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if depth and isinstance(value, Mapping):
            pairs = list(value.items())[:MAX_ITEMS]
            return {self._text(str(key)): self._cleaned(inner, depth - 1, str(key)) for key, inner in pairs}
        if depth and isinstance(value, list | tuple | set | frozenset):
            return [self._cleaned(inner, depth - 1) for inner in list(value)[:MAX_ITEMS]]
        if isinstance(value, bytes):
            return f"[{len(value)} bytes]"
        return self._text(value if isinstance(value, str) else repr(value))

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        cut = len(text) - MAX_TEXT_CHARACTERS
        if cut > 0:
            text = f"{text[:MAX_TEXT_CHARACTERS]} [{cut} characters more]"
        return safe_text(_SECRET_TEXT.sub(REDACTED, text), lines=True)


class LoggingBridge(logging.Handler):
    """Hands what the standard library's logging is given, by us or by others' code, to a :class:`JsonLog`."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        names = [name for name, number in LEVELS.items() if number <= record.levelno]
        try:
            message = record.getMessage()
        except Exception as error:  # logging's own rule: a bad format string is not the caller's failure
            message = f"{record.msg!r} ({type(error).__name__}: {error})"
        level = names[-1] if names else "debug"
        self._log.log(level, message, logger=record.name, exc_info=record.exc_info)


def _traceback(exc_info: Any) -> str:
    """The end of a traceback as text: the last calls tell more than the first."""
    from structlog.processors import format_exc_info

    text = str(format_exc_info(None, "", {"exc_info": exc_info}).get("exception", ""))
    return text[-MAX_TEXT_CHARACTERS:]


def _renderer() -> Any:
    from structlog.processors import JSONRenderer

    to_json = JSONRenderer()

    def render(line: MutableMapping[str, Any]) -> bytes:
        seconds, rest = divmod(line.pop("time_ns"), 10**9)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        ordered = {"time": f"{stamp}.{rest // 1000:06d}Z", **line}
        return str(to_json(None, "", ordered)).encode() + b"\n"

    return render
