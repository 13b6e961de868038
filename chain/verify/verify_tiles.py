"""Verifies a published ledger by itself: a copy of ``ledger/``, wherever it lies, or the folder of a running node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chain.audit.audit import Audit
from chain.audit.claims import Claims
from chain.audit.findings import MOST_FINDINGS
from chain.audit.published_check import PublishedCheck
from chain.audit.report import Progress, Report, report_of
from chain.disk import Disk
from chain.errors import ChainError
from chain.merkle.proof import verify_consistency, verify_inclusion
from chain.merkle.tree import consistency_path, inclusion_path
from chain.notes.note import MAX_NOTE_BYTES, VerifierKey
from chain.tiles.tile_paths import CHECKPOINT
from chain.tiles.tile_store import TileStore

__all__ = ["audit_entries", "audit_published", "read_published", "verify_tiles"]

_ATTEMPTS = 3


def verify_tiles(
    directory: Path,
    keys: Sequence[str] = (),
    progress: Progress | None = None,
    disk: Disk | None = None,
    *,
    seen: Sequence[bytes] = (),
    start: int = 0,
) -> Report:
    """Verify the published ledger in ``directory`` under ``keys``, or else under its own, as
    `chain.verify.verify.verify`.

    ``progress(done, total)`` is called with entries. Raises VerifierKeyError, OSError; everything else is a finding.
    """
    disk = disk or Disk()
    pinned = [VerifierKey.parse(key) for key in keys]
    for _ in range(_ATTEMPTS):
        before = _checkpoint(directory, disk)
        report = _verify(directory, pinned, progress or (lambda done, total: None), disk, seen, start)
        if not report.findings or _checkpoint(directory, disk) == before:
            break
    return report


def _checkpoint(directory: Path, disk: Disk) -> bytes:
    """The file's bytes: when they are others later, a node has gone on, and what was missed may be its doing."""
    try:
        return disk.read_at(directory / CHECKPOINT, 0, MAX_NOTE_BYTES)
    except OSError:
        return b""


def _verify(
    directory: Path,
    pinned: Sequence[VerifierKey],
    progress: Progress,
    disk: Disk,
    seen: Sequence[bytes],
    start: int,
) -> Report:
    claims = Claims(pinned)
    store = read_published(directory, disk, claims, "")
    if store is None and not claims.findings.kept:
        claims.add("file", CHECKPOINT, "a head signed with both keys", "no such file")
    claims.settle_keys()
    for note in seen:
        claims.head("the head seen elsewhere", note, foreign=True)
    check = PublishedCheck(directory, disk, store) if store else None
    newest = claims.newest()
    origin = claims.history.origin if claims.history else newest.head.origin if newest else ""
    audit = Audit(origin, claims.history, claims.watched(), check)
    if check is not None:
        audit_published(audit, check, claims, start, check.size, progress)
    audit.finish()
    claims.judge(audit)
    if check is not None:
        check.finish(strangers=False)  # a web server's own may lie beside
    return report_of(audit, claims, check.findings if check else [])


def read_published(directory: Path, disk: Disk, claims: Claims, where: str) -> TileStore | None:
    """Read checkpoint and vkeys of the published ledger in ``directory``; None when it has no checkpoint that can be
    read. ``where`` is what stands before the names of its files in findings.
    """
    try:
        store = TileStore(directory, disk)
        note = store.checkpoint()
        if note is None:
            return None
        head = claims.head(f"{where}checkpoint", note)
        if head is not None and head != store.head:  # a running node has published meanwhile
            store.head = head
        text = store.vkeys()
        if text is None:
            claims.add("keys", f"{where}vkeys", "the node's verifier keys", "no such file")
        claims.keys(f"{where}vkeys", text, store.size)
    except ChainError as error:
        claims.add("head", f"{where}checkpoint", "a head signed with both keys, and the keys", str(error))
        return None
    return store


def _bind(store: TileStore, size: int, root: bytes, last_hash: bytes, roots: Mapping[int, bytes]) -> None:
    """That ``last_hash`` is the last leaf under ``root``, and trees with ``roots`` are its beginnings: what low tiles
    say is nothing as long as it is not tied to the high ones, which the head's root binds. Raises ChainError.
    """
    path = inclusion_path(store.node, size - 1, size)
    verify_inclusion(index=size - 1, size=size, leaf_hash=last_hash, proof=path, root=root)
    for older, root_then in roots.items():
        path = consistency_path(store.node, older, size)
        verify_consistency(size1=older, size2=size, root1=root_then, root2=root, proof=path)


def audit_published(
    audit: Audit, check: PublishedCheck, claims: Claims, start: int, end: int, progress: Progress
) -> None:
    """Audit the published entries up to ``end - 1``, from ``start`` on; from 0 on when the keys have changed, since
    their changes must be followed.
    """
    begin = 0 if claims.changed_keys() else min(start, end)
    if begin > 0:
        try:
            tree, last_hash = check.begin_at(begin), check.store.node(0, begin - 1)
            roots = {size: check.store.root(size) for size in claims.watched() if size < begin}
            _bind(check.store, begin, tree.root(), last_hash, roots)
            audit.begin_at(begin, tree, last_hash)
            audit.roots.update(roots)
        except ChainError as error:
            claims.add("published", "tile", "hashes of the entries before", str(error))
            begin = 0
    audit_entries(audit, check, begin, end, progress)


def audit_entries(audit: Audit, check: PublishedCheck, begin: int, end: int, progress: Progress) -> None:
    """Audit the published entries ``begin`` to ``end - 1``, which follow on those that ``audit`` knows."""
    for columns, where in check.entries(begin, end):
        if audit.findings.count > MOST_FINDINGS:  # nobody may make a reader look for more than there is
            audit.gap(where, f"{MOST_FINDINGS} findings: the rest was not read")
            break
        if columns is None:
            audit.gap(where, where)
        else:
            audit.records(columns, [where] * len(columns.leaves))
        progress(audit.entries, end)
    progress(end, end)
