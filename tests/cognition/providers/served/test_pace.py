"""Whose turn it is at a server, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.providers.served.pace import MOST_WAIT_S, Pace, Share, Told, Waiter
from cognition.providers.served.pacer import Pacer
from tests.cognition.providers.test_openai_compatible import Screen


def arrive(pace: Pace, asker: str, *tickets: int, tokens: int = 1) -> None:
    for ticket in tickets:
        pace.arrive(asker, Waiter(ticket, tokens))


def test_so_many_are_under_way_as_may_be() -> None:
    pace = Pace(2)
    arrive(pace, "a", 1, 2, 3)
    assert pace.go(0.0) == ([1, 2], None)
    assert pace.go(0.0) == ([], None)
    pace.done()
    assert pace.go(0.0) == ([3], None)


def test_who_asks_gets_turns_whatever_the_others_have_waiting() -> None:
    pace = Pace(1)
    arrive(pace, "a", 1, 2, 3, 4)
    arrive(pace, "b", 11)
    arrive(pace, "c", 21, 22)
    order = []
    while put := pace.go(0.0)[0]:
        order += put
        pace.done()
        if order == [1]:
            arrive(pace, "b", 12)
    assert order == [1, 11, 21, 2, 12, 22, 3, 4]


def test_one_that_is_withdrawn_has_no_turn() -> None:
    pace = Pace(1)
    arrive(pace, "a", 1, 2)
    arrive(pace, "b", 3)
    pace.withdraw("a", 1)
    pace.withdraw("b", 3)
    pace.withdraw("b", 4)
    assert pace.go(0.0)[0] == [2]


def test_requests_come_back_evenly_and_are_taken_off_at_once() -> None:
    pace = Pace(100)
    pace.learn({"requests": Told(60, 2, 58.0)}, 0.0)
    arrive(pace, "a", *range(1, 6))
    put, again_s = pace.go(0.0)
    assert put == [1, 2] and again_s == pytest.approx(1.0)
    assert pace.go(0.5)[0] == []
    assert pace.go(1.0)[0] == [3]
    assert pace.go(3.0) == ([4, 5], None)


def test_tokens_are_waited_for_and_more_than_there_ever_are_is_put_when_all_are_there() -> None:
    pace = Pace(100)
    pace.learn({"tokens": Told(1000, 400, 60.0)}, 0.0)
    arrive(pace, "a", 1, tokens=500)
    put, again_s = pace.go(0.0)
    assert put == [] and again_s == pytest.approx(10.0)
    assert pace.go(10.1)[0] == [1]
    arrive(pace, "a", 2, tokens=50_000)
    pace.learn({"tokens": Told(1000, 1000, 0.0)}, 20.0)
    assert pace.go(20.0)[0] == [2]


def test_a_limit_that_comes_back_too_slowly_holds_nobody() -> None:
    pace = Pace(1)
    pace.learn({"requests": Told(100, 0, 86_400.0)}, 0.0)
    arrive(pace, "a", 1)
    assert pace.go(0.0)[0] == [1]


def test_a_server_that_wants_to_be_left_alone_is_but_not_for_ever() -> None:
    pace = Pace(1)
    pace.pause(MOST_WAIT_S + 1, 0.0)
    arrive(pace, "a", 1, 2)
    assert pace.go(0.0)[0] == [1]
    pace.done()
    pace.pause(7.0, 0.0)
    pace.pause(3.0, 1.0)
    assert pace.go(1.0) == ([], 6.0)
    assert pace.go(7.0) == ([2], None)


def test_what_is_left_is_never_more_than_all() -> None:
    assert Share.of(Told(10, 10, 0.0), 0.0).now(1e6).left == 10
    assert Share.of(Told(60, 0, 0.0), 0.0).per_s == 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300)), max_size=30),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100), st.floats(0, 200)), max_size=3),
)
def test_everybody_has_his_turn_in_the_end_and_never_too_many_at_once(
    arrivals: list[tuple[str, int]], parallel: int, limits: list[tuple[int, int, float]]
) -> None:
    pace, now_s, under_way = Pace(parallel), 0.0, 0
    for ticket, (asker, tokens) in enumerate(arrivals):
        pace.arrive(asker, Waiter(ticket, tokens))
    for limit, left, reset_s in limits:
        pace.learn(
            {"requests": Told(limit, min(left, limit), reset_s), "tokens": Told(limit, 0, reset_s)}, 0.0
        )
    put: list[int] = []
    for _ in range(10 * len(arrivals) + 10):
        now, again_s = pace.go(now_s)
        put += now
        under_way += len(now)
        assert under_way <= parallel
        if again_s is not None:
            assert 0 < again_s <= MOST_WAIT_S
            now_s += again_s
        elif under_way:
            pace.done()
            under_way -= 1
    assert sorted(put) == list(range(len(arrivals)))


def test_a_question_that_is_cancelled_while_it_waits_or_as_its_turn_comes_leaves_its_place() -> None:
    async def run() -> None:
        pacer, done = Pacer(1), []

        async def ask(name: str, hold: asyncio.Event) -> None:
            async with pacer.slot(name, 1, Screen()):
                await hold.wait()
                done.append(name)

        hold, free = asyncio.Event(), asyncio.Event()
        free.set()
        tasks: list[Any] = [asyncio.ensure_future(ask(name, hold)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()  # it waits
        hold.set()
        await tasks[0]
        tasks[2].cancel()  # its turn has come, and it has not run since
        await asyncio.wait(tasks)
        await ask("d", free)
        assert done in (["a", "d"], ["a", "c", "d"])
        pacer.close()

    asyncio.run(run())
