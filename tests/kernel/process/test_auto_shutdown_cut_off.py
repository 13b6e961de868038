"""A supervisor that ends with its significant child, of a node that is killed in the middle: what was begun is carried
out by the next boot, or had not begun.
"""

from __future__ import annotations

import pytest

from kernel.model.address import USER
from kernel.model.commands import Command
from kernel.operations.spawning import Restart
from kernel.process.process_signals import AddressDown
from kernel.signals import Signal
from kernel.slices.tree.slots import DOWN
from tests.kernel.twins.tree_twin import Tree

ABOVE, TOP, LEAD, OTHER = "/user/above", "/user/above/top", "/user/above/top/lead", "/user/above/top/other"


def family(restart: Restart = "transient") -> Tree:
    """All run; ``other`` is in a turn, which keeps its supervisor from ending at once."""
    tree = Tree()
    mode = "any_significant"
    tree.spawn("above", type="supervisor", restart="transient", auto_shutdown=mode)
    own = {"significant": restart == "transient", "restart": restart, "auto_shutdown": mode}
    tree.spawn("top", ABOVE, type="supervisor", **own)
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.open_turn(OTHER)
    return tree


def ending(tree: Tree) -> list[str]:
    """What would be stopped if the node were killed now."""
    return sorted(address for address, slot in tree.state.slots.items() if slot.ending)


def booted(tree: Tree, entries: int) -> Tree:
    """The next boot, of a node that had so many entries on its disk when it was killed."""
    again = Tree(former=tree.journal.drafts[:entries])
    for _ in range(10):
        again.up()
        again.finish()
    return again


def test_after_a_kill_at_any_commit_either_all_of_it_runs_or_nothing_does() -> None:
    tree = family()
    begun = len(tree.journal.drafts)
    tree.crash(LEAD, "normal")
    tree.finish()
    assert OTHER in tree.running()
    tree.end_turn(OTHER)
    tree.finish()
    assert set(tree.running()) <= {"/", USER}
    seen = set()
    for entries in (entries for entries in tree.journal.units if entries >= begun):
        running = {ABOVE, TOP, LEAD, OTHER} & set(booted(tree, entries).running())
        assert running in (set(), {ABOVE, TOP, LEAD, OTHER}), (entries - begun, running)
        seen.add(frozenset(running))
    assert len(seen) == 2


def test_a_permanent_one_comes_back_without_its_leader_as_it_does_when_nobody_is_killed() -> None:
    tree = family("permanent")
    tree.crash(LEAD, "normal")
    tree.finish()
    cut = len(tree.journal.drafts)
    assert [tree.state.slots[at].state in DOWN for at in (ABOVE, TOP, LEAD)] == [False, False, True]
    assert ending(tree) == []
    tree.end_turn(OTHER)
    tree.finish()
    tree.up()
    whole, again = set(tree.running()), set(booted(tree, cut).running())
    assert whole == again and OTHER in again and LEAD not in again


@pytest.mark.parametrize("after", ["kill", "restart"])
def test_what_is_brought_back_although_it_was_ending_is_not_recorded_as_stopped(after: str) -> None:
    tree = family()
    tree.crash(LEAD, "normal")
    tree.finish()
    assert ending(tree) == [ABOVE, TOP]
    if after == "kill":
        tree.processes.kill(TOP, "kill")
    else:
        tree.processes.restart(TOP)
        tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert {ABOVE, TOP, OTHER} <= set(tree.running())
    assert ending(tree) == []
    assert [tree.state.slots[at].state for at in (ABOVE, TOP, LEAD)] == ["running", "running", "stopped"]


def test_each_slot_is_recorded_as_stopped_once() -> None:
    tree = family()
    begun = len(tree.journal.drafts)
    tree.crash(LEAD, "normal")
    tree.end_turn(OTHER)
    tree.finish()
    changed = [draft.body for draft in tree.journal.drafts[begun:] if draft.kind == "process.slot"]
    assert sorted((body["address"], body["state"]) for body in changed) == [
        (ABOVE, "stopped"),
        (TOP, "stopped"),
        (LEAD, "stopped"),
    ]


