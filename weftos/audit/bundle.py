"""Writes bundles: all entries under the newest full head, or some of them with a proof of each.

What is newer than that head is left out, since nothing that both keys have signed speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from chain.entry.reader import EntryRecord
from chain.keys.rotation import KIND as KEY_ROTATED
from chain.keys.rotation import vkeys_text
from chain.merkle.tree import inclusion_path
from chain.tiles.bundle import BundleHead, BundleRecord, write_bundle
from weftos.audit.auditor import Auditor
from weftos.audit.select import Selection
from weftos.audit.tree import LedgerTree
from weftos.errors import WeftosError
from weftos.json_object import Json

ERASE = "erase"


def write_selected(auditor: Auditor, selection: Selection, out: BinaryIO) -> Json:
    """Write a bundle of what is selected, full when that is everything. Raises WeftosError without a full head."""
    tree = LedgerTree(auditor)
    signed = tree.newest_head()
    if signed is None:
        raise WeftosError("nothing is under both signatures yet: a bundle would prove nothing", "unavailable")
    size = signed.head.size
    rotations = [record.entry.seq for record in _rotations(auditor, tree, size)]
    vkeys = vkeys_text(tree.pairs[: len(rotations) + 1])
    whole = selection.everything
    if whole:
        count = size
        records = _bundled(auditor.records(), size, lambda seq: ())
    else:
        wanted = {*rotations, *_selected(auditor, selection, size)}
        count = len(wanted)
        chosen = (record for record in auditor.records(min(wanted, default=0)) if record.entry.seq in wanted)
        records = _bundled(chosen, size, lambda seq: tuple(inclusion_path(tree.node, seq, size)))
    write_bundle(out, BundleHead(signed.head.origin, size, whole, count, signed.note, vkeys), records)
    return {
        "entries": count,
        "kind": "full" if whole else "partial",
        "size": size,
        "left_out": auditor.size - size if whole else 0,
    }


def _selected(auditor: Auditor, selection: Selection, size: int) -> set[int]:
    """The entries below ``size`` that are selected; with an erased one all that say what was erased."""
    wanted, erased = set(), False
    for record in auditor.select(selection):
        if record.entry.seq < size:
            wanted.add(record.entry.seq)
            erased = erased or record.erased
    if erased:
        erasures = auditor.select(Selection(kind=ERASE, last=size - 1))
        wanted.update(record.entry.seq for record in erasures)
    return wanted


def _rotations(auditor: Auditor, tree: LedgerTree, size: int) -> Iterator[EntryRecord]:
    """The changes of keys below ``size``; without any the entries are not read for it."""
    if len(tree.pairs) == 1:
        return iter(())
    return auditor.select(Selection(kind=KEY_ROTATED, last=size - 1))


def _bundled(
    records: Iterator[EntryRecord], size: int, proof: Callable[[int], tuple[bytes, ...]]
) -> Iterator[BundleRecord]:
    for record in records:
        if record.entry.seq >= size:
            return
        yield BundleRecord(record.leaf, record.salt, record.body_bytes, proof(record.entry.seq))
