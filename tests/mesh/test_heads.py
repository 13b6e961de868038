"""Peers' heads: kept over restarts, sizes never fall, contradictions become evidence."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from chain.head import TreeHead
from chain.note import join_note
from mesh.errors import MeshFileError, PeerHeadError
from mesh.heads import PeerHeads
from mesh.identity import Identity
from tests.mesh.core_nodes import ALICE, BOB

VKEYS = (ALICE.keys.ed25519, ALICE.keys.mldsa)


@cache  # an ML-DSA signature is another each time
def note(size: int, root: bytes = bytes(32), by: Identity = ALICE, origin: str = "") -> bytes:
    text = TreeHead(origin or by.origin, size, root).text()
    return join_note(text, by.keys.ed25519_line(text), by.keys.mldsa_line(text))


def test_the_newest_head_is_kept_also_by_the_next_boot(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path / "heads")
    assert heads.of(ALICE.origin) is None
    assert heads.take(ALICE.origin, VKEYS, note(5)) == TreeHead(ALICE.origin, 5, bytes(32))
    assert heads.take(ALICE.origin, VKEYS, note(5)) is None
    heads.take(ALICE.origin, VKEYS, note(9))
    assert PeerHeads(tmp_path / "heads").of(ALICE.origin) == TreeHead(ALICE.origin, 9, bytes(32))


def test_a_smaller_head_is_refused_after_a_restart_too_and_kept_as_evidence(tmp_path: Path) -> None:
    PeerHeads(tmp_path).take(ALICE.origin, VKEYS, note(9))
    heads = PeerHeads(tmp_path)
    with pytest.raises(PeerHeadError, match="has size 8, it gave one of 9 before"):
        heads.take(ALICE.origin, VKEYS, note(8))
    assert (tmp_path / f"{ALICE.origin}.evidence.note").read_bytes() == note(8)
    assert heads.of(ALICE.origin) == TreeHead(ALICE.origin, 9, bytes(32))


def test_two_roots_at_one_size_are_two_histories(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    heads.take(ALICE.origin, VKEYS, note(9))
    with pytest.raises(PeerHeadError, match="two histories"):
        heads.take(ALICE.origin, VKEYS, note(9, b"x" * 32))
    with pytest.raises(PeerHeadError):
        heads.take(ALICE.origin, VKEYS, note(3))
    evidence = tmp_path / f"{ALICE.origin}.evidence.note"
    assert evidence.read_bytes() == note(9, b"x" * 32)


def test_a_head_must_be_the_peers_own_with_both_signatures(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    text = TreeHead(ALICE.origin, 5, bytes(32)).text()
    half = join_note(text, ALICE.keys.ed25519_line(text))
    for bad in (
        half,
        note(5, by=BOB),
        note(5, origin=BOB.origin),
        b"",
        note(5)[:-2],
        note(5).replace(b"5", b"6", 1),
    ):
        with pytest.raises(PeerHeadError):
            heads.take(ALICE.origin, VKEYS, bad)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{ALICE.origin}.note").write_bytes(b"damaged")
    with pytest.raises(MeshFileError, match=r"\.note cannot be read"):
        PeerHeads(tmp_path).take(ALICE.origin, VKEYS, note(5))
    assert (tmp_path / f"{ALICE.origin}.note").read_bytes() == b"damaged"
