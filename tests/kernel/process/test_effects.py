"""Effects are carried out in order, a few in each round of the loop: by their number and by the time that they take."""

from __future__ import annotations

import pytest

from kernel.process.effects import EFFECTS_AT_ONCE, ROUND_S, Effects
from kernel.process.process_signals import ProcessExited
from kernel.supervision.reducer import Effect, StartChild
from tests.kernel.twins.tree_twin import HandClock


@pytest.mark.parametrize(
    ("takes_s", "of_a_round"), [(0.0, EFFECTS_AT_ONCE), (ROUND_S / 2, 3), (10 * ROUND_S, 1)]
)
def test_a_round_of_the_loop_has_so_many_effects_or_so_much_time(takes_s: float, of_a_round: int) -> None:
    clock, done = HandClock(), 0

    def perform(supervisor: str, effect: Effect | ProcessExited) -> None:
        nonlocal done
        assert effect == StartChild(f"c{done}")
        done += 1
        clock.time_s += takes_s

    effects = Effects(perform, clock)
    effects.carry_out("/user", [StartChild(f"c{number}") for number in range(100)])
    rounds = [done]
    while effects.unfinished:
        clock.fire()
        rounds.append(done)
    wanted = [*range(of_a_round, 100, of_a_round), 100]
    assert rounds == wanted
