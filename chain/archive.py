"""The audit archive: the journal's entries, and the documents of the memory, as DuckDB tables.

A projection and nothing more: it follows the journal's files, proves nothing, and can be deleted at any time. It
stores its reading position in the same transaction as the rows that were read, so a crash between two batches
costs nothing. Before it goes on it checks that the journal still holds the same checksum at that position; an
archive that does not fit its journal, or that DuckDB cannot read, is deleted and built again.

DuckDB is kept to its one file: no other files, no extensions, a bounded memory, and a configuration that no
statement can change. One process has the file open; nobody else can read it meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from chain.disk import Disk
from chain.documents import SCHEMA as DOCUMENTS_SCHEMA
from chain.documents import Documents, is_document
from chain.entry import MAX_INTEGER
from chain.errors import ChainError, DamageError, ForeignDataError
from chain.reader import EntryRecord, JournalReader, Position, StateRecord, segment_names

T = TypeVar("T")

FORMAT = "weftos-archive 2"
BATCH_ENTRIES = 2_000
BATCH_BYTES = 8 * 2**20
UPDATE_ENTRIES = 20_000
MAX_ROWS = 10_000
MAX_ANSWER_BYTES = 4 * 2**20
ROW_BYTES = 400  # about what a row takes beside its body

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "memory_limit": "256MB",
    "threads": "1",
}
_SCHEMA = """
CREATE TABLE entries (
    seq BIGINT NOT NULL, time_us BIGINT NOT NULL, node VARCHAR NOT NULL, pid BIGINT NOT NULL,
    count BIGINT NOT NULL, kind VARCHAR NOT NULL, subject VARCHAR NOT NULL, trace VARCHAR NOT NULL,
    cause BIGINT NOT NULL, body JSON);
CREATE TABLE position (
    format VARCHAR, origin VARCHAR, file VARCHAR, byte BIGINT, next_group BIGINT, checksum BLOB, seq BIGINT,
    last_hash BLOB, closed BOOLEAN);
"""
_POSITION = "format, origin, file, byte, next_group, checksum, seq, last_hash, closed"
_COLUMNS = ("seq", "time_us", "node", "pid", "count", "kind", "subject", "trace", "cause", "body")
_TYPES = (
    "BIGINT",
    "BIGINT",
    "VARCHAR",
    "BIGINT",
    "BIGINT",
    "VARCHAR",
    "VARCHAR",
    "VARCHAR",
    "BIGINT",
    "JSON",
)
_INSERT = "INSERT INTO entries SELECT " + ", ".join(f"unnest(?::{kind}[])" for kind in _TYPES)


class ArchiveBusy(ChainError):
    """Another process has the archive's file open."""


class ArchiveUnavailable(ChainError):
    """The archive cannot answer or store now, and that is not because of its content."""


class _Unfit(Exception):
    """The database is none of ours, or of another format."""


