"""Checking RFC 6962 proofs, by the walk that RFC 9162 (sections 2.1.3.2 and 2.1.4.2) spells out.

Nothing here needs the tree: sizes, hashes and roots in, nothing out, or :class:`ProofError` with both sides
in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from chain.errors import ProofError
from chain.merkle.merkle import EMPTY_ROOT, HASH_BYTES, node_hash


def verify_inclusion(*, index: int, size: int, leaf_hash: bytes, proof: Sequence[bytes], root: bytes) -> None:
    """That ``leaf_hash`` is leaf ``index`` of the tree of ``size`` leaves under ``root``.

    Raises :class:`ProofError`.
    """
    if not 0 <= index < size:
        raise ProofError(f"leaf {index} cannot be in a tree of {size} leaves")
    _check_hash("the leaf's hash", leaf_hash)
    _check_hash("the head's root", root)
    _check_hashes(proof)
    # Below `inner` levels the path turns both ways; above, every sibling lies to the left.
    inner = (index ^ (size - 1)).bit_length()
    wanted = inner + (index >> inner).bit_count()
    if len(proof) != wanted:
        raise ProofError(
            f"inclusion proof of leaf {index} of {size} has {len(proof)} hashes, must have {wanted}"
        )
    top = leaf_hash
    for level, sibling in enumerate(proof):
        from_left = level >= inner or (index >> level) & 1
        top = node_hash(sibling, top) if from_left else node_hash(top, sibling)
    if top != root:
        raise ProofError(
            f"inclusion proof of leaf {index} of {size} leads to root {top.hex()}, head says {root.hex()}"
        )


def verify_consistency(*, size1: int, size2: int, root1: bytes, root2: bytes, proof: Sequence[bytes]) -> None:
    """That the tree (``size1``, ``root1``) is a beginning of (``size2``, ``root2``).

    Raises :class:`ProofError`.
    """
    if not 0 <= size1 <= size2:
        raise ProofError(f"a tree of {size1} leaves cannot be the beginning of one of {size2}")
    _check_hash("the older head's root", root1)
    _check_hash("the newer head's root", root2)
    _check_hashes(proof)
    wanted = _consistency_length(size1, size2)
    if len(proof) != wanted:
        raise ProofError(
            f"consistency proof from {size1} to {size2} has {len(proof)} hashes, must have {wanted}"
        )
    if size1 == 0 and root1 != EMPTY_ROOT:
        raise ProofError(f"root of no leaves is {EMPTY_ROOT.hex()}, head says {root1.hex()}")
    if size1 == size2 and root1 != root2:
        raise ProofError(f"two roots of size {size1}: {root1.hex()} and {root2.hex()}")
    if not wanted:
        return
    top1, top2 = _walk(size1, size2, root1, proof)
    if top1 != root1:
        raise ProofError(
            f"consistency proof from {size1} leads to root {top1.hex()}, older head says {root1.hex()}"
        )
    if top2 != root2:
        raise ProofError(
            f"consistency proof to {size2} leads to root {top2.hex()}, newer head says {root2.hex()}"
        )


def _walk(size1: int, size2: int, root1: bytes, proof: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Both roots, as ``proof`` makes them."""
    whole = size1.bit_count() == 1  # then the old root is itself the first subtree, and not in the proof
    first, rest = (root1, proof) if whole else (proof[0], proof[1:])
    level = (size1 & -size1).bit_length() - 1
    index, last = (size1 - 1) >> level, (size2 - 1) >> level
    top1 = top2 = first
    for sibling in rest:
        while not index & 1 and index == last:  # no sibling on this level
            index, last = index >> 1, last >> 1
        if index & 1:
            top1 = node_hash(sibling, top1)
            top2 = node_hash(sibling, top2)
        else:
            top2 = node_hash(top2, sibling)
        index, last = index >> 1, last >> 1
    return top1, top2


def _consistency_length(size1: int, size2: int) -> int:
    """How many hashes the proof from ``size1`` to ``size2`` has."""
    if size1 in (0, size2):
        return 0
    level = (size1 & -size1).bit_length() - 1
    index, last = (size1 - 1) >> level, (size2 - 1) >> level
    inner = (index ^ last).bit_length()
    return inner + (index >> inner).bit_count() + (size1.bit_count() > 1)


def _check_hashes(proof: Sequence[bytes]) -> None:
    for at, item in enumerate(proof):
        _check_hash(f"hash {at} of the proof", item)


def _check_hash(what: str, data: bytes) -> None:
    if len(data) != HASH_BYTES:
        raise ProofError(f"{what} has {len(data)} bytes, must have {HASH_BYTES}")
