"""What lasts is looked at once; what is dropped goes all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from weftos.node.collector import Collector


class Thing:
    """Something that can be watched, and can hold itself."""

    def __init__(self) -> None:
        self.other: object = None


@contextmanager
def collector(margin: int) -> Iterator[Collector]:
    """One for which every full collection takes too long."""
    made = Collector(pause_s=0.0, margin=margin)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def cycle() -> tuple[list[Thing], weakref.ref[Thing]]:
    one, other = Thing(), Thing()
    one.other, other.other = other, one
    return [one, other], weakref.ref(one)


def test_what_survives_a_full_collection_is_not_looked_at_again() -> None:
    with collector(margin=10**9) as made:
        lasting = [[number] for number in range(10_000)]
        gc.collect()
        assert made.aside >= 10_000
        assert len(gc.get_objects(generation=2)) < 1_000
        assert len(lasting) == 10_000


def test_what_survives_a_long_look_at_the_middle_generation_is_put_aside_too() -> None:
    with collector(margin=10**9) as made:
        lasting = [[number] for number in range(10_000)]
        gc.collect(1)
        assert made.aside >= 10_000 == len(lasting)


def test_what_survives_a_long_look_at_the_youngest_is_put_aside_too() -> None:
    with collector(margin=10**9) as made:
        lasting = [[number] for number in range(10_000)]
        gc.collect(0)
        assert made.aside > 0
        assert len(gc.get_objects(generation=1)) < 1_000
        assert len(lasting) == 10_000


def test_when_everything_is_to_be_looked_at_nothing_is_put_aside_before_that() -> None:
    with collector(margin=10_000):
        held, seen = cycle()
        gc.disable()
        lasting = [[number] for number in range(gc.get_freeze_count() + 20_000)]
        gc.enable()
        gc.collect()  # so much has gathered that all is to be looked at
        del held
        gc.collect(0)
        gc.collect(1)
        gc.collect()
        assert seen() is None
        assert lasting


def test_what_was_put_aside_and_is_dropped_goes_by_its_count() -> None:
    with collector(margin=10**9):
        thing = Thing()
        seen = weakref.ref(thing)
        gc.collect()
        del thing
        assert seen() is None


def test_a_cycle_goes_at_the_next_full_collection_or_when_enough_has_gathered() -> None:
    with collector(margin=-(10**9)):  # each time enough
        held, seen = cycle()
        gc.collect()
        del held
        gc.collect()
        assert seen() is None


def test_a_cycle_that_was_put_aside_waits_and_stopping_lets_it_go() -> None:
    with collector(margin=10**9):
        held, seen = cycle()
        gc.collect()
        del held
        gc.collect()
        assert seen() is not None
    gc.collect()
    assert seen() is None
