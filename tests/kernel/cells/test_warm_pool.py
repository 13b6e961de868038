"""How many spare cells are kept warm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cells.warm_pool import WarmPool, wanted

LATELY_S, TOGETHER_S = 60.0, 2.0
times = st.lists(st.floats(0, 200), max_size=40).map(sorted)


@pytest.mark.parametrize(
    ("asked_s", "now_s", "cells"),
    [
        ([], 0.0, 1),
        ([0.0], 0.0, 1),
        ([0.0, 0.1, 0.2], 0.2, 3),
        ([0.0, TOGETHER_S], 5.0, 2),
        ([0.0, TOGETHER_S + 0.1], 5.0, 1),
        ([0.0, 10.0, 20.0, 30.0], 30.0, 1),
        ([0.0, 1.5, 3.0, 4.5], 5.0, 2),
        ([0.0, 0.0, 0.0, 30.0], LATELY_S - 1, 3),
        ([0.0, 0.0, 0.0, 30.0], LATELY_S, 1),
        ([0.0] * 9, 1.0, 4),
    ],
)
def test_as_many_are_wanted_as_were_asked_for_together_lately(
    asked_s: list[float], now_s: float, cells: int
) -> None:
    assert wanted(asked_s, now_s, 4, LATELY_S, TOGETHER_S) == cells


@given(times, st.floats(0, 300), st.integers(1, 8))
def test_they_are_never_fewer_than_one_nor_more_than_the_limit_and_as_a_slow_count_says(
    asked_s: list[float], now_s: float, most: int
) -> None:
    lately = [at for at in asked_s if now_s - at < LATELY_S]
    waves = [sum(0 <= at - begin <= TOGETHER_S for at in lately) for begin in lately]
    assert wanted(asked_s, now_s, most, LATELY_S, TOGETHER_S) == max(1, min(most, max(waves, default=0)))


def test_a_pool_shrinks_when_it_is_quiet_and_says_when_to_look() -> None:
    pool = WarmPool(3, LATELY_S, TOGETHER_S)
    assert pool.quiet_in_s(0.0) is None
    for at in (10.0, 10.5, 11.0, 11.0):
        pool.asked(at)
    assert (pool.wanted(12.0), pool.quiet_in_s(12.0)) == (3, LATELY_S - 2)
    assert (pool.wanted(10.75 + LATELY_S), pool.quiet_in_s(10.75 + LATELY_S)) == (2, 0.25)
    assert (pool.wanted(11.0 + LATELY_S), pool.quiet_in_s(11.0 + LATELY_S)) == (1, None)


def test_what_is_kept_of_the_past_has_a_bound() -> None:
    pool = WarmPool(9, LATELY_S, TOGETHER_S)
    for at in range(10_000):
        pool.asked(at * 0.001)
    assert pool.wanted(10.0) == 9 and pool.quiet_in_s(10.0) == pytest.approx(LATELY_S, abs=1.0)
