"""Which differences between table, cells, engine and processes are to be repaired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.upkeep.reconciliation import Repair, Seen, agreed, compare

ORDER = Seen(
    table=(5, 6),
    cells={"c1": (5, 6), "c2": ()},
    connected=("c1",),
    engine=("c1", "c2"),
    strangers={},
)


def test_what_agrees_needs_no_repair() -> None:
    assert compare(ORDER) == frozenset()


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (replace(ORDER, table=(5, 6, 7)), Repair("ghost", "7")),
        (replace(ORDER, table=(5,)), Repair("orphan", "6", "c1")),
        (replace(ORDER, engine=("c1", "c2", "c3")), Repair("orphan cell", "c3")),
        (replace(ORDER, strays=("0abc-c9-1",)), Repair("orphan cell", "0abc-c9-1")),
        (replace(ORDER, engine=("c2",)), Repair("lost cell", "c1")),
        (replace(ORDER, strangers={99: 1234}), Repair("orphan process", "99", "1234")),
    ],
)
def test_each_difference_is_found(seen: Seen, found: Repair) -> None:
    assert compare(seen) == {found}
    assert found.of in found.text


def test_a_cell_that_has_not_come_yet_is_not_lost() -> None:
    assert compare(replace(ORDER, engine=("c1",))) == frozenset()


def test_nothing_follows_from_what_nobody_can_say() -> None:
    assert compare(replace(ORDER, engine=None, strangers=None)) == frozenset()


def test_what_was_seen_once_may_just_start_or_end() -> None:
    ghost, other = Repair("ghost", "7"), Repair("ghost", "8")
    assert agreed(frozenset({ghost}), frozenset({ghost, other})) == [ghost]
    assert agreed(frozenset(), frozenset({other})) == []


def test_another_process_of_the_same_number_is_another_difference() -> None:
    before, now = Repair("orphan process", "99", "1"), Repair("orphan process", "99", "2")
    assert agreed(frozenset({before}), frozenset({now})) == []
