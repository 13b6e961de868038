"""Nobody is kept out of a door by those who come more often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.links.strangers import Strangers, neighbourhood

LIMIT, SHARE = 12, 4


def test_who_floods_makes_room_for_itself_and_for_nobody_else() -> None:
    strangers: Strangers[int] = Strangers(LIMIT, SHARE)
    assert strangers.enter(-1, "honest") is None
    pushed = [strangers.enter(number, "flood") for number in range(1000)]
    assert pushed == [None] * SHARE + list(range(1000 - SHARE))
    assert -1 in strangers and len(strangers) == SHARE + 1


def test_a_newcomer_is_let_in_when_all_is_full_and_the_greediest_makes_room() -> None:
    strangers: Strangers[str] = Strangers(5, 3)
    for who, address in (("a", "one"), ("b", "two"), ("c", "two"), ("d", "three"), ("e", "two")):
        assert strangers.enter(who, address) is None
    assert strangers.enter("f", "four") == "b"
    assert "f" in strangers and list(strangers) == ["a", "c", "d", "e", "f"]


def test_of_a_crowd_with_an_address_each_the_one_that_has_waited_for_longest_goes() -> None:
    strangers: Strangers[int] = Strangers(LIMIT, SHARE)
    gone = [strangers.enter(number, f"address {number}") for number in range(3 * LIMIT)]
    assert gone == [None] * LIMIT + list(range(2 * LIMIT))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=200))
def test_the_bounds_hold_and_who_is_there_is_counted(steps: list[tuple[int, bool]]) -> None:
    strangers: Strangers[int] = Strangers(LIMIT, SHARE)
    here: dict[int, int] = {}
    for number, (address, comes) in enumerate(steps):
        if comes:
            gone = strangers.enter(number, str(address))
            here[number] = address
            if gone is not None:
                assert gone != number
                del here[gone]
        elif here:
            leaver = next(iter(here))
            strangers.leave(leaver)
            del here[leaver]
        assert list(strangers) == list(here)
        assert len(here) <= LIMIT
        assert all(list(here.values()).count(each) <= SHARE for each in range(4))


@pytest.mark.parametrize(
    ("host", "one"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("memory", "memory"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(host: str, one: str) -> None:
    assert neighbourhood(host) == one
