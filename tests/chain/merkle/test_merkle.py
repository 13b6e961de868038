"""The tree against a slow tree that is RFC 6962's text in code (its published answers: ``test_known_answers``)."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.merkle import merkle


def split(size: int) -> int:
    """The largest power of two below ``size``."""
    k = 1
    while k * 2 < size:
        k *= 2
    return k


def slow_root(leaves: list[bytes]) -> bytes:
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha256(b"\x01" + slow_root(leaves[:k]) + slow_root(leaves[k:])).digest()


def slow_inclusion(index: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*slow_inclusion(index, leaves[:k]), slow_root(leaves[k:])]
    return [*slow_inclusion(index - k, leaves[k:]), slow_root(leaves[:k])]


def slow_consistency(size1: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    if size1 == len(leaves):
        return [] if whole else [slow_root(leaves)]
    k = split(len(leaves))
    if size1 <= k:
        return [*slow_consistency(size1, leaves[:k], whole), slow_root(leaves[k:])]
    return [*slow_consistency(size1 - k, leaves[k:], False), slow_root(leaves[:k])]


def numbered(count: int) -> list[bytes]:
    return [merkle.leaf_hash(number.to_bytes(4, "big")) for number in range(count)]


def range_of(leaves: list[bytes]) -> merkle.CompactRange:
    tree = merkle.CompactRange()
    for leaf in leaves:
        tree.append(leaf)
    return tree


def test_the_empty_tree_has_the_root_of_the_rfc() -> None:
    assert sha256().digest() == merkle.EMPTY_ROOT
    assert (
        merkle.root([])
        == merkle.CompactRange().root()
        == merkle.RangeTree((), 0, ()).root()
        == merkle.EMPTY_ROOT
    )


def test_every_small_tree_is_the_slow_trees() -> None:
    for size in range(1, 34):
        leaves = numbered(size)
        assert merkle.root(leaves) == slow_root(leaves)
        for index in range(size):
            assert merkle.inclusion_path(index, leaves) == slow_inclusion(index, leaves)
            assert merkle.consistency_path(index + 1, leaves) == slow_consistency(index + 1, leaves)


@given(st.integers(1, 300), st.data())
def test_paths_and_root_from_a_range_are_the_slow_trees(size: int, data: st.DataObject) -> None:
    before = data.draw(st.integers(0, size - 1))
    index = data.draw(st.integers(before, size - 1))
    leaves = numbered(size)
    nodes = range_of(leaves[:before]).nodes
    path = merkle.inclusion_path_from_range(nodes, before, leaves[before:], index)
    assert path == slow_inclusion(index, leaves)
    assert merkle.RangeTree(nodes, before, leaves[before:]).root() == slow_root(leaves)


@given(st.integers(1, 300), st.data())
def test_consistency_paths_are_the_slow_trees(size: int, data: st.DataObject) -> None:
    size1 = data.draw(st.integers(1, size))
    leaves = numbered(size)
    assert merkle.consistency_path(size1, leaves) == slow_consistency(size1, leaves)


@given(st.integers(0, 300), st.integers(0, 40))
def test_a_restored_range_grows_as_the_first_would_have(size: int, more: int) -> None:
    leaves = numbered(size + more)
    first = range_of(leaves[:size])
    restored = merkle.CompactRange.from_nodes(first.size, first.nodes)
    for leaf in leaves[size:]:
        restored.append(leaf)
    assert restored.size == size + more
    assert restored.root() == slow_root(leaves)
    assert first.root() == slow_root(leaves[:size])


def test_a_copy_is_independent() -> None:
    tree = range_of(numbered(5))
    copy = tree.copy()
    copy.append(bytes(32))
    assert (tree.size, tree.root()) == (5, slow_root(numbered(5)))
    assert (copy.size, copy.root()) == (6, slow_root([*numbered(5), bytes(32)]))


def test_no_path_is_longer_than_the_tree_is_high() -> None:
    leaves = numbered(1000)
    tree = merkle.RangeTree((), 0, leaves)
    assert max(len(tree.inclusion_path(index)) for index in range(1000)) == 10


@pytest.mark.parametrize(
    ("size", "nodes"), [(0, [bytes(32)]), (3, [bytes(32)]), (1, [bytes(31)]), (-1, []), (4, [bytes(32)] * 2)]
)
def test_nodes_that_cannot_belong_to_a_size_are_refused(size: int, nodes: list[bytes]) -> None:
    with pytest.raises(ValueError, match=f"cannot be the compact range of {size} leaves"):
        merkle.CompactRange.from_nodes(size, nodes)


@pytest.mark.parametrize("index", [-1, 0, 4, 7])
def test_a_leaf_outside_the_new_ones_has_no_path(index: int) -> None:
    leaves = numbered(7)
    with pytest.raises(IndexError, match=f"leaf {index} is not among the leaves 5 to 6"):
        merkle.inclusion_path_from_range(range_of(leaves[:5]).nodes, 5, leaves[5:], index)


def test_consistency_from_a_larger_tree_or_a_range_is_refused() -> None:
    leaves = numbered(7)
    with pytest.raises(IndexError, match="no consistency path from size 8"):
        merkle.consistency_path(8, leaves)
    with pytest.raises(IndexError, match="no consistency path from size 6"):
        merkle.RangeTree(range_of(leaves[:4]).nodes, 4, leaves[4:]).consistency_path(6)
