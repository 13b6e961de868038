"""Verifies a published ledger by itself: a copy of ``ledger/``, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from chain.audit import Audit, Finding
from chain.claims import Claims
from chain.disk import Disk
from chain.errors import ChainError
from chain.merkle import CompactRange
from chain.note import VerifierKey
from chain.published_check import PublishedCheck
from chain.rotation import vkeys_text
from chain.tile_paths import WIDTH
from chain.tile_store import TileStore
from chain.verify import Report

Progress = Callable[[int, int], None]


def verify_tiles(
    directory: Path,
    keys: Sequence[str] = (),
    progress: Progress | None = None,
    disk: Disk | None = None,
    *,
    seen: Sequence[bytes] = (),
    start: int = 0,
) -> Report:
    """Verify the published ledger in ``directory`` under ``keys``, or else under its own, as `chain.verify.verify`.

    ``progress(done, total)`` is called with entries. Raises VerifierKeyError, OSError; everything else is a finding.
    """
    disk = disk or Disk()
    claims = Claims([VerifierKey.parse(key) for key in keys])
    check: PublishedCheck | None = None
    try:
        store = TileStore(directory, disk)
        note = store.checkpoint()
        text = store.vkeys()
        if note is None:
            claims.add("file", "checkpoint", "a head signed with both keys", "no such file")
        else:
            claims.head("checkpoint", note)
            check = PublishedCheck(directory, disk, store)
        if text is None:
            claims.add("keys", "vkeys", "the node's verifier keys", "no such file")
        claims.keys("vkeys", text, store.size)
    except ChainError as error:
        claims.add("head", "checkpoint", "a head signed with both keys, and the keys", str(error))
    claims.settle_keys()
    for note in seen:
        claims.head("the head seen elsewhere", note, foreign=True)
    newest = claims.newest()
    origin = claims.history.origin if claims.history else newest.head.origin if newest else ""
    audit = Audit(origin, claims.history, claims.watched(), check.follow if check else None)
    if check is not None:
        _feed(audit, check, claims, start, progress or (lambda done, total: None))
    audit.finish()
    claims.judge(audit)
    if check is not None:
        check.finish()
    return report_of(audit, claims, check.findings if check else [])


def _feed(audit: Audit, check: PublishedCheck, claims: Claims, start: int, progress: Progress) -> None:
    begin = 0
    if 0 < start <= check.size and not claims.changed_keys():
        try:
            tree = CompactRange.from_nodes(start, check.store.compact_range(start).nodes)
            audit.begin_at(start, tree, check.store.node(0, start - 1))
            check.begin_at(start)
            begin = start
        except ChainError as error:
            claims.add("published", "tile", "hashes of the entries before", str(error))
    for raw, where in check.entries(begin, check.size):
        if raw is None:
            audit.gap(where, "a bundle of entries", where, lost=True)
        else:
            audit.record(raw, where)
        if not audit.entries % WIDTH:
            progress(audit.entries - begin, check.size - begin)
    progress(check.size - begin, check.size - begin)


def report_of(audit: Audit, claims: Claims, more: Sequence[Finding] = ()) -> Report:
    """What was found of a ledger that is nothing but entries under one full head."""
    newest = claims.newest()
    size = newest.head.size if newest else 0
    return Report(
        origin=audit.origin,
        entries=audit.entries,
        size=size,
        root=audit.tree.root(),
        full_size=size,
        provisional=max(0, audit.entries - size),
        torn_bytes=0,
        boots=audit.boots,
        closed=False,
        pinned=bool(claims.pinned),
        published=size,
        rotations=claims.history.rotations if claims.history else 0,
        erased=audit.erased,
        note=newest.note if newest else b"",
        vkeys=vkeys_text(claims.history.pairs) if claims.history else b"",
        open_calls=sorted(audit.open_calls.values()),
        findings=[*claims.findings, *audit.findings, *more],
    )