def two_that_end_together(third: bool = False) -> tuple[Tree, list[str]]:
    """Two supervisors that have begun to end, with which the one above them will."""
    tree, tops = Tree(), [f"{ABOVE}/{name}" for name in ("one", "two")]
    tree.spawn("above", type="supervisor", restart="transient", auto_shutdown="all_significant")
    if third:
        tree.spawn("third", ABOVE, restart="transient", significant=True)
    for top in tops:
        own = {"significant": True, "restart": "transient", "auto_shutdown": "any_significant"}
        tree.spawn(top.rpartition("/")[2], ABOVE, type="supervisor", **own)
        tree.spawn("lead", top, restart="transient", significant=True)
        tree.spawn("other", top)
        tree.open_turn(f"{top}/other")
    for top in tops:
        tree.crash(f"{top}/lead", "normal")
        tree.finish()
    return tree, tops


def test_one_whose_significant_children_have_all_begun_to_end_is_recorded_as_stopped_too() -> None:
    tree, tops = two_that_end_together()
    cuts = [len(tree.journal.drafts)]
    for top in tops:
        assert ABOVE in ending(tree)
        tree.end_turn(f"{top}/other")
        tree.finish()
        cuts.append(len(tree.journal.drafts))
    for entries in (entries for entries in tree.journal.units if entries >= cuts[0]):
        assert set(booted(tree, entries).running()) == {"/", USER}
    changes = [draft.body for draft in tree.journal.drafts if draft.kind == "process.slot"]
    assert [body["state"] for body in changes if body["address"] == ABOVE] == ["stopped"]


def test_so_is_one_whose_last_that_had_not_begun_to_ends_at_once() -> None:
    tree, _ = two_that_end_together(third=True)
    assert ABOVE not in ending(tree)
    tree.crash(f"{ABOVE}/third", "normal")
    tree.finish()
    assert set(booted(tree, len(tree.journal.drafts)).running()) == {"/", USER}


def test_where_one_of_them_is_brought_back_the_one_above_goes_on() -> None:
    tree, (one, two) = two_that_end_together()
    tree.processes.kill(two, "kill")
    tree.end_turn(f"{one}/other")
    for _ in range(10):
        tree.finish()
        tree.up()
    assert [tree.state.slots[at].state for at in (ABOVE, one, two)] == ["running", "stopped", "running"]
    assert set(tree.running()) >= {ABOVE, two}


def told_down(tree: Tree) -> list[str]:
    """Whose mail dies from now on."""
    down: list[str] = []
    say = tree.processes._signals.say

    def heard(signal: Signal) -> None:
        if isinstance(signal, AddressDown):
            down.append(signal.address)
        say(signal)

    tree.processes._signals.say = heard  # type: ignore[method-assign]
    return down


@pytest.mark.parametrize("after", ["kill", "restart"])
def test_what_comes_back_with_what_was_ending_keeps_its_mail(after: str) -> None:
    tree = family()
    tree.crash(LEAD, "normal")
    tree.finish()
    down = told_down(tree)
    if after == "kill":
        tree.processes.kill(TOP, "kill")
    else:
        tree.processes.restart(TOP)
        tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert OTHER in tree.running()
    assert OTHER not in down


def test_the_mail_of_what_ends_for_good_dies_when_that_has_ended() -> None:
    tree = family()
    down = told_down(tree)
    tree.crash(LEAD, "normal")
    tree.finish()
    assert set(down) <= {LEAD}
    tree.end_turn(OTHER)
    tree.finish()
    assert set(down) >= {ABOVE, TOP, LEAD, OTHER}


def test_one_that_was_ending_and_is_restarted_with_its_siblings_is_not_recorded_as_stopped() -> None:
    tree = Tree()
    tree.spawn("above", type="supervisor", restart="transient", strategy="one_for_all")
    tree.spawn("top", ABOVE, type="supervisor", restart="transient", auto_shutdown="any_significant")
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.spawn("beside", ABOVE)
    tree.open_turn(OTHER)
    tree.crash(LEAD, "normal")
    tree.finish()
    assert ending(tree) == [TOP]
    tree.crash(f"{ABOVE}/beside")
    tree.finish()
    assert tree.state.slots[TOP].state == "restarting"
    tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert {TOP, OTHER} <= set(tree.running())
    assert tree.state.slots[TOP].state == "running"


