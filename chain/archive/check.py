"""Verifies an archive's database from its own content: entries, bodies, heads, and that its views are what they say.

Theory of operation. A row's columns and the leaf hash of the row before make a leaf; its hash must be the row's
``leaf_hash``. So a column that was changed shows at its row. The hashes make the tree, and the newest heads in the file
sign its root, under keys that the entries ``key.rotated`` lead to from the first ones. So whoever changed hashes too is
found by the root. A body must make its row's commitment, and must be written as the archive writes it, so that nobody
can read two things in it. Documents of the memory are under no head: nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb

from chain.archive import rows
from chain.archive.archive import FORMAT, SCHEMA
from chain.archive.file import ArchiveBusy, connect, is_passing, refuse_when_busy
from chain.audit.findings import Finding
from chain.entry.entry import ZERO_HASH, commit_body, decode_body, encode_entry
from chain.errors import ChainError, EntryError
from chain.keys.rotation import KIND as ROTATED
from chain.keys.rotation import KeyHistory, KeyPair
from chain.merkle.head import TreeHead, parse_head
from chain.merkle.merkle import HASH_BYTES, CompactRange, leaf_hash
from chain.notes.note import parse, verify

STEP = 4_096
MOST_FINDINGS = 1_000
_HEADS = {"head": "the newest head", "full_head": "the newest full head"}
_OBJECTS = """
SELECT 'table', table_name, sql FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT 'view', view_name, sql FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT 'index', index_name, sql FROM duckdb_indexes()
UNION ALL SELECT 'function', function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
UNION ALL SELECT 'sequence', sequence_name, sql FROM duckdb_sequences()
UNION ALL SELECT 'schema', schema_name, sql FROM duckdb_schemas() WHERE NOT internal AND schema_name <> 'main'
"""


def check_database(path: Path, first: KeyPair, leaves: Iterator[bytes] | None = None) -> list[Finding]:
    """What is wrong with the archive's database in ``path``; nothing when it verifies up to its newest head.

    ``first`` are the node's first keys. ``leaves`` are the ledger's leaf hashes from entry 0 on, where the caller has
    them: then each entry is held against the ledger too, and it is no fault that the ledger goes on. Damage of the file
    is a finding, whatever DuckDB says of it. Raises ArchiveBusy when another process has the file open (the running
    node does), OSError when it cannot be read at all.

    The file is opened to be read only, and nothing beside it is written.
    """
    refuse_when_busy(path, read_only=True)
    findings = _Findings(path.name)
    try:
        database = connect(path, read_only=True)
    except duckdb.ConnectionException as error:
        raise ArchiveBusy(f"{path} is open in this process: {error}") from error
    except (duckdb.Error, RuntimeError) as error:
        findings.add("database", "a database of the archive", _first_line(error))
        return findings.found
    try:
        _Check(database, first, findings).run(leaves)
    except duckdb.Error as error:
        if is_passing(error):
            raise OSError(f"{path} cannot be read now: {error}") from error
        findings.add("database", "a database that can be read", _first_line(error))
    finally:
        database.close()
    return findings.found


class _Findings:
    """What was found, up to a bound: one change can make as many as there are entries behind it."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.found: list[Finding] = []

    def add(self, kind: str, expected: str, found: str, seq: int = -1) -> None:
        if len(self.found) < MOST_FINDINGS:
            where = f"{self._where}, row {seq}" if seq >= 0 else self._where
            self.found.append(Finding(seq, kind, where, expected, found))


