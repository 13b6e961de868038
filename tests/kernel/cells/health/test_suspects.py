"""Finding out who takes cells down, when no slot tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cells.health.suspects import Finding, Suspects

QUIET_S = 600.0
ALL = ["/user/a", "/user/b", "/user/c", "/user/d"]


def suspects(most: int = 16) -> Suspects:
    return Suspects(most, QUIET_S)


def test_the_processes_of_a_cell_that_died_of_nobody_knows_what_are_halved() -> None:
    them = suspects()
    assert them.lost("", ALL, 0.0) == Finding("", [])
    assert [them.half(address) for address in ALL] == ["s1", "s1", "s2", "s2"]
    assert them.half("/user/e") == ""


def test_a_second_loss_clears_the_other_half_and_halves_the_one_it_fell_on() -> None:
    them = suspects()
    them.lost("", ALL, 0.0)
    assert them.lost("s2", ALL[2:], 1.0) == Finding("", ["s2", "s1"])
    assert [them.half(address) for address in ALL] == ["", "", "s3", "s4"]


def test_the_last_suspect_that_was_alone_when_its_cell_died_has_taken_it_down() -> None:
    them = suspects()
    them.lost("", ALL[:2], 0.0)
    assert them.lost("s2", ["/user/b"], 1.0) == Finding("/user/b", ["s2", "s1"])
    assert not any(map(them.half, ALL))


def test_who_is_alone_and_no_suspect_is_not_blamed() -> None:
    assert suspects().lost("", ["/user/a"], 0.0) == Finding("", [])


def test_a_culprit_that_is_known_clears_all_others() -> None:
    them = suspects()
    them.lost("", ALL, 0.0)
    assert them.clear("s1") == ["s1", "s2"]
    assert them.clear("s1") == them.clear("") == []
    assert not any(map(them.half, ALL))


def test_a_quiet_time_clears_all() -> None:
    them = suspects()
    them.lost("", ALL, 0.0)
    assert them.quiet(QUIET_S - 1) == []
    assert them.quiet(QUIET_S) == ["s1", "s2"]
    assert not any(map(them.half, ALL))


def test_beyond_so_many_halves_nobody_is_halved() -> None:
    them = suspects(most=2)
    them.lost("", ALL, 0.0)
    assert them.lost("", ["/user/x", "/user/y"], 1.0) == Finding("", [])
    assert them.half("/user/x") == ""
    them.lost("s1", ALL[:2], 2.0)
    assert [them.half(address) for address in ALL] == ["s3", "s4", "", ""]


def test_who_was_halved_elsewhere_meanwhile_stays_there() -> None:
    them = suspects()
    them.lost("", ALL, 0.0)
    them.lost("", ["/user/a", "/user/x"], 1.0)  # it was placed before it was a suspect
    them.clear("s1")
    assert (them.half("/user/a"), them.half("/user/b")) == ("s3", "")


@pytest.mark.parametrize("culprit", [0, 1, 7, 99, 199])
def test_of_two_hundred_one_is_found_after_few_losses(culprit: int) -> None:
    them, losses = suspects(), 0
    everybody = [f"/user/p{number}" for number in range(200)]
    guilty = everybody[culprit]
    while True:
        half = them.half(guilty)
        inside = [address for address in everybody if them.half(address) == half]
        found, losses = them.lost(half, inside, float(losses)), losses + 1
        if found.culprit:
            assert found.culprit == guilty
            assert losses <= 10
            return


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(0, 400)), max_size=60))
def test_whatever_is_lost_halves_are_bounded_and_everybody_is_in_at_most_one(
    told: list[tuple[int, bool, int]],
) -> None:
    them, now_s = suspects(most=6), 0.0
    everybody = [f"/user/p{number}" for number in range(31)]
    for number, known, passed_s in told:
        now_s += passed_s
        them.quiet(now_s)
        half = them.half(everybody[number])
        inside = [address for address in everybody if them.half(address) == half]
        if known:
            assert bool(half) == bool(them.clear(half))
        else:
            found = them.lost(half, inside, now_s)
            assert found.culprit in ("", everybody[number])
            assert bool(found.culprit) == (bool(half) and len(inside) == 1)
        halves = {them.half(address) for address in everybody} - {""}
        assert len(halves) <= 6