def test_one_that_was_ending_and_ends_with_the_one_above_comes_back_with_it() -> None:
    tree = family()
    tree.crash(LEAD, "normal")
    tree.finish()
    tree.processes.stop(ABOVE)
    tree.end_turn(OTHER)
    tree.finish()
    assert [tree.state.slots[at].state for at in (ABOVE, TOP)] == ["stopped", "running"]


def test_one_that_was_ending_and_is_stopped_by_a_person_stays_so_whatever_is_above_it() -> None:
    tree = Tree()
    tree.spawn("above", type="supervisor")
    tree.spawn("top", ABOVE, type="supervisor", restart="transient", auto_shutdown="any_significant")
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.open_turn(OTHER)
    tree.crash(LEAD, "normal")
    tree.finish()
    begun = len(tree.journal.drafts)
    tree.processes.stop(TOP, Command(7, "operator:1", "enough"))
    [said] = [draft for draft in tree.journal.drafts[begun:] if draft.kind == "process.slot"]
    assert (said.body["address"], said.body["state"], said.cause) == (TOP, "stopped", 7)
    tree.processes.restart(ABOVE)
    tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert ABOVE in tree.running() and TOP not in tree.running()


def test_one_that_was_ending_is_restarted_and_stopped_by_a_person_and_stays_so() -> None:
    tree = Tree()
    tree.spawn("above", type="supervisor")
    tree.spawn("top", ABOVE, type="supervisor", restart="transient", auto_shutdown="any_significant")
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.open_turn(OTHER)
    tree.crash(LEAD, "normal")
    tree.finish()
    tree.processes.restart(TOP, Command(7, "operator:1", "once more"))
    tree.finish()
    tree.processes.stop(TOP, Command(8, "operator:1", "no, enough"))
    tree.finish()
    tree.processes.restart(ABOVE)
    tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert ABOVE in tree.running() and TOP not in tree.running()


@pytest.mark.parametrize("order", ["stop", "restart"])
def test_what_a_person_stops_or_restarts_while_it_ends_does_not_end_the_one_above(order: str) -> None:
    tree = family()
    tree.crash(LEAD, "normal")
    tree.finish()
    assert ending(tree) == [ABOVE, TOP]
    getattr(tree.processes, order)(TOP, Command(7, "operator:1", "enough"))
    tree.finish()
    assert ending(tree) == []
    again = booted(tree, len(tree.journal.drafts))
    assert ABOVE in again.running()
    assert (TOP in again.running()) is (order == "restart")


def test_one_that_waits_for_nobody_else_any_more_will_end_with_those_that_have_begun_to() -> None:
    tree = Tree()
    tree.spawn("above", type="supervisor", restart="transient", auto_shutdown="all_significant")
    own = {"significant": True, "restart": "transient"}
    tree.spawn("top", ABOVE, type="supervisor", auto_shutdown="any_significant", **own)
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.spawn("beside", ABOVE, **own)
    tree.open_turn(OTHER)
    tree.crash(LEAD, "normal")
    tree.finish()
    assert ending(tree) == [TOP]
    tree.processes.change(f"{ABOVE}/beside", {"significant": False}, b"", -1)
    tree.finish()
    assert ending(tree) == [ABOVE, TOP]
    tree.processes.change(f"{ABOVE}/beside", {"significant": True}, b"", -1)
    tree.finish()
    assert ending(tree) == [TOP]


def test_one_that_becomes_permanent_while_it_ends_will_be_started_again() -> None:
    tree = Tree()
    tree.spawn("above", type="supervisor")
    tree.spawn("top", ABOVE, type="supervisor", restart="transient", auto_shutdown="any_significant")
    tree.spawn("lead", TOP, restart="transient", significant=True)
    tree.spawn("other", TOP)
    tree.open_turn(OTHER)
    tree.crash(LEAD, "normal")
    tree.finish()
    tree.processes.change(TOP, {"restart": "permanent"}, b"", -1)
    tree.finish()
    assert ending(tree) == []
    again = booted(tree, len(tree.journal.drafts))
    tree.end_turn(OTHER)
    for _ in range(10):
        tree.finish()
        tree.up()
    assert TOP in tree.running() and TOP in again.running()
