"""The node's clock shows the machine's time and never jumps."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chain.clock import LEAN, SteadyClock

HOUR_S = 3600


class Machine:
    """A machine whose clock somebody sets. In seconds."""

    def __init__(self, wall: float = 1_000_000) -> None:
        self.wall = wall
        self.steady = 50.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: round(self.wall * 1e9), lambda: round(self.steady * 1e9))

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def seconds(clock: SteadyClock) -> float:
    return clock.now_us() / 1e6


def test_it_shows_the_machines_time() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(5):
        machine.pass_(7)
        assert seconds(clock) == machine.wall and clock.ahead_us() == 0


def test_it_goes_on_while_the_machine_sleeps() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_(9 * HOUR_S)
    assert seconds(clock) == machine.wall


def test_a_clock_that_is_set_an_hour_forward_makes_nothing_late() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += HOUR_S
    assert seconds(clock) == 1_000_000
    assert clock.ahead_us() == HOUR_S * 1_000_000
    machine.pass_(30)
    assert seconds(clock) == 1_000_000 + 30 * (1 + 1 / LEAN)
    for _ in range(LEAN):
        machine.pass_(HOUR_S)
        clock.now_us()
    assert seconds(clock) == machine.wall


def test_a_clock_that_is_set_back_freezes_nothing() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall -= HOUR_S
    times = []
    for _ in range(1000):
        machine.pass_(1)
        times.append(seconds(clock))
    assert all(0.89 < later - earlier < 0.91 for earlier, later in pairwise(times))
    machine.pass_(20 * HOUR_S)
    assert seconds(clock) == machine.wall


def test_a_start_behind_a_time_that_is_still_to_come_goes_on_from_there() -> None:
    """What a clock that ran ahead has left in the ledger: time goes on from it, and comes back to the machine's."""
    machine = Machine()
    clock = machine.clock()
    clock.not_before((1_000_000 + HOUR_S) * 1_000_000)
    machine.pass_(10)
    assert seconds(clock) == 1_000_000 + HOUR_S + 9
    clock.not_before(0)
    assert clock.ahead_us() == (1 - HOUR_S) * 1_000_000


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e6, 1e6))))
def test_it_never_falls_and_never_goes_more_than_a_tenth_wrong(steps: list[tuple[float, float]]) -> None:
    machine = Machine(1e9)
    clock = machine.clock()
    before = clock.now_us()
    for passed, jump in steps:
        machine.pass_(passed)
        machine.wall += jump
        now = clock.now_us()
        assert 0.9 * passed * 1e6 - 2 <= now - before <= 1.1 * passed * 1e6 + 2
        before = now
