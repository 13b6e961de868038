"""Inclusion and consistency paths out of stored node hashes (RFC 6962, section 2.1), with O(log n) of them.

``node(level, index)`` is the hash over leaves ``index * 2**level`` to ``(index + 1) * 2**level - 1``, all of which must
be in the tree. A subtree at the right edge that is not complete is put together from complete ones.
"""

from __future__ import annotations

from collections.abc import Callable

from chain.merkle.merkle import EMPTY_ROOT, CompactRange, node_hash

Node = Callable[[int, int], bytes]


def range_nodes(size: int) -> list[tuple[int, int]]:
    """Level and index of the complete subtrees that make up a tree of ``size`` leaves, largest first."""
    nodes, start = [], 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            nodes.append((level, start >> level))
            start += 1 << level
    return nodes


def compact_range(node: Node, size: int) -> CompactRange:
    """The compact range of the first ``size`` leaves."""
    return CompactRange.from_nodes(size, [node(level, index) for level, index in range_nodes(size)])


def subtree(node: Node, start: int, end: int) -> bytes:
    """The hash of the subtree over leaves ``start`` to ``end - 1``, one that the tree's splits lead to."""
    if start == end:
        return EMPTY_ROOT
    hashes = []
    for level, index in range_nodes(end - start):
        hashes.append(node(level, (start >> level) + index))
    top = hashes[-1]
    for left in reversed(hashes[:-1]):
        top = node_hash(left, top)
    return top


def inclusion_path(node: Node, index: int, size: int) -> list[bytes]:
    """The path of leaf ``index`` in the tree of ``size`` leaves, lowest first. Raises ValueError."""
    if not 0 <= index < size:
        raise ValueError(f"there is no leaf {index} in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(subtree(node, middle, end))
            end = middle
        else:
            path.append(subtree(node, start, middle))
            start = middle
    path.reverse()
    return path


def consistency_path(node: Node, size1: int, size2: int) -> list[bytes]:
    """The proof that the tree of ``size1`` leaves is the beginning of that of ``size2``. Raises ValueError."""
    if not 0 <= size1 <= size2:
        raise ValueError(f"a tree of {size1} leaves is not the beginning of one of {size2}")
    if size1 in (0, size2):
        return []
    path: list[bytes] = []
    start, end, whole = 0, size2, True
    while size1 < end:
        middle = start + _split(end - start)
        if size1 <= middle:
            path.append(subtree(node, middle, end))
            end = middle
        else:
            path.append(subtree(node, start, middle))
            start, whole = middle, False
    if not whole:
        path.append(subtree(node, start, end))
    path.reverse()
    return path


def _split(count: int) -> int:
    """The largest power of two below ``count``."""
    return 1 << (count - 1).bit_length() - 1
