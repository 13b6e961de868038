"""Membership: the table walked in full, liveness, back-off, and which of two links stays."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.errors import MembershipError
from mesh.membership.membership import (
    PEER_TABLE,
    Backoff,
    Member,
    PeerEvent,
    PeerState,
    Pulse,
    advance,
    keeps_new_link,
)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(PeerState, PeerEvent)))
def test_every_pair_leads_where_the_table_says_or_is_refused(state: PeerState, event: PeerEvent) -> None:
    member = Member("weftos-x", state, since_s=1.0)
    expected = PEER_TABLE[state].get(event)
    if expected is None:
        with pytest.raises(MembershipError, match=f"is {state} and cannot take {event}"):
            advance(member, event, 5.0)
    else:
        after = advance(member, event, 5.0, boot="b", why="w")
        assert after.state is expected
        assert after.since_s == (1.0 if expected is state else 5.0)


def test_a_peer_is_lost_only_after_it_was_up() -> None:
    into_lost = {state for state, row in PEER_TABLE.items() if PeerState.LOST in row.values()}
    assert into_lost == {PeerState.UP, PeerState.LOST}


def test_a_loss_keeps_its_reason_until_the_peer_is_up_again() -> None:
    up = advance(Member("weftos-x"), PeerEvent.OPENED, 1.0, boot="b1")
    lost = advance(up, PeerEvent.CLOSED, 2.0, why="silent for 5 s")
    assert (lost.boot, lost.why) == ("b1", "silent for 5 s")
    assert advance(lost, PeerEvent.DIALLED, 3.0).why == "silent for 5 s"
    again = advance(lost, PeerEvent.OPENED, 3.0, boot="b2")
    assert (again.boot, again.why, again.since_s) == ("b2", "", 3.0)


def test_a_link_is_lost_by_silence_and_owes_a_ping_when_it_said_nothing() -> None:
    pulse = Pulse(said_s=10.0, heard_s=10.0)
    assert not pulse.is_lost(14.9, 5.0) and pulse.is_lost(15.0, 5.0)
    assert not pulse.heard(14.0).is_lost(15.0, 5.0)
    assert not pulse.owes_ping(10.9, 1.0) and pulse.owes_ping(11.0, 1.0)
    assert not pulse.said(10.5).owes_ping(11.0, 1.0)


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_delays_double_up_to_the_longest_and_are_cut_by_half_at_most(failures: int, jitter: float) -> None:
    backoff = Backoff(base_s=0.2, max_s=15.0)
    full_s = min(15.0, 0.2 * 2 ** min(failures, 20))
    assert full_s / 2 <= backoff.delay_s(failures, jitter) <= full_s


@given(st.sampled_from(["a", "b"]), st.permutations(["small dialled", "large dialled"]))
def test_both_sides_keep_the_same_one_of_two_links_in_either_order(first: str, order: list[str]) -> None:
    """``a`` is the smaller origin. Each side sees the two links open in its own order."""
    kept = {}
    for ours, theirs in (("a", "b"), ("b", "a")):
        seen = order if ours == first else order[::-1]
        by_us = [(link == "small dialled") == (ours == "a") for link in seen]
        new = keeps_new_link(ours, theirs, dialled_by_us_old=by_us[0], dialled_by_us_new=by_us[1])
        kept[ours] = seen[1] if new else seen[0]
    assert kept == {"a": "small dialled", "b": "small dialled"}


@pytest.mark.parametrize("by_us", [True, False])
def test_a_second_link_dialled_by_the_same_side_takes_the_place_of_the_first(by_us: bool) -> None:
    assert keeps_new_link("a", "b", dialled_by_us_old=by_us, dialled_by_us_new=by_us)
    assert keeps_new_link("b", "a", dialled_by_us_old=by_us, dialled_by_us_new=by_us)
