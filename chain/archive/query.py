"""Statements of somebody else's over the archive: SELECT and nothing else, bounded in time, memory and answer.

What holds each of them in, in this order: DuckDB's own parser finds exactly one statement, of type SELECT (that also is
what WITH, FROM, VALUES, DESCRIBE and SHOW come to); it runs in a read-only transaction of a connection of its own,
which is rolled back; the database reads no file and loads nothing, and its configuration is locked
(:mod:`chain.archive.file`); after ``DEADLINE_S`` it is interrupted; DuckDB has its memory limit, and what it allocates
beside that, as a few functions do, is limited by the operating system while the statement runs.

Few functions do not look whether they are interrupted (an edit distance of two long texts). Such a statement goes on
in its thread, and who runs this in a process of its own ends that (:class:`Unstoppable`).
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any

import duckdb
import msgpack

from chain.archive.file import ArchiveUnavailable
from chain.errors import ChainError

DEADLINE_S = 5.0
STOP_S = 5.0
MAX_SQL_BYTES = 64 * 2**10
MAX_ROWS = 10_000
MAX_ANSWER_BYTES = 2**20
MAX_WORDS = 2_000
MEMORY_BYTES = 512 * 2**20
_AGAIN_S = 0.05
_FETCH_ROWS = 64
_STATM_DATA = 5


class QueryError(ChainError):
    """A statement was refused, failed, or took too long. ``code``: invalid, busy, timeout or unavailable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unstoppable(ArchiveUnavailable):
    """A statement goes on although it was interrupted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """columns: name and type of each; rows: of values that JSON can say; cut: why there are more, else empty."""

    columns: list[tuple[str, str]]
    rows: list[list[Any]]
    cut: str


class Queries:
    """The connection for foreign statements, one at a time. :meth:`begin` and :meth:`end` are the archive's."""

    def __init__(self) -> None:
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._one = threading.Lock()

    def begin(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Statements run on ``cursor`` from now on."""
        self._cursor = cursor

    def end(self) -> None:
        """None runs when this returns, nor will one. Raises Unstoppable."""
        cursor, until = self._cursor, time.monotonic() + STOP_S
        if cursor is None:
            return
        while not self._one.acquire(timeout=_AGAIN_S):
            cursor.interrupt()
            if time.monotonic() > until:
                raise Unstoppable("a query that was interrupted goes on")
        try:
            self._cursor = None
            cursor.close()
        finally:
            self._one.release()

    def ask(self, sql: str, limit: int) -> Answer:
        """At most ``limit`` rows of what ``sql`` answers. Raises QueryError."""
        if not self._one.acquire(blocking=False):
            raise QueryError("busy", "another query is running: ask again when it has ended")
        try:
            if self._cursor is None:
                raise QueryError("unavailable", "the archive is not open")
            return _ask(self._cursor, sql, max(1, min(limit, MAX_ROWS)))
        finally:
            self._one.release()


def _ask(cursor: duckdb.DuckDBPyConnection, sql: str, limit: int) -> Answer:
    deadline = _Deadline(cursor)
    try:
        with _bounded_memory():
            statement = _statement(cursor, sql)
            cursor.execute("BEGIN TRANSACTION READ ONLY").fetchall()
            try:
                with deadline:
                    cursor.execute(statement)
                    return _fetch(cursor, limit)
            finally:
                with contextlib.suppress(duckdb.Error):  # a failed statement may have ended it already
                    cursor.execute("ROLLBACK").fetchall()
    except QueryError:
        raise
    except Exception as error:  # the boundary: whatever somebody's statement raises is the answer to it
        if deadline.passed:
            words = f"the query took longer than {DEADLINE_S:g} s and was stopped: ask for less at once"
            raise QueryError("timeout", words) from error
        raise QueryError("invalid", _words(error)) from error


def _statement(cursor: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The one statement in ``sql``. Raises QueryError, duckdb.Error, UnicodeError."""
    if len(sql.encode()) > MAX_SQL_BYTES:
        raise QueryError("invalid", f"the statement has over {MAX_SQL_BYTES} bytes")
    found = cursor.extract_statements(sql)
    if len(found) != 1:
        raise QueryError("invalid", f"{len(found)} statements: give exactly one")
    kind = found[0].type
    if kind != duckdb.StatementType.SELECT:
        allowed = "SELECT, WITH, FROM, VALUES, DESCRIBE and SHOW"
        raise QueryError("invalid", f"a statement of type {kind.name} is not allowed here: {allowed} are")
    if found[0].named_parameters:
        raise QueryError("invalid", "the statement has parameters: write the values out")
    return found[0]


def _fetch(cursor: duckdb.DuckDBPyConnection, limit: int) -> Answer:
    columns = [(str(column[0]), str(column[1])) for column in cursor.description or ()]
    rows: list[list[Any]] = []
    held = 0
    while chunk := cursor.fetchmany(_FETCH_ROWS):
        for row in chunk:
            if len(rows) == limit:
                return Answer(columns, rows, f"only the first {limit} rows: ask for more with a higher limit")
            plain = [_plain(value) for value in row]
            held += len(msgpack.packb(plain))
            if held > MAX_ANSWER_BYTES:
                return Answer(
                    columns, rows, f"only {len(rows)} rows: more would exceed {MAX_ANSWER_BYTES} bytes"
                )
            rows.append(plain)
    return Answer(columns, rows, "")


def _plain(value: Any) -> Any:
    """``value`` as JSON has it: bytes in hexadecimal, and text for what is neither number, text, list nor map."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case datetime():
            return value.isoformat(" ")
        case date() | time_of_day():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "the query needs more memory than it may have"
    return str(error)[:MAX_WORDS] or type(error).__name__


class _Deadline:
    """Interrupts the statement on ``cursor`` after ``DEADLINE_S``; again and again, as one can come too early."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.passed = False

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        wait_s = DEADLINE_S
        while not self._done.wait(wait_s):
            self.passed = True
            self._cursor.interrupt()
            wait_s = _AGAIN_S


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """For the time being, this process may take ``MEMORY_BYTES`` more and then gets none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[_STATM_DATA]) * os.sysconf("SC_PAGESIZE")
    bounds = [used + MEMORY_BYTES, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
