"""The archive's table of documents: what the journal's state records of table ``doc`` come to.

Part of :mod:`chain.archive.archive`, whose transaction, thread and life it shares. Who follows the documents takes
:meth:`DocumentTable.take_changed` after each load; a record that is no document is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chain.entry.reader import StateRecord
from chain.vectors.document import TABLE, Document, DocumentError, decode_document

SCHEMA = """
CREATE TABLE documents (
    id VARCHAR NOT NULL, owner VARCHAR NOT NULL, scope VARCHAR NOT NULL, title VARCHAR NOT NULL,
    text VARCHAR NOT NULL, tags VARCHAR[] NOT NULL, seq BIGINT NOT NULL, time_us BIGINT NOT NULL);
CREATE INDEX documents_by_seq ON documents (seq);
"""
_COLUMNS = ("id", "owner", "scope", "title", "text", "tags", "seq", "time_us")
_TYPES = (*["VARCHAR"] * 5, "VARCHAR[]", "BIGINT", "BIGINT")
_INSERT = "INSERT INTO documents SELECT " + ", ".join(f"unnest(?::{kind}[])" for kind in _TYPES)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM documents"

Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class DocumentTable:
    """The table, over ``run``: execute a statement and drain it. Nothing here outlives a failed transaction but
    what :meth:`take_changed` tells, which is looked up again.

    Documents are asked for by number, the entry that wrote them: DuckDB's index answers those in a tenth of the time,
    but only when they are literals.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._changed: dict[str, int] = {}
        self._everything = True
        self.skipped = 0

    def restart(self) -> None:
        """The table was made anew, or opened: whoever follows must look at everything."""
        self._changed.clear()
        self._everything = True
        self.skipped = 0

    def skip(self) -> None:
        """Count a document that cannot be read, or has no place."""
        self.skipped += 1

    def clear(self) -> None:
        """Take all out: what follows is all there is."""
        self._run("DELETE FROM documents", ())
        self.restart()

    def check(self) -> None:
        """Ask for every column once, so that a table of another shape is noticed."""
        self._run(f"{_SELECT} LIMIT 0", ())

    def store(self, records: Sequence[StateRecord]) -> None:
        """Apply records of table ``doc``, in order."""
        final: dict[str, Document | None] = {}
        for record in records:
            final.pop(record.key, None)
            final[record.key] = self._decode(record)
        self._run("DELETE FROM documents WHERE id IN (SELECT unnest(?::VARCHAR[]))", [list(final)])
        rows = [_row(document) for document in final.values() if document is not None]
        if rows:
            self._run(_INSERT, list(map(list, zip(*rows, strict=True))))
        self._changed.update((key, document.seq if document else -1) for key, document in final.items())

    def take_changed(self) -> tuple[bool, dict[str, int]]:
        """The ids that changed since the last call, each with its number now, -1 when it is gone.

        The first time, and after a new start: true, and all there are.
        """
        everything = self._everything
        if everything:
            self._changed = dict(self._run("SELECT id, seq FROM documents ORDER BY seq, id", ()))
            self._everything = False
        changed, self._changed = self._changed, {}
        return everything, changed

    def get(self, numbers: Sequence[int]) -> list[Document]:
        """The documents of these numbers that there are, by number."""
        return [_document(row) for row in self._run(f"{_SELECT} {_among(numbers)} ORDER BY seq, id", ())]

    def _decode(self, record: StateRecord) -> Document | None:
        if record.value is None:
            return None
        try:
            return decode_document(record.key, record.value)
        except DocumentError:
            self.skip()
            return None


def is_document(record: object) -> bool:
    """Whether ``record`` is one of table ``doc``."""
    return isinstance(record, StateRecord) and record.table == TABLE


def _among(numbers: Sequence[int]) -> str:
    return f"WHERE seq IN ({', '.join(map(str, map(int, numbers)))})" if numbers else "WHERE false"


def _row(document: Document) -> tuple[Any, ...]:
    return (
        document.id,
        document.owner,
        document.scope,
        document.title,
        document.text,
        list(document.tags),
        document.seq,
        document.time_us,
    )


def _document(row: tuple[Any, ...]) -> Document:
    fields = dict(zip(_COLUMNS, row, strict=True))
    return Document(**{**fields, "tags": tuple(fields["tags"])})
