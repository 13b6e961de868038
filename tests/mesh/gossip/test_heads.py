"""Peers' heads: kept over restarts, sizes never fall, a larger one needs its proof, a conflict keeps both notes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from chain.merkle.head import TreeHead
from chain.merkle.merkle import consistency_path, root
from chain.notes.note import join_note
from mesh.errors import MeshFileError, PeerHeadError, PeersError
from mesh.gossip.heads import MAX_UNPROVED, HeadConflictError, PeerHeads, Wanted
from mesh.identity.identity import Identity
from tests.mesh.twins.core_nodes import ALICE, BOB

VKEYS = (ALICE.keys.ed25519, ALICE.keys.mldsa)
NOW = 1_700_000_000_000_000
LEAVES = [sha256(bytes([number])).digest() for number in range(40)]
OTHERS = [*LEAVES[:4], *(sha256(leaf).digest() for leaf in LEAVES[4:])]
"""Another history: the same up to four entries."""


@cache  # an ML-DSA signature is another each time
def note(size: int, top: bytes = bytes(32), by: Identity = ALICE, origin: str = "") -> bytes:
    text = TreeHead(origin or by.origin, size, top).text()
    return join_note(text, by.keys.ed25519_line(text), by.keys.mldsa_line(text))


def of_tree(size: int, leaves: list[bytes] = LEAVES, by: Identity = ALICE) -> bytes:
    return note(size, root(leaves[:size]), by)


def take(heads: PeerHeads, given: bytes) -> TreeHead | Wanted | None:
    return heads.take(ALICE.origin, VKEYS, given, NOW)


def prove(heads: PeerHeads, size1: int, size2: int, leaves: list[bytes] = LEAVES) -> TreeHead | None:
    path = consistency_path(size1, leaves[:size2])
    return heads.proved(ALICE.origin, Wanted(size1, size2), path, NOW)


def size_kept(heads: PeerHeads) -> int:
    head = heads.of(ALICE.origin)
    assert head is not None
    return head.size


def test_the_newest_head_is_kept_also_by_the_next_boot(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path / "heads")
    assert heads.of(ALICE.origin) is None
    assert take(heads, of_tree(5)) == TreeHead(ALICE.origin, 5, root(LEAVES[:5]))
    assert take(heads, of_tree(5)) is None
    assert take(heads, of_tree(9)) == Wanted(5, 9)
    assert size_kept(heads) == size_kept(PeerHeads(tmp_path / "heads")) == 5
    assert prove(heads, 5, 9) == TreeHead(ALICE.origin, 9, root(LEAVES[:9]))
    assert size_kept(heads) == size_kept(PeerHeads(tmp_path / "heads")) == 9


def test_a_head_that_came_while_a_proof_was_asked_for_is_asked_about_next(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(5))
    assert take(heads, of_tree(7)) == Wanted(5, 7)
    assert take(heads, of_tree(7)) is None
    assert take(heads, of_tree(8)) is None
    assert take(heads, of_tree(12)) is None
    assert prove(heads, 5, 12) is None  # not the one that was asked for
    assert prove(heads, 5, 7) is not None
    assert heads.next_wanted(ALICE.origin) == Wanted(7, 8)
    assert heads.next_wanted(ALICE.origin) is None
    assert prove(heads, 7, 8) is not None
    assert heads.next_wanted(ALICE.origin) == Wanted(8, 12)
    assert prove(heads, 8, 12) is not None
    assert heads.next_wanted(ALICE.origin) is None
    assert prove(heads, 8, 12) is None
    assert size_kept(heads) == 12


@pytest.mark.parametrize("end", [lambda heads: heads.forget_wanted(ALICE.origin),
                                 lambda heads: heads.gave_none(ALICE.origin, Wanted(5, 7))])  # fmt: skip
def test_without_a_proof_the_head_kept_stays_and_with_the_next_it_is_asked_for_again(
    tmp_path: Path, end: Callable[[PeerHeads], object]
) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(5))
    take(heads, of_tree(7))
    assert not heads.gave_none(ALICE.origin, Wanted(4, 7))
    end(heads)
    assert prove(heads, 5, 7) is None
    assert size_kept(heads) == 5
    assert take(heads, of_tree(8)) == Wanted(5, 7)
    assert prove(heads, 5, 7) is not None
    assert heads.next_wanted(ALICE.origin) == Wanted(7, 8)


@pytest.mark.parametrize("end", [lambda heads: None, lambda heads: heads.forget_wanted(ALICE.origin),
                                 lambda heads: heads.gave_none(ALICE.origin, Wanted(4, 7))])  # fmt: skip
@pytest.mark.parametrize(("size", "why"), [(7, "two histories"), (6, "has size 6, it gave one of 7 before")])
def test_a_head_that_was_never_proved_is_not_taken_back(
    tmp_path: Path, end: Callable[[PeerHeads], object], size: int, why: str
) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(4))
    take(heads, of_tree(7))
    end(heads)
    with pytest.raises(HeadConflictError, match=why):
        take(heads, of_tree(size, OTHERS))
    conflict = PeerHeads(tmp_path).conflict(ALICE.origin)
    assert conflict is not None
    assert (conflict.kept, conflict.shown) == (of_tree(7).decode(), of_tree(size, OTHERS).decode())
    assert heads.decide(ALICE.origin, False, {}) == conflict.kept_head
    assert size_kept(PeerHeads(tmp_path)) == 4
    assert take(heads, of_tree(8)) == Wanted(4, 7)
    assert prove(heads, 4, 7) == conflict.kept_head == PeerHeads(tmp_path).of(ALICE.origin)


@pytest.mark.parametrize(("size", "leaves"), [(3, LEAVES), (6, OTHERS)])
def test_who_contradicts_the_head_kept_does_not_take_back_those_that_wait(
    tmp_path: Path, size: int, leaves: list[bytes]
) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(6))
    take(heads, of_tree(12))
    with pytest.raises(HeadConflictError):
        take(heads, of_tree(size, leaves))
    assert prove(heads, 6, 12) is None  # not before that is decided
    assert heads.decide(ALICE.origin, False, {}) == TreeHead(ALICE.origin, 6, root(LEAVES[:6]))
    assert take(heads, of_tree(15)) == Wanted(6, 12)
    with pytest.raises(HeadConflictError, match="has size 9, it gave one of 15 before"):
        take(heads, of_tree(9))


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("shown_counts", [True, False])
def test_who_contradicts_a_head_that_was_never_proved_does_not_get_rid_of_the_one_kept(
    tmp_path: Path, shown_counts: bool, restarted: bool
) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(6))
    take(heads, of_tree(12, OTHERS))
    with pytest.raises(HeadConflictError, match="has size 9, it gave one of 12 before"):
        take(heads, of_tree(9, OTHERS))
    if restarted:
        heads = PeerHeads(tmp_path)
    counts = heads.decide(ALICE.origin, shown_counts, {"reason": "it says that it was restored"})
    assert counts.size == (9 if shown_counts else 12)
    assert (
        PeerHeads(tmp_path).of(ALICE.origin)
        == heads.of(ALICE.origin)
        == TreeHead(ALICE.origin, 6, root(LEAVES[:6]))
    )
    assert take(heads, of_tree(15, OTHERS)) == Wanted(6, counts.size)
    with pytest.raises(HeadConflictError, match="does not continue the head kept"):
        prove(heads, 6, counts.size, OTHERS)
    conflict = PeerHeads(tmp_path).conflict(ALICE.origin)
    assert conflict is not None
    assert (conflict.kept, conflict.shown_head) == (of_tree(6).decode(), counts)


def test_who_goes_on_with_another_history_must_still_prove_the_one_it_has_shown(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(4))
    take(heads, of_tree(7))
    assert heads.gave_none(ALICE.origin, Wanted(4, 7))
    assert take(heads, of_tree(9, OTHERS)) == Wanted(4, 7)
    assert prove(heads, 4, 9, OTHERS) is None
    assert prove(heads, 4, 7) is not None
    assert heads.next_wanted(ALICE.origin) == Wanted(7, 9)
    with pytest.raises(HeadConflictError, match="does not continue"):
        prove(heads, 7, 9, OTHERS)


def test_who_proves_nothing_makes_a_bounded_number_of_heads_wait_and_is_told_of_once(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(1))
    for size in range(2, MAX_UNPROVED + 2):
        take(heads, of_tree(size))
    with pytest.raises(PeerHeadError, match="no proof for the first of them"):
        take(heads, of_tree(39))
    assert take(heads, of_tree(40)) is None
    assert size_kept(heads) == 1


def smaller(heads: PeerHeads) -> bytes:
    with pytest.raises(HeadConflictError, match="has size 8, it gave one of 9 before"):
        take(heads, of_tree(8))
    return of_tree(8)


def other_root(heads: PeerHeads) -> bytes:
    with pytest.raises(HeadConflictError, match="two histories"):
        take(heads, of_tree(9, OTHERS))
    return of_tree(9, OTHERS)


def false_proof(heads: PeerHeads) -> bytes:
    assert take(heads, of_tree(12, OTHERS)) == Wanted(9, 12)
    with pytest.raises(HeadConflictError, match="does not continue the head kept"):
        prove(heads, 9, 12, OTHERS)
    return of_tree(12, OTHERS)


CONFLICTS = pytest.mark.parametrize("contradict", [smaller, other_root, false_proof])


@CONFLICTS
def test_both_notes_of_a_conflict_outlive_every_later_head(
    tmp_path: Path, contradict: Callable[[PeerHeads], bytes]
) -> None:
    take(PeerHeads(tmp_path), of_tree(9))
    heads = PeerHeads(tmp_path)
    shown = contradict(heads)
    for leaves in (LEAVES, OTHERS):
        for size in (9, 13, 20):
            assert take(heads, of_tree(size, leaves)) is None
            assert prove(heads, 9, size, leaves) is None
    again = PeerHeads(tmp_path)
    assert take(again, of_tree(20)) is None
    assert size_kept(again) == 9
    conflict = again.conflict(ALICE.origin)
    assert conflict == heads.conflict(ALICE.origin)
    assert conflict is not None
    assert (conflict.kept, conflict.shown, conflict.at_us) == (of_tree(9).decode(), shown.decode(), NOW)
    assert conflict.kept_head.size == 9


@CONFLICTS
@pytest.mark.parametrize("shown_counts", [True, False])
def test_what_a_person_decides_counts_and_both_notes_stay(
    tmp_path: Path, contradict: Callable[[PeerHeads], bytes], shown_counts: bool
) -> None:
    heads = PeerHeads(tmp_path)
    with pytest.raises(PeersError, match="nothing to decide"):
        heads.decide(ALICE.origin, True, {})
    take(heads, of_tree(9))
    shown = contradict(heads)
    conflict = heads.conflict(ALICE.origin)
    assert conflict is not None
    counts = heads.decide(ALICE.origin, shown_counts, {"reason": "restored"})
    assert counts == (conflict.shown_head if shown_counts else conflict.kept_head)
    for now in (heads, PeerHeads(tmp_path)):
        assert now.conflict(ALICE.origin) is None
        assert now.of(ALICE.origin) == counts
    (kept,) = (tmp_path / "decided").iterdir()
    told = json.loads(kept.read_text())
    assert (told["kept"], told["shown"], told["reason"]) == (of_tree(9).decode(), shown.decode(), "restored")
    assert told["counts"] == ("shown" if shown_counts else "kept")
    other = conflict.kept if shown_counts else conflict.shown
    for now in (heads, PeerHeads(tmp_path)):  # a peer shows its newest head with each link
        assert take(now, other.encode()) is None
        assert now.conflict(ALICE.origin) is None
        assert now.of(ALICE.origin) == counts
    leaves = LEAVES if contradict is smaller or not shown_counts else OTHERS
    assert take(heads, of_tree(20, leaves)) == Wanted(counts.size, 20)
    assert prove(heads, counts.size, 20, leaves) is not None


def test_what_a_person_has_not_seen_is_a_conflict_after_the_decision_too(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(9))
    smaller(heads)
    heads.decide(ALICE.origin, False, {})
    assert take(heads, of_tree(8)) is None
    for shown in (of_tree(8, OTHERS), of_tree(7)):
        with pytest.raises(HeadConflictError):
            take(heads, shown)
        assert take(heads, of_tree(20)) is None
        heads.decide(ALICE.origin, False, {})


def test_a_damaged_decision_is_named_and_nothing_is_taken(tmp_path: Path) -> None:
    heads = PeerHeads(tmp_path)
    take(heads, of_tree(9))
    smaller(heads)
    heads.decide(ALICE.origin, False, {})
    (decided,) = (tmp_path / "decided").iterdir()
    decided.write_bytes(b"{}")
    with pytest.raises(MeshFileError, match="restore it from a copy"):
        take(PeerHeads(tmp_path), of_tree(20))
    assert size_kept(PeerHeads(tmp_path)) == 9


@pytest.mark.parametrize("leaves", [LEAVES, OTHERS])
def test_what_the_disk_did_not_take_waits_and_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: list[bytes]
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise MeshFileError(f"cannot write {path}: no space")

    heads = PeerHeads(tmp_path)
    take(heads, of_tree(5))
    assert take(heads, of_tree(7, leaves)) == Wanted(5, 7)
    with monkeypatch.context() as disk, pytest.raises(MeshFileError, match="no space"):
        disk.setattr("mesh.gossip.heads.write_private", full)
        prove(heads, 5, 7, leaves)
    assert take(heads, of_tree(8)) == Wanted(5, 7)
    if leaves is LEAVES:
        assert prove(heads, 5, 7) is not None
        assert heads.next_wanted(ALICE.origin) == Wanted(7, 8)
    else:
        with pytest.raises(HeadConflictError, match="does not continue"):
            prove(heads, 5, 7, leaves)


def test_evidence_of_before_is_a_conflict_still(tmp_path: Path) -> None:
    take(PeerHeads(tmp_path), of_tree(9))
    (tmp_path / f"{ALICE.origin}.evidence.note").write_bytes(of_tree(8))
    heads = PeerHeads(tmp_path)
    assert take(heads, of_tree(12)) is None
    conflict = heads.conflict(ALICE.origin)
    assert conflict is not None
    assert (conflict.kept_head.size, conflict.shown_head.size) == (9, 8)
    heads.decide(ALICE.origin, False, {})
    assert PeerHeads(tmp_path).conflict(ALICE.origin) is None


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
            take(heads, bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".note", ".conflict.json"])
def test_a_damaged_file_is_named_and_not_replaced(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"{ALICE.origin}{suffix}"
    file.write_bytes(b"damaged")
    file.chmod(0o600)
    with pytest.raises(MeshFileError, match="restore it from a copy"):
        take(PeerHeads(tmp_path), note(5))
    assert file.read_bytes() == b"damaged"
