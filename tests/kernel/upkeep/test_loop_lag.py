"""One long stall among thousands of short waits is seen."""

from __future__ import annotations

from kernel.upkeep.loop_lag import INTERVAL_S, SAMPLES, LoopLag


def lag_of(waits_s: list[float]) -> LoopLag:
    lag = LoopLag()
    for wait_s in waits_s:
        lag._sample(wait_s)
    return lag


def test_the_longest_wait_is_told_beside_the_percentile_that_hides_it() -> None:
    lag = lag_of([0.001] * SAMPLES + [2.8] + [0.001] * (SAMPLES - 1))
    assert (lag.p99_ms(), lag.max_ms(), lag.longest_ms()) == (1.0, 2800.0, 2800.0)


def test_the_longest_since_the_start_outlives_its_minute() -> None:
    lag = lag_of([2.8] + [0.001] * SAMPLES)
    assert (lag.max_ms(), lag.longest_ms()) == (1.0, 2800.0)


def test_the_samples_are_those_of_a_minute() -> None:
    assert SAMPLES * INTERVAL_S == 60.0


def test_nothing_was_late_before_the_first_sample() -> None:
    assert (LoopLag().p99_ms(), LoopLag().max_ms(), LoopLag().longest_ms()) == (0.0, 0.0, 0.0)
