"""Entries as rows of the archive, and back.

A row holds the entry once in columns that people read, and beside them what proves them: with ``commitment``, and the
``leaf_hash`` of the row before as ``previous``, the columns make the leaf again, whose hash is ``leaf_hash``; with
``salt``, the body makes the commitment. So nothing is stored twice, and a column that was changed shows. ``body`` is
the body as JSON; ``body_bytes`` holds its bytes only where JSON cannot say them (it says bytes in hexadecimal).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chain.entry.entry import Entry, decode_body, encode_body
from chain.entry.record import EntryRecord

SCHEMA = """
CREATE TABLE entries (
    seq BIGINT NOT NULL, time_us BIGINT NOT NULL, node VARCHAR NOT NULL, pid BIGINT NOT NULL,
    count BIGINT NOT NULL, kind VARCHAR NOT NULL, subject VARCHAR NOT NULL, trace VARCHAR NOT NULL,
    cause BIGINT NOT NULL, body JSON, commitment BLOB NOT NULL, leaf_hash BLOB NOT NULL, salt BLOB, body_bytes BLOB);
"""
SHOWN = ("seq", "time_us", "node", "pid", "count", "kind", "subject", "trace", "cause", "body")
COLUMNS = (*SHOWN, "commitment", "leaf_hash", "salt", "body_bytes")
_TYPES = ("BIGINT", "BIGINT", "VARCHAR", "BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "VARCHAR", "BIGINT", "JSON",
          "BLOB", "BLOB", "BLOB", "BLOB")  # fmt: skip
INSERT = "INSERT INTO entries SELECT " + ", ".join(f"unnest(?::{kind}[])" for kind in _TYPES)

Row = tuple[Any, ...]


def columns_of(records: Sequence[EntryRecord]) -> list[Row]:
    """What :data:`INSERT` wants. Raises EntryError for a body that is not canonical."""
    return list(zip(*map(_row, records), strict=True))


def _row(record: EntryRecord) -> Row:
    entry = record.entry
    text, kept = None, None
    if record.body_bytes is not None:
        text, whole = body_text(decode_body(record.body_bytes))
        kept = None if whole else record.body_bytes
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
        text,
        entry.commitment,
        record.leaf_hash,
        record.salt,
        kept,
    )


def entry_of(row: Row, previous: bytes) -> Entry:
    """The entry that the columns of ``row`` say. Raises ValueError for a trace that is not hexadecimal."""
    seq, time_us, node, pid, count, kind, subject, trace, cause = row[:9]
    return Entry(
        seq, time_us, node, pid, count, kind, subject, bytes.fromhex(trace), cause, row[10], previous
    )


def body_text(body: dict[str, Any]) -> tuple[str, bool]:
    """``body`` as JSON, bytes in hexadecimal; and whether it can be made of this text again, having none."""
    whole = True

    def in_hexadecimal(value: Any) -> str:
        nonlocal whole
        whole = False
        return bytes(value).hex()

    return json.dumps(body, ensure_ascii=False, default=in_hexadecimal), whole


def body_of(text: str) -> bytes:
    """The bytes of a body that ``text`` says whole. Raises ValueError, RecursionError, EntryError."""
    body = json.loads(text)
    if type(body) is not dict:
        raise ValueError("the body is not a JSON object")
    return encode_body(body)
