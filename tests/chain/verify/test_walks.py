"""Short forms of the long walks (``make prove``), so that each change meets some of them."""

from __future__ import annotations

import random

from tests.prove import crash_walk, key_cut, mutants, power_cut, tamper


def test_some_disks_that_a_power_cut_could_leave() -> None:
    walked = power_cut.walk(power_cut.states_of(power_cut.recorded_runs(), "test", limit=8))
    assert walked.states > 8 and walked.found == []


def test_the_keys_are_there_whatever_a_power_cut_leaves_of_their_change() -> None:
    states, found = key_cut.key_walk("test")
    assert states > 100 and found == []


def test_the_walk_notices_a_sync_that_is_left_out() -> None:
    """One mutant, in a process of its own; each of them is tried by make prove."""
    chosen = next(
        one for one in mutants.mutants() if (one.module, one.inside) == ("chain.journal.journal", "append")
    )
    assert mutants.run_mutant(chosen, "test").returncode == mutants.CAUGHT


def test_killed_at_some_of_the_calls_that_write() -> None:
    dice = random.Random(7)
    found, killed = [], 0
    for at in sorted(dice.sample(range(300), 12)):
        wrong, was_killed = crash_walk.look(at, midway=dice.random() < 0.5)
        found += wrong
        killed += was_killed
    assert found == [] and killed > 8


def test_some_bytes_and_fields_changed() -> None:
    dice = random.Random(11)
    intact = tamper.make()
    changes = [*tamper.byte_changes(intact.content, 97, dice), *tamper.entry_changes(intact.content)]
    verdicts = [tamper.missed(intact, change) for change in dice.sample(changes, 150)]
    assert [verdict for verdict in verdicts if verdict not in (None, "meaningless")] == []
    assert verdicts.count(None) > 130
