from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kernel.model.causes import would_cycle

addresses = st.sampled_from("abcdef")
graphs = st.dictionaries(addresses, st.sets(addresses, max_size=3))


def test_an_ask_of_oneself_is_a_circle() -> None:
    assert would_cycle({}, "a", "a") == ["a", "a"]


def test_an_ask_back_is_a_circle() -> None:
    assert would_cycle({"b": ["a"]}, "a", "b") == ["a", "b", "a"]


def test_a_circle_over_others_is_told_in_order() -> None:
    waiting = {"b": ["x", "c"], "c": ["d"], "d": ["a"], "x": ["y"]}
    assert would_cycle(waiting, "a", "b") == ["a", "b", "c", "d", "a"]


def test_a_chain_and_a_second_way_to_the_same_end_are_no_circle() -> None:
    waiting = {"b": ["d"], "c": ["d"], "a": ["b"]}
    assert would_cycle(waiting, "a", "c") is None


def test_a_circle_among_others_does_not_keep_the_search_going_round() -> None:
    assert would_cycle({"b": ["c"], "c": ["b"]}, "a", "b") is None


@given(graphs, addresses, addresses)
def test_against_closing_the_relation_step_by_step(
    waiting: dict[str, set[str]], asker: str, target: str
) -> None:
    reachable = {target}
    while more := {n for at in reachable for n in waiting.get(at, ())} - reachable:
        reachable |= more
    path = would_cycle(waiting, asker, target)
    assert (path is not None) == (asker in reachable)
    if path is not None:
        assert (path[0], path[1], path[-1]) == (asker, target, asker)
        assert all(b in waiting[a] for a, b in pairwise(path[1:]))
