"""The Merkle tree of a ledger in a data directory, and the signed heads over it: what proofs are made of.

Nodes come from the published tiles, a logarithmic number of reads for a proof; only what is not published yet is
hashed from the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from chain.entry.reader import HeadRecord
from chain.keys.key_change import public_file
from chain.keys.keys import VKEYS_FILE, load_pairs
from chain.keys.rotation import KeyPair, parse_vkeys
from chain.merkle import tree
from chain.merkle.head import TreeHead, parse_head
from chain.merkle.merkle import node_hash
from chain.notes.note import VerifierKey, parse
from chain.notes.slots import HeadSlots, read_full_head
from weftos.audit.auditor import Auditor
from weftos.errors import WeftosError


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A full head with its note; both signatures were checked."""

    head: TreeHead
    note: bytes


class LedgerTree:
    """Any node of the tree over the ledger's entries, and its newest heads."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        self._tiles = auditor.history.tiles
        self._published = self._tiles.size
        self._made: dict[tuple[int, int], bytes] = {}

    def node(self, level: int, index: int) -> bytes:
        """The hash over leaves ``index * 2**level`` up to the next such number, all of which must be there."""
        if (index + 1) << level <= self._published:
            return self._tiles.node(level, index)
        if level == 0:
            return self._unpublished[index - self._published]
        found = self._made.get((level, index))
        if found is None:
            found = node_hash(self.node(level - 1, 2 * index), self.node(level - 1, 2 * index + 1))
            self._made[level, index] = found
        return found

    def root(self, size: int) -> bytes:
        """The root over the first ``size`` entries."""
        return tree.compact_range(self.node, size).root()

    def head_over(self, seq: int) -> SignedHead:
        """The newest published full head when it covers entry ``seq``, else the newest of the journal. Raises
        WeftosError when none covers it yet.
        """
        if seq < self._published and (note := self._tiles.checkpoint()) is not None:
            return self._signed(note)
        newest = self.newest_head()
        if newest is None or newest.head.size <= seq:
            raise WeftosError(
                f"entry {seq} is not under both signatures yet: try again in a moment, while the node runs",
                "unavailable",
            )
        return newest

    def newest_head(self) -> SignedHead | None:
        """The full head that covers most, published or not; None before the first one."""
        kept = HeadSlots(self._auditor.data / "heads", self._auditor.disk).load(
            *(pair.both for pair in self.pairs)
        )
        note = self._tiles.checkpoint()
        if note is not None and (kept is None or kept.head.size < parse_head(parse(note).text).size):
            return self._signed(note)
        return SignedHead(kept.head, kept.note) if kept is not None else None

    def heads_of(self, sizes: set[int]) -> dict[int, SignedHead]:
        """The full heads of exactly these sizes, as far as they are kept."""
        return self._auditor.history.settled(lambda: self._heads_of(sizes))

    def _heads_of(self, sizes: set[int]) -> dict[int, SignedHead]:
        found: dict[int, SignedHead] = {}
        for note in self._notes():
            size = parse_head(parse(note).text).size
            if size in sizes and size not in found:
                found[size] = self._signed(note)
        return found

    @cached_property
    def pairs(self) -> tuple[KeyPair, ...]:
        """All keys that the directory claims for its node."""
        directory = (self._auditor.data / public_file(self._auditor.data, self._auditor.disk)).parent
        if VKEYS_FILE in self._auditor.disk.names(directory):
            return load_pairs(directory)
        return parse_vkeys(self._tiles.vkeys() or b"")

    @property
    def keys(self) -> list[VerifierKey]:
        return [key for pair in self.pairs for key in pair.both]

    @cached_property
    def _unpublished(self) -> list[bytes]:
        return [record.leaf_hash for record in self._auditor.records(self._published)]

    def _notes(self) -> Iterator[bytes]:
        """Every full head that is kept: published, in the slots, in the journal."""
        if (note := self._tiles.checkpoint()) is not None:
            yield note
        yield from HeadSlots(self._auditor.data / "heads", self._auditor.disk).notes().values()
        for group in self._auditor.history.journal().groups():
            yield from (record.note for record in group.records if isinstance(record, HeadRecord))

    def _signed(self, note: bytes) -> SignedHead:
        ids = {line.key_id for line in parse(note).signatures}
        signers = next((pair for pair in self.pairs if pair.ed25519.key_id in ids), self.pairs[-1])
        full = read_full_head(note, signers.both)
        return SignedHead(full.head, full.note)
