from __future__ import annotations

from chain.journal.pace import LONE_GROUPS, SHARE, WAIT_S, Pace


def made() -> Pace:
    """One caller, nothing known of the disk."""
    pace = Pace()
    pace.comes(alone=True)
    return pace


def test_where_many_call_the_loop_does_not_wait_until_one_has_been_alone_for_a_while() -> None:
    pace = made()
    assert pace.wait_s(0.0) == WAIT_S
    pace.comes(alone=False)
    waits = []
    for _ in range(LONE_GROUPS + 2):
        waits.append(pace.wait_s(0.0))
        pace.comes(alone=True)
    assert waits == [0.0] * (LONE_GROUPS + 1) + [WAIT_S]


def test_a_disk_is_waited_for_until_it_is_slow_and_again_once_it_is_quick() -> None:
    pace = made()
    assert pace.wait_s(0.0) == WAIT_S
    for _ in range(100):
        pace.took(WAIT_S)
    assert pace.wait_s(0.0) == WAIT_S
    pace.took(WAIT_S * 2)
    assert pace.wait_s(0.0) == 0.0
    pace.took(0.0)
    assert pace.wait_s(0.0) == WAIT_S


def test_one_stall_keeps_the_loop_away_for_a_while_and_not_for_ever() -> None:
    pace = made()
    pace.took(30.0)
    syncs = 0
    while not pace.wait_s(0.0):
        pace.took(0.0002)
        syncs += 1
    assert 20 < syncs < 100


def test_the_loop_does_not_wait_more_than_its_share() -> None:
    pace, now_s, waited_s = made(), 0.0, 0.0
    while now_s < 1.0:
        if pace.wait_s(now_s):
            now_s += 0.0003
            waited_s += 0.0003
            pace.waited(now_s, 0.0003)
        now_s += 0.00001
    assert 0.9 / SHARE < waited_s <= 1.0 / SHARE
