"""Every true proof is accepted, and no changed one is."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import ProofError
from chain.merkle import merkle
from chain.merkle.proof import verify_consistency, verify_inclusion
from tools import verify_weftos

LEAVES = [merkle.leaf_hash(number.to_bytes(4, "big")) for number in range(200)]
ROOTS = [merkle.root(LEAVES[:size]) for size in range(201)]


def test_every_proof_of_small_trees_verifies() -> None:
    for size2 in range(34):
        for size1 in range(size2 + 1):
            verify_consistency(
                size1=size1,
                size2=size2,
                root1=ROOTS[size1],
                root2=ROOTS[size2],
                proof=merkle.consistency_path(size1, LEAVES[:size2]),
            )
        for index in range(size2):
            verify_inclusion(
                index=index,
                size=size2,
                leaf_hash=LEAVES[index],
                proof=merkle.inclusion_path(index, LEAVES[:size2]),
                root=ROOTS[size2],
            )


@given(st.integers(1, 200), st.data())
def test_an_inclusion_proof_with_anything_changed_is_refused(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_path(index, LEAVES[:size])
    good: dict[str, Any] = {
        "index": index,
        "size": size,
        "leaf_hash": LEAVES[index],
        "proof": proof,
        "root": ROOTS[size],
    }
    verify_inclusion(**good)
    for bad in changed_proofs(proof, data):
        with pytest.raises(ProofError):
            verify_inclusion(**good | {"proof": bad})
    with pytest.raises(ProofError):
        verify_inclusion(**good | {"leaf_hash": flipped(LEAVES[index], data)})
    with pytest.raises(ProofError):
        verify_inclusion(**good | {"root": flipped(ROOTS[size], data)})
    other = data.draw(st.integers(-1, size + 1).filter(lambda value: value != index))
    with pytest.raises(ProofError):
        verify_inclusion(**good | {"index": other})


@given(st.integers(0, 200), st.data())
def test_a_consistency_proof_with_anything_changed_is_refused(size2: int, data: st.DataObject) -> None:
    size1 = data.draw(st.integers(0, size2))
    proof = merkle.consistency_path(size1, LEAVES[:size2])
    good: dict[str, Any] = {
        "size1": size1,
        "size2": size2,
        "root1": ROOTS[size1],
        "root2": ROOTS[size2],
        "proof": proof,
    }
    verify_consistency(**good)
    for bad in changed_proofs(proof, data):
        with pytest.raises(ProofError):
            verify_consistency(**good | {"proof": bad})
    with pytest.raises(ProofError):
        verify_consistency(**good | {"root1": flipped(ROOTS[size1], data)})
    if size1:  # from nothing, any tree is consistent
        with pytest.raises(ProofError):
            verify_consistency(**good | {"root2": flipped(ROOTS[size2], data)})


def changed_proofs(proof: list[bytes], data: st.DataObject) -> Iterator[list[bytes]]:
    """``proof`` with one bit changed, two hashes exchanged, one hash too many, too few, too short."""
    yield [*proof, bytes(32)]
    yield [bytes(32), *proof]
    if proof:
        yield proof[1:]
        yield proof[:-1]
        at = data.draw(st.integers(0, len(proof) - 1))
        yield [*proof[:at], flipped(proof[at], data), *proof[at + 1 :]]
        yield [*proof[:at], proof[at][:31], *proof[at + 1 :]]
    if len(proof) > 1:
        yield [proof[1], proof[0], *proof[2:]]


def flipped(value: bytes, data: st.DataObject) -> bytes:
    bit = data.draw(st.integers(0, 255))
    return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(32, "big")


def test_a_wrong_root_is_named_beside_the_right_one() -> None:
    proof = merkle.inclusion_path(3, LEAVES[:7])
    with pytest.raises(ProofError) as caught:
        verify_inclusion(index=3, size=7, leaf_hash=LEAVES[3], proof=proof, root=ROOTS[8])
    assert ROOTS[7].hex() in str(caught.value)
    assert ROOTS[8].hex() in str(caught.value)


def test_two_histories_of_one_size_are_named() -> None:
    with pytest.raises(ProofError, match=f"two roots of size 5: {ROOTS[5].hex()} and {ROOTS[6].hex()}"):
        verify_consistency(size1=5, size2=5, root1=ROOTS[5], root2=ROOTS[6], proof=[])


def test_a_proof_of_the_wrong_length_is_told_both_lengths() -> None:
    with pytest.raises(ProofError, match="leaf 0 of 8 has 1 hashes, must have 3"):
        verify_inclusion(index=0, size=8, leaf_hash=LEAVES[0], proof=[bytes(32)], root=ROOTS[8])
    with pytest.raises(ProofError, match="from 6 to 8 has 0 hashes, must have 3"):
        verify_consistency(size1=6, size2=8, root1=ROOTS[6], root2=ROOTS[8], proof=[])


@pytest.mark.parametrize(("size1", "size2"), [(-1, 3), (4, 3)])
def test_a_tree_that_shrinks_is_refused(size1: int, size2: int) -> None:
    with pytest.raises(ProofError, match=f"{size1} leaves cannot be the beginning of one of {size2}"):
        verify_consistency(size1=size1, size2=size2, root1=ROOTS[3], root2=ROOTS[3], proof=[])


def test_sizes_far_beyond_any_proof_are_refused_at_once() -> None:
    with pytest.raises(ProofError, match="must have 63"):
        verify_inclusion(index=0, size=2**63, leaf_hash=LEAVES[0], proof=[], root=ROOTS[1])


def test_a_hash_of_the_wrong_size_is_named() -> None:
    proof = merkle.inclusion_path(3, LEAVES[:7])
    with pytest.raises(ProofError, match="hash 1 of the proof has 33 bytes, must have 32"):
        verify_inclusion(
            index=3, size=7, leaf_hash=LEAVES[3], proof=[proof[0], bytes(33), proof[2]], root=ROOTS[7]
        )


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33)], ids=len)
def test_a_leaf_or_root_of_the_wrong_size_is_named(wrong: bytes) -> None:
    """In a tree of one leaf the two were only compared: anything was its own root."""
    for leaf, root, what in ((wrong, wrong, "the leaf's hash"), (LEAVES[0], wrong, "the head's root")):
        with pytest.raises(ProofError, match=f"{what} has {len(wrong)} bytes, must have 32"):
            verify_inclusion(index=0, size=1, leaf_hash=leaf, proof=[], root=root)
    for root1, root2, what in ((wrong, wrong, "older"), (ROOTS[1], wrong, "newer")):
        with pytest.raises(ProofError, match=f"the {what} head's root has {len(wrong)} bytes, must have 32"):
            verify_consistency(size1=1, size2=1, root1=root1, root2=root2, proof=[])


@pytest.mark.parametrize("length", [0, 31, 33])
def test_the_sceptics_script_demands_hashes_of_32_bytes_as_well(length: int) -> None:
    proof = merkle.inclusion_path(3, LEAVES[:7])
    head = verify_weftos.Head("some.log", 7, ROOTS[7], b"", [])
    verify_weftos.check_proof(LEAVES[3], 3, head, proof)
    for at in range(len(proof)):
        with pytest.raises(ValueError, match="not 3 hashes of 32 bytes each"):
            verify_weftos.check_proof(LEAVES[3], 3, head, [*proof[:at], bytes(length), *proof[at + 1 :]])
