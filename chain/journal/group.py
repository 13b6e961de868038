"""Group commit, the pure part: which commits go into one frame, and what that frame says."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from chain.journal.sequencer import Batch, Written
from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from chain.merkle.merkle import CompactRange, RangeTree
from chain.proofs.receipt import Receipt

GROUP_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Group:
    """What one frame made durable.

    first_seq, size: its entries are ``first_seq`` to ``size - 1``. note: the newest head when it was written;
    of this very size when the group has entries. before: the tree's nodes (compact range) before its first
    entry.
    """

    number: int
    first_seq: int
    size: int
    note: bytes
    leaf_hashes: tuple[bytes, ...]
    before: tuple[bytes, ...]
    entries: tuple[Written, ...]

    def receipt(self, written: Written) -> Receipt:
        """The proof that ``written``, an entry of this group, is in the tree of the group's head."""
        seq = written.entry.seq
        return Receipt(written.leaf, seq, self.size, tuple(self._tree.inclusion_path(seq)), self.note)

    @cached_property
    def _tree(self) -> RangeTree:
        return RangeTree(self.before, self.first_seq, self.leaf_hashes)


class HasBatch(Protocol):
    """``keys``: those that sign from this commit on, None for no change; such a commit has a group to itself."""

    batch: Batch
    keys: Keys | None


_Waiting = TypeVar("_Waiting", bound=HasBatch)


def take_group(pending: deque[_Waiting], limit_bytes: int = GROUP_BYTES) -> list[_Waiting]:
    """Take from the left what goes into the next frame: at least one, no more once ``limit_bytes`` are reached,
    and a change of keys alone.
    """
    taken: list[_Waiting] = []
    size = 0
    while pending and size < limit_bytes:
        if taken and (taken[0].keys is not None or pending[0].keys is not None):
            break
        first = pending.popleft()
        taken.append(first)
        size += first.batch.bytes
    return taken


def head_text(origin: str, size: int, nodes: Sequence[bytes]) -> bytes:
    """What is signed for the tree of ``size`` leaves with those compact range nodes."""
    return TreeHead(origin, size, CompactRange.from_nodes(size, nodes).root()).text()
