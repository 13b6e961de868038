"""A few points of the turn walk (``make prove PART=turns``), so that each change meets some of them."""

from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path

from tests.kernel.twins.errand import Outside, errand, faults
from tests.prove import turn_walk


def test_an_errand_that_nobody_disturbs_does_each_thing_once(tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    asyncio.run(errand(outside))
    assert list(faults(outside)) == []
    asyncio.run(errand(outside))
    assert list(faults(outside)) == []


def test_the_walk_notices_an_effect_that_happened_twice(tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    asyncio.run(errand(outside))
    outside.note("effect", "pay")
    assert [fault[:12] for fault in faults(outside)] == ["paid 2 times"]


def test_killed_at_some_of_the_calls_that_write() -> None:
    dice = random.Random(5)
    found, killed = [], 0
    for at in sorted(dice.sample(range(turn_walk.LEAST), 6)):
        wrong, came = turn_walk.look_killed(at, dice.random() < 0.5, dice.randrange(turn_walk.AGAIN))
        found += wrong
        killed += came
    assert found == [] and killed > 3


def test_some_of_the_calls_that_write_fail() -> None:
    dice = random.Random(6)
    found, came = [], 0
    for at in sorted(dice.sample(range(turn_walk.LEAST), 4)):
        wrong, reached = turn_walk.look_failing(at, dice.random() < 0.5, 3, errno.ENOSPC)
        found += wrong
        came += reached
    assert found == [] and came > 2
