from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.merkle import merkle, tree
from chain.merkle.proof import verify_consistency, verify_inclusion
from chain.tiles.tile_paths import (
    body_piece,
    entry_bundle,
    hash_tile,
    parse_piece,
    parse_width,
    spelled,
    tiles_of,
)

LEAVES = [sha256(number.to_bytes(4, "big")).digest() for number in range(5000)]


class Nodes:
    """Every complete subtree of a tree, and how many were asked for."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.rows = [leaves]
        while len(self.rows[-1]) > 1:
            row = self.rows[-1]
            self.rows.append([merkle.node_hash(row[at], row[at + 1]) for at in range(0, len(row) - 1, 2)])
        self.asked = 0

    def __call__(self, level: int, index: int) -> bytes:
        self.asked += 1
        return self.rows[level][index]


def test_every_inclusion_path_up_to_70_leaves_is_that_of_the_reference() -> None:
    for size in range(1, 71):
        node = Nodes(LEAVES[:size])
        for index in range(size):
            assert tree.inclusion_path(node, index, size) == merkle.inclusion_path(index, LEAVES[:size])


def test_every_consistency_path_up_to_70_leaves_is_that_of_the_reference() -> None:
    for size2 in range(71):
        node = Nodes(LEAVES[:size2])
        for size1 in range(size2 + 1):
            found = tree.consistency_path(node, size1, size2)
            assert found == merkle.consistency_path(size1, LEAVES[:size2])


@given(st.data())
def test_paths_of_larger_trees_verify_and_ask_for_few_nodes(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(LEAVES)))
    size1 = data.draw(st.integers(1, size))
    index = data.draw(st.integers(0, size - 1))
    node = Nodes(LEAVES[:size])
    root = tree.compact_range(node, size).root()
    assert root == merkle.root(LEAVES[:size])
    node.asked = 0
    path = tree.inclusion_path(node, index, size)
    assert node.asked <= 2 * size.bit_length()
    verify_inclusion(index=index, size=size, leaf_hash=LEAVES[index], proof=path, root=root)
    node.asked = 0
    proof = tree.consistency_path(node, size1, size)
    assert node.asked <= 3 * size.bit_length()
    root1 = merkle.root(LEAVES[:size1])
    verify_consistency(size1=size1, size2=size, root1=root1, root2=root, proof=proof)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_a_leaf_that_is_not_there_has_no_path(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="there is no leaf"):
        tree.inclusion_path(Nodes(LEAVES[:3]), index, size)


@pytest.mark.parametrize(("size1", "size2"), [(-1, 3), (4, 3)])
def test_a_larger_tree_is_no_beginning(size1: int, size2: int) -> None:
    with pytest.raises(ValueError, match="is not the beginning"):
        tree.consistency_path(Nodes(LEAVES[:3]), size1, size2)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "000"), (7, "007"), (999, "999"), (1000, "x001/000"), (1_234_067, "x001/x234/067")],
)
def test_numbers_are_spelled_in_threes(number: int, text: str) -> None:
    assert spelled(number) == text


def test_paths_are_those_of_the_tile_format() -> None:
    assert hash_tile(0, 0) == "tile/0/000"
    assert hash_tile(1, 1234, 17) == "tile/1/x001/234.p/17"
    assert entry_bundle(5, 255) == "tile/entries/005.p/255"
    assert body_piece(5, 0, 17) == "tile/bodies/005.p/000-017"


def test_a_tree_has_a_tile_for_each_level_that_holds_a_hash() -> None:
    assert list(tiles_of(0)) == []
    assert list(tiles_of(1)) == [(0, 0, 1)]
    assert list(tiles_of(256)) == [(0, 0, 256), (1, 0, 1)]
    assert list(tiles_of(70_000)) == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]


@pytest.mark.parametrize("name", ["0-1", "000-000", "017-003", "000-257", "a00-001", "000-001x", ""])
def test_a_name_that_is_no_piece(name: str) -> None:
    assert parse_piece(name) is None
    assert parse_piece("003-017") == (3, 17)


@pytest.mark.parametrize("name", ["0", "01", "256", "1x", "", "-1"])
def test_a_name_that_is_no_width(name: str) -> None:
    assert parse_width(name) is None
    assert parse_width("255") == 255
