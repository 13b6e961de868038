from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chain.journal.sequencer
from chain.entry.draft import PREVIOUS, Draft, StateChange
from chain.entry.entry import MAX_BODY_BYTES, ZERO_HASH, commit_body, decode_body, decode_entry
from chain.errors import BodyTooLarge, EntryError
from chain.journal.sequencer import MAX_COMMIT_BYTES, Sequencer, counters_apart, stale_counters
from chain.merkle.merkle import leaf_hash, root
from tests.chain.twins.ledgers import draft


def salts(count: int) -> bytes:
    return os.urandom(32 * count)


def test_entries_get_sequence_link_time_counter_and_commitment() -> None:
    sequencer = Sequencer("weftos-abc")
    first = sequencer.take([draft(0), StateChange("t", "k", None), draft(1, pid=8)], 100, salts(3))
    second = sequencer.take([draft(2, cause=1)], 90, salts(1))
    written = first.entries + second.entries
    entries = [decode_entry(item.leaf) for item in written]
    assert [entry.seq for entry in entries] == [0, 1, 2]
    assert [entry.count for entry in entries] == [0, 0, 1]
    assert [entry.time_us for entry in entries] == [100, 100, 100]
    assert [entry.previous for entry in entries] == [ZERO_HASH] + [
        leaf_hash(item.leaf) for item in written[:2]
    ]
    assert [entry.cause for entry in entries] == [-1, -1, 1]
    assert all(commit_body(item.salt, item.body) == item.entry.commitment for item in written)
    assert decode_body(written[2].body)["why"] == "w2"
    assert len({item.salt for item in written}) == 3
    assert (second.size, sequencer.tree.root()) == (3, root(item.leaf_hash for item in written))


def test_a_cause_may_be_the_entry_before_in_the_same_commit_only() -> None:
    sequencer = Sequencer("weftos-abc")
    sequencer.take([draft(0)], 1, salts(1))
    batch = sequencer.take([draft(1), StateChange("t", "k", b""), draft(2, cause=PREVIOUS)], 1, salts(3))
    assert batch.entries[1].entry.cause == 1
    with pytest.raises(EntryError, match="no entry stands before it in this commit"):
        sequencer.take([draft(3, cause=PREVIOUS)], 1, salts(1))


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (Draft("no.such", {}), EntryError, "no ledger kind 'no.such'"),
        (Draft("message.refused", {"why": "x" * MAX_BODY_BYTES}), BodyTooLarge, "limit 1048576"),
        (Draft("message.refused", {"why": object()}), EntryError, "cannot be encoded|cannot hold"),
        (Draft("message.refused", {}, subject="two words"), EntryError, "subject"),
        (draft(0, cause=99), EntryError, "cause is 99"),
    ],
)
def test_a_commit_with_a_bad_record_gives_no_place_to_any(
    bad: Draft, error: type[Exception], words: str
) -> None:
    sequencer = Sequencer("weftos-abc")
    sequencer.take([draft(0)], 5, salts(1))
    before = (
        sequencer.tree.size,
        sequencer.tree.root(),
        sequencer.last_hash,
        dict(sequencer.counts),
        sequencer.last_time_us,
    )
    with pytest.raises(error, match=words):
        sequencer.take([draft(1), draft(2, pid=9), bad], 6, salts(3))
    after = (
        sequencer.tree.size,
        sequencer.tree.root(),
        sequencer.last_hash,
        sequencer.counts,
        sequencer.last_time_us,
    )
    assert after == before


def test_a_commit_over_its_limit_is_refused() -> None:
    sequencer = Sequencer("weftos-abc")
    big = [
        StateChange("t", "k", bytes(MAX_COMMIT_BYTES // 2)),
        StateChange("t", "k", bytes(MAX_COMMIT_BYTES // 2)),
    ]
    with pytest.raises(BodyTooLarge):
        sequencer.take([draft(0), *big], 1, salts(1))
    assert sequencer.tree.size == 0


def test_counters_of_pids_that_are_long_past_are_given_up_and_none_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chain.journal.sequencer, "COUNTERS", 10)
    sequencer = Sequencer("weftos-a")
    for pid in range(30):
        for _ in range(2):
            sequencer.take([Draft("node.disk_free", {}, pid)], 0, bytes(32))
    sequencer.forget({3, 29})
    assert sorted(sequencer.counts) == [0, 3, *range(20, 30)]
    late = sequencer.take([Draft("node.disk_free", {}, pid) for pid in (5, 3, 7, 40)], 0, bytes(128)).entries
    assert [(item.entry.pid, item.entry.count) for item in late] == [(0, 2), (3, 2), (0, 3), (40, 0)]
    assert 5 not in sequencer.counts and sequencer.counts[0] == 4


def test_few_counters_are_all_held() -> None:
    sequencer = Sequencer("weftos-a", counts=dict.fromkeys(range(100), 1))
    sequencer.forget(())
    assert len(sequencer.counts) == 100


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 9), min_size=1), st.sets(st.integers(0, 30)))
def test_what_may_be_forgotten_may_be_missing_and_nothing_else(
    counts: dict[int, int], in_use: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain.journal.sequencer, "COUNTERS", 5)
        stale = stale_counters(counts, in_use)
        kept = {pid: count for pid, count in counts.items() if pid not in stale}
        assert counters_apart(counts, kept) == set()
        for pid in kept:
            assert counters_apart(counts, {**kept, pid: counts[pid] + 1}) == {pid}
            without = {other: count for other, count in kept.items() if other != pid}
            assert counters_apart(counts, without) == ({pid} if pid == 0 or pid > max(counts) - 5 else set())
        assert counters_apart(counts, {**kept, 31: 1}) == {31}