class _Check:
    def __init__(self, database: duckdb.DuckDBPyConnection, first: KeyPair, findings: _Findings) -> None:
        self._database = database
        self._origin = first.ed25519.name
        self._keys = KeyHistory(first)
        self._findings = findings
        self._tree = CompactRange()
        self._previous = ZERO_HASH
        self._roots: dict[int, bytes] = {}
        self._erased: list[int] = []
        self._told: list[tuple[int, int]] = []
        self._compared = 0

    def run(self, leaves: Iterator[bytes] | None) -> None:
        """Everything, in one pass over the entries. Raises duckdb.Error."""
        if not self._check_objects():
            return
        size = self._check_position()
        heads = self._heads()
        watched = {head.size for _, head, _ in heads}
        (count,) = self._run("SELECT count(*) FROM entries")[0]
        if count != size:
            self._findings.add("entries", f"{size} entries", f"{count} rows")
        for row in self._rows(size):
            self._entry(row, leaves)
            if self._tree.size in watched:
                self._roots[self._tree.size] = self._tree.root()
        self._check_erased()
        self._check_heads(heads, size)

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(statement, values).fetchall()

    def _check_objects(self) -> bool:
        """Tables, views and whatever else there is must be exactly what an archive has; whether the tables are."""
        with connect(None) as other:
            for statement in SCHEMA:
                other.execute(statement).fetchall()
            wanted = {row[:2]: row[2] for row in other.execute(_OBJECTS).fetchall()}
        found = {row[:2]: row[2] for row in self._run(_OBJECTS)}
        sound = True
        for kind, name in sorted(wanted.keys() | found.keys()):
            right, is_ = wanted.get((kind, name)), found.get((kind, name))
            if right != is_:
                self._findings.add(kind, f"{name}: {right or 'none'}", f"{name}: {is_ or 'none'}")
                sound = sound and kind != "table"
        return sound

    def _check_position(self) -> int:
        """How many entries the archive says it has loaded."""
        stored = self._run("SELECT format, origin, seq FROM position")
        if len(stored) != 1 or stored[0][0] != FORMAT or type(stored[0][2]) is not int:
            self._findings.add("position", f"one row of format {FORMAT}", repr(stored)[:200])
            return int(self._run("SELECT count(*) FROM entries")[0][0])
        _, origin, seq = stored[0]
        if seq and origin != self._origin:
            self._findings.add("origin", self._origin, str(origin))
        return int(seq)

    def _rows(self, size: int) -> Iterator[rows.Row]:
        """The rows in order, a finding for each that is missing or there twice."""
        columns = ", ".join(rows.COLUMNS)
        following = 0
        for start in range(0, size, STEP):
            end = min(start + STEP, size)
            found = self._run(
                f"SELECT {columns} FROM entries WHERE seq >= ? AND seq < ? ORDER BY seq", [start, end]
            )
            for row in found:
                if row[0] < following:
                    self._findings.add("seq", "one row", "two of this number", row[0])
                    continue
                self._missing(following, row[0])
                yield row
                following = row[0] + 1
        self._missing(following, size)

    def _missing(self, start: int, end: int) -> None:
        if start < end:
            which = f"entry {start}" if end == start + 1 else f"entries {start} to {end - 1}"
            self._findings.add("missing", which, "nothing", start)

    def _entry(self, row: rows.Row, leaves: Iterator[bytes] | None) -> None:
        seq, stored = row[0], bytes(row[11]).ljust(HASH_BYTES, b"\0")[:HASH_BYTES]
        try:
            entry = rows.entry_of(row, self._previous)
            made = leaf_hash(encode_entry(entry))
        except (ValueError, TypeError, EntryError) as error:
            self._findings.add("entry", "columns that make an entry", str(error), seq)
        else:
            if made != stored:
                self._findings.add("columns", f"what makes leaf hash {stored.hex()}", made.hex(), seq)
            elif entry.node != self._origin:
                self._findings.add("node", self._origin, entry.node, seq)
        self._body(row)
        if leaves is not None:
            wanted = self._leaf(leaves, seq)
            if wanted != stored:
                expected = wanted.hex() if wanted else "no such entry in the ledger"
                self._findings.add("leaf", expected, stored.hex(), seq)
        self._previous = stored
        self._tree.append(stored)

    def _leaf(self, leaves: Iterator[bytes], seq: int) -> bytes | None:
        """The ledger's leaf hash of entry ``seq``, those before it being passed over; None where it ends before."""
        leaf = next(islice(leaves, seq - self._compared, None), None)
        self._compared = seq + 1
        return leaf

    def _body(self, row: rows.Row) -> None:
        seq, kind, text, commitment, salt, kept = row[0], row[5], row[9], row[10], row[12], row[13]
        if salt is None and text is None and kept is None:
            self._erased.append(seq)
            return
        if salt is None or text is None:
            self._findings.add("body", "a body and its salt, or neither", "one without the other", seq)
            return
        try:
            packed = rows.body_of(text) if kept is None else bytes(kept)
            body = decode_body(packed)
            written, whole = rows.body_text(body)
        except (ValueError, RecursionError, EntryError) as error:
            self._findings.add("body", "a body", str(error), seq)
            return
        made = commit_body(bytes(salt), packed)
        if made != bytes(commitment):
            self._findings.add("commitment", bytes(commitment).hex(), made.hex(), seq)
        elif written != text or whole != (kept is None):
            self._findings.add("body", _excerpt(written), _excerpt(text), seq)
        else:
            self._follow(seq, kind, body)

    def _follow(self, seq: int, kind: str, body: dict[str, Any]) -> None:
        """What entries say of keys and of erasures."""
        if kind == ROTATED:
            try:
                self._keys.rotated(seq, body)
            except ChainError as error:
                self._findings.add("rotation", "keys that follow from those before", str(error), seq)
        elif kind == "erase":
            ranges = body.get("ranges")
            pairs = ranges if isinstance(ranges, list) else []
            self._told += [(pair[0], pair[1]) for pair in pairs if _is_range(pair)]

    def _check_erased(self) -> None:
        """Every body that is gone must be one that an entry says was erased."""
        told = sorted(self._told)
        at, reach = 0, -1
        for seq in self._erased:
            while at < len(told) and told[at][0] <= seq:
                reach = max(reach, told[at][1])
                at += 1
            if reach < seq:
                self._findings.add("erased", "a body", "none, and no entry says that it was erased", seq)

    def _heads(self) -> list[tuple[str, TreeHead, bytes]]:
        """The newest head and the newest full head, with their notes."""
        heads = []
        for name, which in _HEADS.items():
            for (note,) in self._run(f"SELECT {name} FROM position WHERE {name} IS NOT NULL"):
                try:
                    heads.append((name, parse_head(parse(bytes(note)).text), bytes(note)))
                except ChainError as error:
                    self._findings.add("head", which, str(error))
        return heads

    def _check_heads(self, heads: Sequence[tuple[str, TreeHead, bytes]], size: int) -> None:
        for name, head, note in heads:
            which = _HEADS[name]
            pair = self._keys.at(head.size)
            root = self._roots.get(head.size)
            try:
                verify(note, pair.both if name == "full_head" else (pair.ed25519,))
            except ChainError as error:
                self._findings.add("head", f"{which}, signed by the node's keys", str(error))
                continue
            if head.origin != self._origin or root is None:
                wanted = f"{which} of {self._origin}, over at most {size} entries"
                self._findings.add("head", wanted, f"one of {head.origin} over {head.size}")
            elif root != head.root:
                self._findings.add("root", f"{which}: {head.root.hex()}", root.hex())
        newest = max((head.size for _, head, _ in heads), default=0)
        if newest != size:
            covered = f"the newest covers {newest}: the rest was still to come, or was taken away"
            self._findings.add("head", f"a head over {size} entries", covered)


def _is_range(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)


def _excerpt(text: str) -> str:
    return text[:200]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:500]
