"""The lease of a remote cell as values: whatever the network does, the cell ends no later than it is declared lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cell.link.frames import FrameError
from kernel.cell.link.lease import CellLease, NodeLease

LEASE_S = 5.0
DELAYS = st.one_of(st.floats(0.0, 0.5), st.floats(0.0, 20.0))


def test_a_beat_that_was_heard_extends_the_lease_from_when_it_was_sent() -> None:
    lease = CellLease(LEASE_S, 100.0)
    assert lease.beat(103.0) == 1
    assert not lease.is_over(104.9)
    assert lease.is_over(105.0)
    lease.renew(1)
    assert not lease.is_over(107.9)
    assert lease.is_over(108.0)


def test_only_beats_that_were_sent_extend_it_and_none_extends_it_twice() -> None:
    lease = CellLease(LEASE_S, 100.0)
    lease.renew(7)
    assert lease.is_over(105.0)
    lease.beat(101.0)
    lease.beat(102.0)
    lease.renew(2)
    lease.renew(1)
    assert not lease.is_over(106.9)
    assert lease.is_over(107.0)


@pytest.mark.parametrize("number", [0, 1, 3, -1, 2**70])
def test_the_node_takes_beats_in_their_order_alone(number: int) -> None:
    lease = NodeLease(LEASE_S, 0.0)
    lease.beat(1, 1.0)
    with pytest.raises(FrameError, match=f"beat {number} after beat 1"):
        lease.beat(number, 2.0)
    assert lease.is_over(6.0)


@given(st.lists(st.tuples(DELAYS, DELAYS), max_size=30))
def test_the_cell_is_over_no_later_than_the_node_says_so(delays: list[tuple[float, float]]) -> None:
    """Each round: the node says what it has heard, that takes a while, the cell beats, and that takes a while too.

    Both clocks run alike and show other times.
    """
    shift_s = 1e6
    now_s, heard_s = 0.0, 0.2
    cell, node = CellLease(LEASE_S, 0.0), NodeLease(LEASE_S, heard_s + shift_s)
    for there_s, back_s in delays:
        told = node.heard
        now_s = max(now_s, heard_s) + there_s
        if cell.is_over(now_s):
            break
        cell.renew(told)
        number = cell.beat(now_s)
        arrives_s = now_s + back_s
        if node.is_over(arrives_s + shift_s):
            break
        node.beat(number, arrives_s + shift_s)
        heard_s = arrives_s
    lost_at_s = heard_s + LEASE_S + 1e-6
    assert node.is_over(lost_at_s + shift_s)
    assert cell.is_over(lost_at_s)
