"""The Merkle tree of RFC 6962 (section 2.1): hashes, roots, paths.

A tree of size n is cut at the largest power of two below n, again and again. So every *complete* subtree
covers leaves ``[i * 2**level, (i + 1) * 2**level)`` and has a place ``(level, i)`` that never changes while
the tree grows; only the right edge is provisional. Two things follow, and this file is made of them:

* A log needs to remember only the complete subtrees that the bits of its size name, largest first: the
  *compact range* (:class:`CompactRange`). Appending merges from the right, as a binary counter carries.
* Given the compact range before some new leaves, every hash that a path of a new leaf needs is either in that
  range or made of new leaves. :class:`RangeTree` holds the levels; each path is then a walk up them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 || data)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return sha256(b"\x01" + left + right).digest()


def next_level(row: Sequence[bytes]) -> list[bytes]:
    """The hashes one level up; ``row`` holds an even number."""
    pairs = iter(row)
    return [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]


def root(leaf_hashes: Iterable[bytes]) -> bytes:
    """The root over ``leaf_hashes``; :data:`EMPTY_ROOT` for none."""
    tree = CompactRange()
    for leaf in leaf_hashes:
        tree.append(leaf)
    return tree.root()


class CompactRange:
    """The complete subtrees of a tree of ``size`` leaves.

    ``nodes`` holds one for each set bit of ``size``, largest (leftmost) first.
    """

    __slots__ = ("nodes", "size")

    def __init__(self) -> None:
        self.size = 0
        self.nodes: list[bytes] = []

    @classmethod
    def from_nodes(cls, size: int, nodes: Sequence[bytes]) -> CompactRange:
        """A range stored earlier. Raises ValueError when ``nodes`` cannot belong to ``size``."""
        if size < 0 or len(nodes) != size.bit_count() or any(len(node) != HASH_BYTES for node in nodes):
            raise ValueError(f"{len(nodes)} nodes cannot be the compact range of {size} leaves")
        tree = cls()
        tree.size = size
        tree.nodes = list(nodes)
        return tree

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        nodes = self.nodes
        carry = self.size
        while carry & 1:
            leaf = sha256(b"\x01" + nodes.pop() + leaf).digest()
            carry >>= 1
        nodes.append(leaf)
        self.size += 1

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes, level by level: the same as to append each."""
        row = [*leaves]
        left: list[bytes] = []  # the complete subtrees that find no pair, smallest first
        carry = self.size
        self.size += len(row)
        while row:
            if carry & 1:
                row.insert(0, self.nodes.pop())
            if len(row) & 1:
                left.append(row.pop())
            row = next_level(row)
            carry >>= 1
        self.nodes += reversed(left)

    def root(self) -> bytes:
        """The root of the tree as it stands."""
        if not self.nodes:
            return EMPTY_ROOT
        top = self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            top = node_hash(node, top)
        return top

    def copy(self) -> CompactRange:
        """An independent copy."""
        tree = CompactRange()
        tree.size = self.size
        tree.nodes = self.nodes.copy()
        return tree


class RangeTree:
    """The tree ``before + new_leaves``, built once in time linear in the new leaves.

    Every path is then logarithmic. ``before`` is the compact range (its ``nodes``) of the first
    ``size_before`` leaves.
    """

    __slots__ = ("_levels", "_starts", "_tails", "size", "size_before")

    def __init__(self, before: Sequence[bytes], size_before: int, new_leaves: Sequence[bytes]) -> None:
        known = CompactRange.from_nodes(size_before, before).nodes
        self.size_before = size_before
        self.size = size_before + len(new_leaves)
        self._levels: list[list[bytes]] = []
        self._starts: list[int] = []
        # _tails[level]: root of the leaves behind the last complete subtree of that level, None without any.
        self._tails: list[bytes | None] = []
        row = list(new_leaves)
        tail: bytes | None = None
        for level in range(self.size.bit_length()):
            start = size_before >> level
            if start & 1:
                row.insert(0, known.pop())
                start -= 1
            self._levels.append(row)
            self._starts.append(start)
            self._tails.append(tail)
            if (self.size >> level) & 1:
                tail = row[-1] if tail is None else node_hash(row[-1], tail)
            row = next_level(row[: len(row) // 2 * 2])
        self._tails.append(tail)

    def root(self) -> bytes:
        """The root of the whole tree."""
        return self._tails[-1] or EMPTY_ROOT

    def inclusion_path(self, index: int) -> list[bytes]:
        """The audit path (RFC 6962 section 2.1.1) of a new leaf, lowest first.

        Raises IndexError for any other leaf.
        """
        if not self.size_before <= index < self.size:
            raise IndexError(f"leaf {index} is not among the leaves {self.size_before} to {self.size - 1}")
        return self._path(0, index)

    def consistency_path(self, size1: int) -> list[bytes]:
        """The proof (RFC 6962 section 2.1.2) that the first ``size1`` leaves stayed as they were.

        Raises IndexError, also for a tree whose ``size_before`` is not 0.
        """
        if self.size_before or not 0 <= size1 <= self.size:
            raise IndexError(
                f"no consistency path from size {size1} in leaves {self.size_before} to {self.size - 1}"
            )
        if size1 in (0, self.size):
            return []
        level = (size1 & -size1).bit_length() - 1
        index = (size1 - 1) >> level
        seed = [] if size1.bit_count() == 1 else [self._levels[level][index]]
        return seed + self._path(level, index)

    def _path(self, level: int, index: int) -> list[bytes]:
        """The siblings from the subtree at ``(level, index)`` up to the root."""
        path: list[bytes] = []
        for at in range(level, len(self._levels)):
            sibling = index ^ 1
            complete = self.size >> at
            if sibling < complete:
                path.append(self._levels[at][sibling - self._starts[at]])
            elif sibling == complete and (tail := self._tails[at]) is not None:
                path.append(tail)
            index >>= 1
        return path


def inclusion_path(index: int, leaf_hashes: Sequence[bytes]) -> list[bytes]:
    """The audit path of leaf ``index`` in the tree over all ``leaf_hashes``. Raises IndexError."""
    return RangeTree((), 0, leaf_hashes).inclusion_path(index)


def consistency_path(size1: int, leaf_hashes: Sequence[bytes]) -> list[bytes]:
    """The consistency proof from the first ``size1`` leaves to all ``leaf_hashes``. Raises IndexError."""
    return RangeTree((), 0, leaf_hashes).consistency_path(size1)


def inclusion_path_from_range(
    before: Sequence[bytes], size_before: int, new_leaves: Sequence[bytes], index: int
) -> list[bytes]:
    """The audit path of ``index >= size_before`` in the tree ``before + new_leaves``.

    For several paths of one group build one :class:`RangeTree` and ask it.
    """
    return RangeTree(before, size_before, new_leaves).inclusion_path(index)
