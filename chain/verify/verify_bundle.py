"""Verifies a bundle: a file with entries of a ledger, and all that is needed to check them under its keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chain.audit.audit import Audit
from chain.audit.claims import Claims
from chain.audit.clean_run import in_columns
from chain.audit.findings import MOST_FINDINGS
from chain.audit.report import Progress, Report, report_of
from chain.disk import Disk
from chain.entry.entry import ZERO_HASH, Entry, decode_entry
from chain.entry.record import RawEntry
from chain.errors import BundleError, ChainError
from chain.merkle.head import TreeHead
from chain.merkle.merkle import leaf_hash
from chain.merkle.proof import verify_inclusion
from chain.notes.note import VerifierKey
from chain.tiles.bundle import BundleReader, BundleRecord

_STEP = 256


def verify_bundle(
    path: Path,
    keys: Sequence[str] = (),
    progress: Progress | None = None,
    disk: Disk | None = None,
    *,
    seen: Sequence[bytes] = (),
) -> Report:
    """Verify the bundle in ``path`` under ``keys``, or else under its own; see :func:`chain.verify.verify.verify`.

    A partial one can be held against ``seen`` only where a note is of the very size of its head. ``progress(done,
    total)`` is called with bytes. Raises VerifierKeyError, OSError; everything else is a finding.
    """
    claims = Claims([VerifierKey.parse(key) for key in keys])
    audit = Audit("", None)
    reader: BundleReader | None = None
    try:
        reader = BundleReader(path, disk)
        head = claims.head("the bundle's checkpoint", reader.head.note)
        claims.keys("the bundle's keys", reader.head.vkeys, reader.head.size)
        claims.settle_keys()
        for note in seen:
            claims.head("the head seen elsewhere", note, foreign=True)
        audit = Audit(reader.head.origin, claims.history, claims.watched())
        _check_header(claims, reader, head)
        if reader.head.whole:
            _feed_all(audit, reader, progress or (lambda done, total: None))
        elif head is not None:
            _Partial(audit, claims, head).feed(reader, progress or (lambda done, total: None))
    except FileNotFoundError:
        claims.add("file", path.name, "a bundle", "no such file")
    except BundleError as error:
        claims.add("bundle", path.name, "the bundle that was written", str(error), audit.entries)
    finally:
        if reader is not None:
            reader.close()
    if reader is not None and reader.head.whole:
        audit.finish()
        claims.judge(audit)
        newest = claims.newest()
        if newest is not None and audit.entries != newest.head.size:
            expected = f"{newest.head.size} entries"
            claims.add("truncated", path.name, expected, str(audit.entries), audit.entries)
    return report_of(audit, claims, partial=reader is not None and not reader.head.whole)


def _check_header(claims: Claims, reader: BundleReader, head: TreeHead | None) -> None:
    said = (reader.head.origin, reader.head.size)
    if head is not None and said != (head.origin, head.size):
        claims.add("bundle", "the header", f"{head.size} entries of {head.origin}", f"{said[1]} of {said[0]}")
    if claims.history is not None and claims.history.origin != reader.head.origin:
        claims.add("keys", "the bundle's keys", reader.head.origin, claims.history.origin)


def _feed_all(audit: Audit, reader: BundleReader, progress: Progress) -> None:
    first = 0
    for columns in in_columns(RawEntry(each.leaf, each.salt, each.body) for each in reader.records()):
        audit.records(columns, [f"record {first + at}" for at in range(len(columns.leaves))])
        first += len(columns.leaves)
        progress(reader.done, reader.total)


class _Partial:
    """Some entries, each under its own proof. Between two that are not neighbours nothing is known."""

    def __init__(self, audit: Audit, claims: Claims, head: TreeHead) -> None:
        self._audit = audit
        self._claims = claims
        self._head = head
        self._last: tuple[Entry, bytes] | None = None
        self._counts: dict[int, tuple[int, int]] = {}
        self._read = 0

    def feed(self, reader: BundleReader, progress: Progress) -> None:
        """Read and check every record, then the head's signatures."""
        for number, record in enumerate(reader.records()):
            self._check(number, record)
            if self._claims.findings.count > MOST_FINDINGS:
                break
            if not number % _STEP:
                progress(reader.done, reader.total)
        self._audit.roots[self._head.size] = self._head.root
        for claim in self._claims.heads:
            if claim.foreign and claim.head.size < self._head.size:
                found = "some entries, which cannot show it: export all of them"
                self._claims.add(
                    "rolled back", claim.where, f"{claim.head.size} entries that it continues", found
                )
        self._audit.entries = self._head.size
        self._claims.judge(self._audit)
        self._audit.finish()
        self._audit.entries = self._read

    def _check(self, number: int, record: BundleRecord) -> None:
        where = f"record {number}"
        try:
            entry = decode_entry(record.leaf)
            node = leaf_hash(record.leaf)
            verify_inclusion(
                index=entry.seq,
                size=self._head.size,
                leaf_hash=node,
                proof=record.proof,
                root=self._head.root,
            )
        except ChainError as error:
            self._claims.add("entry", where, "an entry with a proof that leads to the head", str(error))
            return
        self._check_place(entry, where)
        self._audit.check_body(entry, RawEntry(record.leaf, record.salt, record.body), where)
        self._last = (entry, node)
        self._counts[entry.pid] = (entry.count + 1, entry.seq + 1 - self._read - 1)
        self._read += 1

    def _check_place(self, entry: Entry, where: str) -> None:
        if entry.node != self._audit.origin:
            self._claims.add("node", where, self._audit.origin, entry.node, entry.seq)
        absent = entry.seq - self._read
        least, absent_then = self._counts.get(entry.pid, (0, 0))
        if not least <= entry.count <= least + absent - absent_then:
            self._claims.add("count", where, f"entry {least} of pid {entry.pid}", str(entry.count), entry.seq)
        if entry.seq == 0 and entry.previous != ZERO_HASH:
            self._claims.add("previous", where, ZERO_HASH.hex(), entry.previous.hex(), 0)
        if self._last is None:
            return
        before, node = self._last
        if entry.seq <= before.seq:
            self._claims.add("seq", where, f"an entry behind {before.seq}", str(entry.seq), entry.seq)
        elif entry.time_us < before.time_us:
            self._claims.add("time", where, f"not before {before.time_us}", str(entry.time_us), entry.seq)
        elif entry.seq == before.seq + 1 and entry.previous != node:
            self._claims.add("previous", where, node.hex(), entry.previous.hex(), entry.seq)
