"""The audit archive: the ledger's entries, and the documents of the memory, as DuckDB tables.

A projection: it follows the ledger's files and can be deleted at any time. It stores its reading position in the same
transaction as the rows that were read, so a crash between two batches costs nothing. Before it goes on it checks that
the ledger still holds what it had read; an archive that does not fit its ledger, or that DuckDB cannot read, is deleted
and built again. With every entry it holds what proves it (:mod:`chain.archive.rows`) and beside them the newest heads,
so that :mod:`chain.archive.check` can verify the file alone.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from chain.archive import rows
from chain.archive.file import ArchiveBusy, ArchiveUnavailable, connect, is_passing, refuse_when_busy
from chain.archive.query import Answer, Queries
from chain.archive.source import Batch, Source
from chain.archive.views import VIEWS
from chain.disk import Disk
from chain.entry.entry import MAX_INTEGER
from chain.entry.reader import Position
from chain.errors import DamageError, ForeignDataError
from chain.vectors.document_table import SCHEMA as DOCUMENTS_SCHEMA
from chain.vectors.document_table import DocumentTable

__all__ = ["Archive", "ArchiveBusy", "ArchiveUnavailable"]

T = TypeVar("T")

FORMAT = "weftos-archive 3"
MAX_ROWS = 10_000
MAX_ANSWER_BYTES = 4 * 2**20
ROW_BYTES = 400  # about what a row takes beside its body

_SCHEMA = """
CREATE TABLE position (
    format VARCHAR, origin VARCHAR, file VARCHAR, byte BIGINT, next_group BIGINT, checksum BLOB, seq BIGINT,
    last_hash BLOB, closed BOOLEAN, head BLOB, full_head BLOB);
"""
SCHEMA = (_SCHEMA, rows.SCHEMA, DOCUMENTS_SCHEMA, *VIEWS.values())
_POSITION = "format, origin, file, byte, next_group, checksum, seq, last_hash, closed"
_POSITION_TYPES = (str, str, str, int, int, bytes, int, bytes, bool)
_MOVE = """
UPDATE position SET origin = ?, file = ?, byte = ?, next_group = ?, checksum = ?, seq = ?, last_hash = ?, closed = ?,
    head = coalesce(?, head), full_head = coalesce(?, full_head)