class Archive:
    """The archive in ``path`` of the journal in ``journal``. For one thread.

    rebuilt: why an earlier archive was thrown away, or None.
    """

    def __init__(self, path: Path, journal: Path, disk: Disk | None = None) -> None:
        self._path = path
        self._journal = journal
        self._disk = disk or Disk()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._position = Position()
        self._until: int | None = None
        self.documents = Documents(self._run)
        self.rebuilt: str | None = None

    @property
    def size(self) -> int:
        """How many entries have been loaded."""
        return self._position.seq

    def open(self) -> None:
        """Open or create the database. Raises ArchiveBusy, ArchiveUnavailable, OSError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_when_busy()
        try:
            self._connect()
        except (duckdb.Error, _Unfit) as error:
            self._start_again(str(error))

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def update(self, until: int | None = None) -> int:
        """Load what the journal holds behind the position, up to entry ``until`` if given; how many are loaded.

        One call loads about ``UPDATE_ENTRIES``, so that questions can be answered in between; call again until the
        number no longer grows. Raises ArchiveUnavailable, and when the journal itself is not sound DamageError or
        ForeignDataError.
        """
        self._until = until
        return self._sound(self._load)

    def ask(self, work: Callable[[], T]) -> T:
        """What ``work`` answers, which only reads :attr:`documents`; it runs again when the archive must be rebuilt.

        Raises ArchiveUnavailable, DamageError, ForeignDataError.
        """
        return self._sound(work)

    def log(
        self, *, pid: int | None = None, kind: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[dict[str, Any]]:
        """The newest ``limit`` loaded entries that match, oldest first; with ``before`` only those of a lower seq.

        ``kind`` is a whole kind or the noun of several (``tool``). In the answer ``trace`` is hexadecimal, ``body``
        None when it was erased. There are fewer rows where more would exceed 4 MiB, and always the newest.
        """
        conditions = ["true"]
        values: list[Any] = []
        for condition, value in (("pid = ?", pid), ("seq < ?", before)):
            if value is not None:
                conditions.append(condition)
                values.append(max(-1, min(value, MAX_INTEGER)))
        if kind is not None:
            conditions.append("(kind = ? OR starts_with(kind, ?))")
            values += [kind, f"{kind}."]
        where = " AND ".join(conditions)
        return self._sound(lambda: self._newest(where, values, max(1, min(limit, MAX_ROWS))))

    def _newest(self, where: str, values: Sequence[Any], limit: int) -> list[dict[str, Any]]:
        """Sizes first, so that no answer is ever held that is too large."""
        sizes = self._run(
            f"SELECT seq, coalesce(strlen(body), 0) FROM entries WHERE {where} ORDER BY seq DESC LIMIT ?",
            [*values, limit],
        )
        oldest, held = None, 0
        for seq, size in sizes:
            held += size + ROW_BYTES
            if oldest is not None and held > MAX_ANSWER_BYTES:
                break
            oldest = seq
        if oldest is None:
            return []
        rows = self._run(
            f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE {where} AND seq >= ? ORDER BY seq",
            [*values, oldest],
        )
        return [
            {
                **dict(zip(_COLUMNS, row, strict=True)),
                "body": None if row[-1] is None else json.loads(row[-1]),
            }
            for row in rows
        ]

    def _sound(self, work: Callable[[], T]) -> T:
        """``work``, and once more on a new archive when this one is damaged or no longer fits its journal."""
        try:
            try:
                return work()
            except DamageError:
                return work()  # a frame that was being written while it was read looks like damage, once
        except duckdb.Error as error:
            if _is_passing(error):
                raise ArchiveUnavailable(f"the archive cannot be used now: {error}") from error
            self._start_again(str(error))
        except (DamageError, ForeignDataError) as error:
            if self._position == Position():
                raise
            self._start_again(str(error))
        try:
            self._load()
            return work()
        except duckdb.Error as error:
            raise ArchiveUnavailable(f"the archive cannot be built: {error}") from error

    def _load(self) -> int:
        self._check_fit()
        reader = JournalReader(self._journal, self._disk, self._position)
        position = self._position
        last = position.seq + UPDATE_ENTRIES
        batch: list[EntryRecord] = []
        documents: list[StateRecord] = []
        held = 0
        for group in reader.groups():
            entries = [record for record in group.records if isinstance(record, EntryRecord)]
            if self._until is not None and entries and entries[-1].entry.seq >= self._until:
                break
            changes = [
                record for record in group.records if isinstance(record, StateRecord) and is_document(record)
            ]
            position = reader.position
            batch += entries
            documents += changes
            held += sum(len(record.body_bytes or b"") for record in entries)
            held += sum(len(record.value or b"") for record in changes)
            if len(batch) >= BATCH_ENTRIES or held >= BATCH_BYTES:
                self._store(batch, documents, position)
                batch, documents, held = [], [], 0
            if position.seq >= last:
                break
        if batch or documents:
            self._store(batch, documents, position)
        self._position = position
        return self.size

    def _store(
        self, batch: Sequence[EntryRecord], documents: Sequence[StateRecord], position: Position
    ) -> None:
        columns = list(zip(*map(_row, batch), strict=True))
        self._run("BEGIN")
        try:
            if columns:
                self._run(_INSERT, columns)
            if documents:
                self.documents.store(documents)
            self._store_position(position)
            self._run("COMMIT")
        except duckdb.Error:
            with contextlib.suppress(
                duckdb.Error
            ):  # the first error tells; the transaction may be gone with it
                self._run("ROLLBACK")
            raise
        self._position = position

    def _store_position(self, at: Position) -> None:
        self._run("DELETE FROM position")
        values = (
            FORMAT,
            at.origin,
            at.file,
            at.offset,
            at.group,
            at.checksum,
            at.seq,
            at.last_hash,
            at.closed,
        )
        self._run(f"INSERT INTO position VALUES ({', '.join('?' * len(values))})", values)

    def _check_fit(self) -> None:
        """Raise DamageError or ForeignDataError when the journal does not hold what was read from it."""
        at = self._position
        if not at.file:
            return
        names = segment_names(self._journal, self._disk)
        if at.file not in names:
            raise DamageError(at.file, at.offset, at.seq, "the segment that the archive had read is gone")
        start = at.offset - len(at.checksum)
        if self._disk.read_at(self._journal / at.file, start, len(at.checksum)) != at.checksum:
            raise DamageError(
                at.file, at.offset, at.seq, "the journal is not the one that the archive had read"
            )

    def _connect(self) -> None:
        new = not self._path.exists()
        self._database = duckdb.connect(str(self._path), config=_CONFIG)
        self._path.chmod(0o600)
        self._run("SET lock_configuration = true")
        if new:
            self._run(_SCHEMA)
            self._run(DOCUMENTS_SCHEMA)
            self._store_position(Position())
        stored = self._run(f"SELECT {_POSITION} FROM position")
        self._run(f"SELECT {', '.join(_COLUMNS)} FROM entries LIMIT 0")
        self.documents.check()
        if len(stored) != 1 or stored[0][0] != FORMAT:
            raise _Unfit(f"it is not of the format {FORMAT!r}")
        _, origin, file, offset, group, checksum, seq, last_hash, closed = stored[0]
        self._position = Position(file, offset, group, checksum, seq, last_hash, closed, origin)
        self.documents.restart()

    def _start_again(self, why: str) -> None:
        self.close()
        for name in (self._path.name, f"{self._path.name}.wal"):
            self._path.with_name(name).unlink(missing_ok=True)
        self._position = Position()
        self.rebuilt = why
        try:
            self._connect()
        except duckdb.Error as error:
            raise ArchiveUnavailable(f"a new archive cannot be made: {error}") from error

    def _refuse_when_busy(self) -> None:
        """DuckDB holds an fcntl lock on its file, and would call a locked one unreadable: so ask for the lock first."""
        try:
            with open(self._path, "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return
        except BlockingIOError:
            raise ArchiveBusy(f"{self._path} is open in another process: end that one first") from None

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute and drain."""
        if self._database is None:
            raise ArchiveUnavailable("the archive is not open")
        return self._database.execute(statement, values).fetchall()


def _is_passing(error: duckdb.Error) -> bool:
    """Whether memory or disk ran out, as against a database that cannot be read."""
    return isinstance(error, duckdb.OutOfMemoryException) or (
        isinstance(error, duckdb.IOException) and "Could not read" not in str(error)
    )


def _row(record: EntryRecord) -> tuple[Any, ...]:
    entry = record.entry
    body = None if record.erased else json.dumps(_as_json(record.body), ensure_ascii=False)
    return (
        entry.seq,
        entry.time_us,
        entry.node,
        entry.pid,
        entry.count,
        entry.kind,
        entry.subject,
        entry.trace.hex(),
        entry.cause,
        body,
    )


def _as_json(value: Any) -> Any:
    """``value`` with bytes in hexadecimal, which JSON cannot say."""
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value
