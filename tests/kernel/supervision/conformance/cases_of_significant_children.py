"""Significant children, and flags and specs that are changed while a supervisor runs: bodies for any substrate."""

from __future__ import annotations

import pytest

from kernel.operations.spawning import TEMPLATE
from tests.kernel.supervision.conformance.cases import ABNORMAL, ORDERLY, family, is_back, stays
from tests.kernel.supervision.conformance.world import World


@pytest.mark.parametrize(("restart", "reason"), [
    *(("temporary", reason) for reason in ORDERLY + ABNORMAL),
    *(("transient", reason) for reason in ORDERLY),
])  # fmt: skip
def test_64_significant_any(world: World, restart: str, reason: str) -> None:
    name = f"n64{restart}{reason.replace(':', '_')}"
    top = world.supervisor(name, auto_shutdown="any_significant", restart="transient")
    leader = world.child("leader", top, restart=restart, significant=True)
    member = world.child("member", top)
    world.ends(leader, reason)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[1:] == [(member, "shutdown"), (top, "shutdown")]


@pytest.mark.parametrize("mode", ["any_significant", "all_significant"])
def test_64_significant_transient_that_fails_and_what_is_stopped_by_name(world: World, mode: str) -> None:
    top = world.supervisor(f"n64no{mode}", auto_shutdown=mode)
    leader = world.child("leader", top, restart="transient", significant=True)
    member = world.child("member", top, restart="temporary")
    pid, whole = world.pid(leader), world.pid(top)
    world.ends(leader, "killed")
    world.until(is_back(world, leader, pid))
    world.ends(member, "killed")
    world.until(lambda: not world.slot(member))
    world.stop(leader)
    world.until(stays(world, leader, "stopped"))
    assert world.pid(top) == whole


def test_64_significant_all(world: World) -> None:
    top = world.supervisor("n64all", auto_shutdown="all_significant", restart="transient")
    a, b = (world.child(name, top, restart="temporary", significant=True) for name in "ab")
    world.ends(a, "killed")
    world.until(lambda: not world.slot(a))
    assert world.pid(top)
    world.ends(b, "killed")
    world.until(stays(world, top, "stopped"))


@pytest.mark.parametrize("significant", [True, False])
def test_65_significant_escalation(world: World, significant: bool) -> None:
    mode = "any_significant"
    top = world.supervisor(f"n65{significant}", auto_shutdown=mode, restart="transient")
    inner = world.supervisor("inner", top, auto_shutdown=mode, restart="transient", significant=significant)
    leader = world.child("leader", inner, restart="temporary", significant=True)
    world.ends(leader, "killed")
    world.until(stays(world, top if significant else inner, "stopped"))
    assert bool(world.pid(top)) is not significant


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_65_significant_bystander(world: World, strategy: str) -> None:
    mode = "any_significant"
    top = world.supervisor(f"n65{strategy}", strategy=strategy, auto_shutdown=mode)
    first = world.child("a", top)
    passing = world.child("t", top, restart="temporary", significant=True)
    pid, whole = world.pid(first), world.pid(top)
    world.ends(first, "killed")
    world.until(is_back(world, first, pid))
    assert not world.slot(passing) and world.pid(top) == whole


def test_65_significant_combinations(world: World) -> None:
    top = world.supervisor("n65never")
    child = {"restart": "transient", "significant": True}
    assert world.refused(lambda: world.child("a", top, **child)) == "invalid"
    pool = {"strategy": TEMPLATE, "auto_shutdown": "any_significant"}
    assert world.refused(lambda: world.supervisor("n65pool", **pool)) == "invalid"


def test_66_significant_upgrade_no_child_is_touched_and_the_next_end_goes_by_what_is_new(
    world: World,
) -> None:
    top, [child, other], pids = family(world, "n66", "a", "b")
    world.change(child, restart="transient")
    world.change(other, shutdown_s=0)
    world.change(top, strategy="one_for_all")
    assert [world.pid(child), world.pid(other)] == pids
    assert world.spec(child)["restart"] == "transient"
    world.ends(other, "killed")
    world.until(lambda: is_back(world, child, pids[0])() and is_back(world, other, pids[1])())
    world.ends(child, "shutdown")
    world.until(stays(world, child, "stopped"))


def test_66_significant_upgrade_toggles_follow_the_new_mode(world: World) -> None:
    top, [child, other], _ = family(world, "n66s", "a", "b", restart="transient")
    assert world.refused(lambda: world.change(child, restart="transient", significant=True)) == "invalid"
    assert world.spec(child)["restart"] == "permanent"
    world.change(top, auto_shutdown="any_significant")
    world.change(child, restart="transient", significant=True)
    assert world.refused(lambda: world.change(top, auto_shutdown="never")) == "invalid"
    world.ends(child, "shutdown")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top) == [(child, "shutdown"), (other, "shutdown"), (top, "shutdown")]


def test_66_code_change_simple_new_children_are_of_the_new_template(world: World) -> None:
    pool = world.supervisor("n66t", strategy=TEMPLATE)
    made = world.child("a", pool)
    pid = world.pid(made)
    world.change(pool, child_restart="transient")
    assert world.pid(made) == pid
    new = world.child("b", pool, restart="transient")
    assert (world.spec(made)["restart"], world.spec(new)["restart"]) == ("permanent", "transient")
    world.ends(new, "shutdown")
    world.until(lambda: world.slot(new) == "")
    world.ends(made, "shutdown")
    world.until(is_back(world, made, pid))
    assert world.refused(lambda: world.change(pool, strategy="one_for_one")) == "invalid"
    assert world.spec(made)["restart"] == "permanent"


def test_66_significant_upgrade_what_is_refused_changes_nothing(world: World) -> None:
    top, [child], pids = family(world, "n66r", "a")
    pool = world.supervisor("n66p", strategy=TEMPLATE)
    made = world.child("c", pool)
    assert world.refused(lambda: world.change(child, restart="transient", intensity=(1, 1.0))) == "invalid"
    assert world.refused(lambda: world.change(made, restart="transient")) == "conflict"
    assert world.refused(lambda: world.change(top, strategy=TEMPLATE)) == "invalid"
    assert world.refused(lambda: world.change(f"{top}/nobody", restart="transient")) == "not_found"
    world.stop(child)
    world.until(stays(world, child, "stopped"))
    assert world.refused(lambda: world.change(child, restart="temporary")) == "conflict"
    assert (world.spec(child)["restart"], world.spec(made)["restart"]) == ("permanent", "permanent")
    world.change(child, restart="transient")
    world.start(child)
    world.until(is_back(world, child, pids[0]))
    world.change(child, restart="temporary")
    world.ends(child, "killed")
    world.until(lambda: world.slot(child) == "")
