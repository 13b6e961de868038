"""A few points of the walk of faults (``make prove PART=faults``), so that each change meets some of them."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from tests.kernel.twins.errand import Outside
from tests.prove.fault_life import begin, boot, faults
from tests.prove.fault_points import Fault, Place
from tests.prove.fault_walk import Looked, Start, look, plan


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """From an empty directory."""
    root = tmp_path_factory.mktemp("nothing")
    begin(Outside(root))
    lived = tmp_path_factory.mktemp("lived")
    begin(Outside(lived))
    told = boot(Outside(lived))
    assert (told.how, list(faults(Outside(lived)))) == ("done", [])
    return Start("from nothing", root, told.counts)


def test_a_life_looks_wants_threads_and_waits_in_many_places(start: Start) -> None:
    families = [place.family for place in start.counts]
    assert families.count("disk") > 150 and families.count("thread") > 10 and families.count("await") > 10


def test_the_walk_notices_an_effect_that_happened_twice_and_what_was_not_erased(tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    begin(outside)
    assert boot(outside).how == "done"
    outside.note("effect", "pay")
    [[text]] = outside.seen("erased")
    (outside.data / "forgotten").write_text(f"they said {text}")
    assert [fault[:30] for fault in faults(outside)] == [
        "paid 2 times, decided []",
        "forgotten still holds what was",
    ]


def test_some_places_fail(start: Start) -> None:
    dice = random.Random(7)
    looked: list[Looked] = []
    for fault in dice.sample(list(plan(start, dice)), 15):
        looked.append(look(start, fault))
        if len(looked) >= 5 and sum(one.came for one in looked) > 2:
            break  # else there are more: a quicker life comes to some places less often
    assert [fault for one in looked for fault in one.found] == []
    assert sum(one.came for one in looked) > 2


def test_a_boot_that_cannot_look_says_so_and_the_next_one_has_it_all(start: Start) -> None:
    place = next(place for place in start.counts if place.site.startswith("slots.notes < slots.load"))
    looked = look(start, Fault(place, 0, errno.EMFILE))
    assert (looked.came, looked.refused, looked.found) == (True, True, [])


def test_what_cannot_be_met_is_not_said_to_have_come(start: Start) -> None:
    looked = look(start, Fault(Place("disk", "read", "nobody.nothing"), 0, errno.EIO))
    assert (looked.came, looked.refused, looked.found) == (False, False, [])