"""
CHECKPOINT_BYTES = 8 * 2**20


class _Unfit(Exception):
    """The database is none of ours, or of another format."""


class Archive:
    """The archive in ``path`` of the ledger in the data directory ``data``. For one thread, but :meth:`query`.

    rebuilt: why an earlier archive was thrown away, or None.
    """

    def __init__(self, path: Path, data: Path, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk()
        self._source = Source(data, self._disk)
        self._database: duckdb.DuckDBPyConnection | None = None
        self._opened = False
        self._position = Position()
        self._until: int | None = None
        self._queries = Queries()
        self.documents = DocumentTable(self._run)
        self.rebuilt: str | None = None

    @property
    def size(self) -> int:
        """How many entries have been loaded."""
        return self._position.seq

    def open(self) -> None:
        """Open or create the database. Raises ArchiveBusy, ArchiveUnavailable, OSError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            refuse_when_busy(self._path)
        try:
            self._connect()
        except (duckdb.Error, _Unfit) as error:
            self._start_again(str(error))
        self._opened = True

    def close(self) -> None:
        """Let go of the file. Raises ArchiveUnavailable when a query cannot be stopped."""
        self._opened = False
        self._let_go()

    def _let_go(self) -> None:
        self._queries.end()
        if self._database is not None:
            self._database.close()
            self._database = None

    def rebuild(self, why: str) -> None:
        """Throw the database away; :meth:`update` loads everything again. Raises ArchiveUnavailable, OSError."""
        self._start_again(why)

    def update(self, until: int | None = None) -> int:
        """Load what the ledger holds behind the position, up to entry ``until`` if given; how many are loaded.

        One call loads a part of a long ledger (:data:`chain.archive.source.UPDATE_ENTRIES`), so that questions can be
        answered in between; call again until the number no longer grows. Raises ArchiveUnavailable, and when the ledger
        itself is not sound DamageError, ForeignDataError or TileError.
        """
        self._until = until
        return self._sound(self._load)

    def settle(self) -> None:
        """Nothing is to be loaded just now: time for what would hold up the loading."""
        log = self._path.with_name(f"{self._path.name}.wal")
        if log.exists() and log.stat().st_size > CHECKPOINT_BYTES:
            with contextlib.suppress(duckdb.Error):  # a query may be running; else the next load meets it
                self._run("CHECKPOINT")

    def ask(self, work: Callable[[], T]) -> T:
        """What ``work`` answers, which only reads :attr:`documents`; it runs again when the archive must be rebuilt.

        Raises ArchiveUnavailable, DamageError, ForeignDataError.
        """
        return self._sound(work)

    def query(self, sql: str, limit: int) -> Answer:
        """What a statement of somebody else's answers, in any thread, one at a time. Raises QueryError."""
        return self._queries.ask(sql, limit)

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

    def about(
        self, kinds: Sequence[str], subjects: Sequence[str], turn: str, *, since: int, limit: int
    ) -> list[dict[str, Any]]:
        """The loaded entries from ``since`` on of these ``kinds`` that have one of the ``subjects``, or whose body
        names the ``turn``, oldest first: as :meth:`log`, the newest where there are too many.
        """
        where = (
            "seq >= ? AND list_contains(?::VARCHAR[], kind) "
            "AND (list_contains(?::VARCHAR[], subject) OR json_extract_string(body, '$.turn') = ?)"
        )
        values = [max(-1, min(since, MAX_INTEGER)), list(kinds), list(subjects), turn]
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
        found = self._run(
            f"SELECT {', '.join(rows.SHOWN)} FROM entries WHERE {where} AND seq >= ? ORDER BY seq",
            [*values, oldest],
        )
        return [
            {
                **dict(zip(rows.SHOWN, row, strict=True)),
                "body": None if row[-1] is None else json.loads(row[-1]),
            }
            for row in found
        ]

    def _sound(self, work: Callable[[], T]) -> T:
        """``work``, and once more on a new archive when this one is damaged or no longer fits its ledger.

        One that could not be made, or opened again, the last time is opened first.
        """
        if self._opened and self._database is None:
            self.open()
        try:
            try:
                return work()
            except DamageError:
                return work()  # a frame that was being written while it was read looks like damage, once
            except duckdb.FatalException:
                self._connect_again()  # DuckDB gives an instance up after a fault of its own; the file is whole
                return work()
        except duckdb.Error as error:
            if is_passing(error):
                raise ArchiveUnavailable(f"the archive cannot be used now: {error}") from error
            self._start_again(str(error))
        except _Unfit as error:
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
        for batch in self._source.batches(self._position, self._until):
            if batch.is_empty:
                self._position = batch.position
            else:
                self._store(batch)
        return self.size

    def _store(self, batch: Batch) -> None:
        self._run("BEGIN")
        try:
            if batch.entries:
                self._run(rows.INSERT, rows.columns_of(batch.entries))
            if batch.afresh:
                self.documents.clear()
            if batch.documents:
                self.documents.store(batch.documents)
            self._store_position(batch.position, batch.note, batch.full)
            self._run("COMMIT")
        except BaseException:
            with contextlib.suppress(
                duckdb.Error
            ):  # the first error tells; the transaction may be gone with it
                self._run("ROLLBACK")
            raise
        self._position = batch.position

    def _store_position(self, at: Position, note: bytes | None, full: bytes | None) -> None:
        """The heads that are None stay what they were."""
        values = (at.origin, at.file, at.offset, at.group, at.checksum, at.seq, at.last_hash, at.closed)
        self._run(_MOVE, (*values, note, full))

    def _connect(self) -> None:
        """Open the file, or make it. What fails leaves nothing open."""
        new = not self._path.exists()
        self._database = connect(self._path)
        try:
            self._begin(self._database, new)
        except BaseException:
            self._let_go()
            raise

    def _begin(self, database: duckdb.DuckDBPyConnection, new: bool) -> None:
        self._path.chmod(0o600)
        if new:
            for statement in SCHEMA:
                self._run(statement)
            self._run("INSERT INTO position (format) VALUES (?)", [FORMAT])
            self._store_position(Position(), None, None)
        stored = self._run(f"SELECT {_POSITION} FROM position")
        self._run(f"SELECT {', '.join(rows.COLUMNS)} FROM entries LIMIT 0")
        self.documents.check()
        if len(stored) != 1 or stored[0][0] != FORMAT:
            raise _Unfit(f"it is not of the format {FORMAT!r}")
        if tuple(map(type, stored[0])) != _POSITION_TYPES:
            raise _Unfit("it does not say what it has read: it was never finished, or changed")
        _, origin, file, offset, group, checksum, seq, last_hash, closed = stored[0]
        self._position = Position(file, offset, group, checksum, seq, last_hash, closed, origin)
        self.documents.restart()
        self._queries.begin(database.cursor())

    def _connect_again(self) -> None:
        self._let_go()
        self._connect()

    def _start_again(self, why: str) -> None:
        self._let_go()
        for name in (self._path.name, f"{self._path.name}.wal"):
            self._path.with_name(name).unlink(missing_ok=True)
        self._disk.sync_directory(self._path.parent)  # what was erased must not come back with a power cut
        self._position = Position()
        self.rebuilt = why
        try:
            self._connect()
        except duckdb.Error as error:
            raise ArchiveUnavailable(f"a new archive cannot be made: {error}") from error

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute and drain."""
        if self._database is None:
            raise ArchiveUnavailable("the archive is not open")
        return self._database.execute(statement, values).fetchall()
