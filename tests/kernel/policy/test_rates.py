"""How many messages of a sender are accepted: sliding windows, who counts for whom, and what is kept of it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.abi import Identity
from kernel.policy.asker import Asker, channel_of
from kernel.policy.limits import rates as module
from kernel.policy.limits.rates import OTHERS, RateLimit, RateLimits, Wait, wait_of
from kernel.slice import Told
from kernel.slices.rates import HOUR_US, Rates

S = 1_000_000


@pytest.mark.parametrize(
    ("times", "limit", "now", "wait"),
    [
        ([], RateLimit(2, 3), 0, None),
        ([0, 10], RateLimit(2), 59, Wait(2, "minute", 1 * S)),
        ([0, 10], RateLimit(2), 60, None),
        ([0, 10, 60], RateLimit(2), 60, Wait(2, "minute", 10 * S)),
        ([0, 10, 60], RateLimit(2), 70, None),
        ([0, 100, 200], RateLimit(None, 3), 3599, Wait(3, "hour", 1 * S)),
        ([0, 100, 200], RateLimit(None, 3), 3600, None),
        ([0, 3595, 3596], RateLimit(2, 3), 3599, Wait(2, "minute", 56 * S)),
        ([3590, 3595, 3596], RateLimit(2, 3), 3599, Wait(3, "hour", 3591 * S)),
        ([5, 5, 5], RateLimit(3), 5, Wait(3, "minute", 60 * S)),
    ],
)
def test_windows_slide(times: list[int], limit: RateLimit, now: int, wait: Wait | None) -> None:
    assert wait_of([each * S for each in times], limit, now * S) == wait


@given(st.lists(st.integers(0, 40 * S), min_size=1, max_size=120), st.integers(1, 5), st.integers(1, 20))
def test_no_window_holds_more_than_its_limit_and_one_waits_no_longer_than_it_must(
    steps: list[int], per_minute: int, per_hour: int
) -> None:
    """Against counting; a sender who tries again when he is told to is accepted."""
    accepted: list[int] = []
    now, limit = 0, RateLimit(per_minute, per_hour)
    for step in steps:
        now += step
        counts = [sum(each > now - window for each in accepted) for window in (60 * S, HOUR_US)]
        wait = wait_of(accepted, limit, now)
        assert (wait is None) == (counts[0] < per_minute and counts[1] < per_hour)
        if wait is not None:
            assert wait_of(accepted, limit, now + wait.wait_us - 1) is not None
            now += wait.wait_us
            assert wait_of(accepted, limit, now) is None
        accepted.append(now)


def of(rates: Rates, name: str, time_us: int) -> None:
    rates.hears()["message.accepted"](Told({"rate": name}, 1, time_us, b""))


LIMITS = RateLimits(
    RateLimit(5),
    {"/user/*": RateLimit(1), "operator": RateLimit(), "web:*": RateLimit(2), "alice": RateLimit(9)},
    frozenset({"alice"}),
)


@pytest.mark.parametrize(
    ("sender", "who", "limit"),
    [
        ("operator", "", RateLimit()),
        ("/user/a", "", RateLimit(1)),
        ("/app/a", "", RateLimit()),
        ("/app/a@weftos-x", "", RateLimit(5)),
        ("operator", "tel:7", RateLimit(5)),
        ("operator", "web:7", RateLimit(2)),
        ("operator", "web:\x00[*\n", RateLimit(2)),
        ("operator", "alice", RateLimit(9)),
    ],
)
def test_the_longest_glob_counts_then_what_is_for_everybody_but_processes(
    sender: str, who: str, limit: RateLimit
) -> None:
    asker = Asker(sender, channel_of(sender), identity=Identity(who, ("guest",)))
    assert LIMITS.of(asker) == limit
    assert LIMITS.counts_for(asker, Rates()) == ((who or sender) if limit else "")


def test_a_hundred_thousand_made_up_users_are_counted_together_and_shut_nobody_out_who_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_SENDERS", 50)
    rates, accepted = Rates(), 0
    for number in range(100_000):
        asker = Asker("operator", "control", identity=Identity(f"tel:{number}", ("guest",)))
        if LIMITS.wait(asker, rates, number) is None:
            of(rates, LIMITS.counts_for(asker, rates), number)
            accepted += 1
    assert (accepted, len(rates), len(rates[OTHERS])) == (50 + 5, 51, 5)
    alice = Asker("operator", "control", identity=Identity("alice", ("staff",)))
    assert LIMITS.counts_for(alice, rates) == "alice" and LIMITS.wait(alice, rates, 100_000) is None
    first = Asker("operator", "control", identity=Identity("tel:0", ("guest",)))
    assert LIMITS.counts_for(first, rates) == "tel:0"
    of(rates, "alice", HOUR_US + 200_000)
    assert list(rates) == ["alice"]


def test_what_is_kept_is_read_back_and_what_is_over_an_hour_old_goes() -> None:
    rates = Rates()
    for number in range(10):
        of(rates, "a", number * HOUR_US // 5)
    of(rates, "", 10 * HOUR_US)
    assert len(rates["a"]) <= 10 and rates["a"][-1] == 9 * HOUR_US // 5
    again = Rates()
    again.restore(msgpack.unpackb(msgpack.packb(rates.rows())))
    assert again.rows() == rates.rows()
    before: list[Any] = [[["a", 2, 1]], [["a"]], [["a", -1]], [[7, 1]]]
    for rows in before:
        with pytest.raises((ValueError, TypeError)):
            Rates().restore(rows)
