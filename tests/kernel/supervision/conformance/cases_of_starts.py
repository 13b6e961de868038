"""Behaviours where a child ends by itself at once, or its start fails or hangs: bodies for any substrate."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.operations.spawning import TEMPLATE
from tests.kernel.supervision.conformance.cases import ORDERLY, RESTARTS, family, is_back, stays
from tests.kernel.supervision.conformance.world import World

STRATEGIES = pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", TEMPLATE])
TOGETHER = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])


def test_03_sup_start_ignore_child_what_has_nothing_to_do_ends_and_is_kept(world: World) -> None:
    top, [_], _ = family(world, "n03", "a")
    idle = world.child("idle", top, restart="transient")
    world.ends(idle, "normal")
    world.until(stays(world, idle, "stopped"))
    assert world.counts(top) == {"specs": 2, "active": 1, "supervisors": 0, "workers": 2}


def test_04_05_sup_start_ignore_temporary_child_is_not_kept(world: World) -> None:
    top = world.supervisor("n04")
    idle = world.child("idle", top, restart="temporary")
    world.ends(idle, "normal")
    world.until(stays(world, idle, ""))
    assert world.counts(top)["specs"] == 0


@pytest.mark.parametrize("restart", ["transient", "temporary"])
def test_06_07_sup_start_ignore_child_start_child_simple(world: World, restart: str) -> None:
    top = world.supervisor(f"n06{restart}", strategy=TEMPLATE, child_restart=restart)
    idle = world.child("idle", top)
    world.ends(idle, "normal")
    world.until(stays(world, idle, ""))
    assert world.counts(top)["specs"] == 0
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-1] == (top, "shutdown")


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", TEMPLATE])
def test_10_12_sup_start_child_returns_error(world: World, strategy: str) -> None:
    top = world.supervisor(f"n10{strategy}", strategy=strategy)
    world.fails(f"{top}/a")
    world.in_vain(lambda: world.child("a", top))
    assert not world.slot(f"{top}/a") and world.counts(top)["specs"] == 0
    world.mends(f"{top}/a")
    assert world.pid(world.child("a", top))


def test_11_sup_start_restart_child_returns_error(world: World) -> None:
    top, [child], _ = family(world, "n11", "a")
    world.stop(child)
    world.until(stays(world, child, "stopped"))
    world.fails(child)
    world.in_vain(lambda: world.start(child))
    assert stays(world, child, "stopped")() and world.counts(top)["specs"] == 1


def test_16_already_started_outside_supervisor_a_name_is_taken_below_its_supervisor_alone(
    world: World,
) -> None:
    first, second = world.supervisor("n16"), world.supervisor("n16other")
    assert world.pid(world.child("a", first)) != world.pid(world.child("a", second))


@TOGETHER
def test_17_a_child_that_does_not_start_with_its_supervisor_is_tried_again(
    world: World, strategy: str
) -> None:
    flags = {"strategy": strategy, "intensity": (2, 60.0), "restart": "transient"}
    top, [a, b], _ = family(world, f"n17{strategy}", "a", "b", **flags)
    world.fails(b)
    world.ends(top, "killed")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-2:] == [(a, "shutdown"), (top, "shutdown")]


@RESTARTS
@pytest.mark.parametrize("strategy", ["one_for_one", TEMPLATE])
def test_23_24_sup_stop_race_and_non_shutdown_exit_dynamic(world: World, strategy: str, restart: str) -> None:
    own: dict[str, Any] = {"restart": restart, "shutdown_s": 60.0}
    flags: dict[str, Any] = {}
    if strategy == TEMPLATE:
        flags, own = {f"child_{name}": value for name, value in own.items()}, {}
    top = world.supervisor(f"n23{strategy}{restart}", strategy=strategy, **flags)
    reasons = [reason for reason in [*ORDERLY, "crash"] if world.has(reason)]
    ends = {world.child(f"a{number}", top, **own): reason for number, reason in enumerate(reasons)}
    for child in ends:
        world.busy(child)
    begun = len(world.starts(top))
    world.stop(top)
    for child, reason in ends.items():
        world.ends(child, reason)
    world.until(stays(world, top, "stopped"))
    assert len(world.starts(top)) == begun
    assert sorted(world.exits(top)) == [(top, "shutdown"), *ends.items()]


def test_38_count_restarting_children(world: World) -> None:
    top, [child], [pid] = family(world, "n38", "a", intensity=(50, 60.0))
    world.fails(child)
    world.ends(child, "crash")
    failing = {"specs": 1, "active": 0, "supervisors": 0, "workers": 1}
    world.until(lambda: world.slot(child) == "restarting" and world.counts(top) == failing)
    world.mends(child)
    world.until(is_back(world, child, pid))
    assert world.counts(top)["active"] == 1


def test_50_multiple_restarts(world: World) -> None:
    """The period is short, and what passes is longer: on a slow machine still more."""
    top, [child], [pid] = family(world, "n50", "a", intensity=(1, 0.2), restart="transient")
    whole = world.pid(top)
    for _ in range(3):
        world.ends(child, "crash")
        world.until(is_back(world, child, pid))
        pid = world.pid(child)
        world.passes(0.25)
    assert world.pid(top) == whole


@STRATEGIES
def test_52_54_57_59_escalation(world: World, strategy: str) -> None:
    flags: dict[str, Any] = {"strategy": strategy, "intensity": (2, 600.0), "restart": "transient"}
    top, [first, second], _ = family(world, f"n52{strategy}", "a", "b", **flags)
    world.fails(second)
    world.ends(second, "crash")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-2:] == [(first, "shutdown"), (top, "shutdown")]


def test_55_one_for_all_other_child_fails_restart(world: World) -> None:
    flags = {"strategy": "one_for_all", "intensity": (50, 600.0)}
    top, [a, b, c], before = family(world, "n55", "a", "b", "c", **flags)
    world.fails(b)
    world.ends(c, "crash")
    world.until(lambda: world.exits(top).count((a, "shutdown")) >= 2)
    begun = world.starts(top)[3:]
    assert set(begun) == {a} and not world.pid(c)
    world.mends(b)
    for address, pid in zip((a, b, c), before, strict=True):
        world.until(is_back(world, address, pid))
    assert world.starts(top)[-3:] == [a, b, c]


def test_58_rest_for_one_other_child_fails_restart(world: World) -> None:
    flags = {"strategy": "rest_for_one", "intensity": (50, 600.0)}
    top, [a, b, c], before = family(world, "n58", "a", "b", "c", **flags)
    world.fails(c)
    world.ends(a, "crash")
    for address, pid in zip((a, b), before, strict=False):
        world.until(is_back(world, address, pid))
    assert world.slot(c) == "restarting" and not world.pid(c)
    begun = [world.pid(a), world.pid(b)]
    world.mends(c)
    world.until(is_back(world, c, before[2]))
    assert [world.pid(a), world.pid(b)] == begun
    assert world.starts(top) == [a, b, c, a, b, c]


@STRATEGIES
@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_61_hanging_restart_loop(world: World, strategy: str, how: str) -> None:
    flags: dict[str, Any] = {"strategy": strategy, "intensity": (1_000, 60.0)}
    own: dict[str, Any] = {"isolation": "dedicated", "shutdown_s": 0.2} if how == "hangs" else {}
    if strategy == TEMPLATE:
        flags |= {f"child_{name}": value for name, value in own.items()}
        own = {}
    top = world.supervisor(f"n61{strategy}{how}", **flags)
    child = world.child("a", top, **own)
    getattr(world, how)(child)
    world.ends(child, "crash")
    world.until(lambda: world.slot(child) == "restarting")
    assert world.refused(lambda: world.child("a", top)) == "conflict"
    assert world.refused(lambda: world.start(child)) == "conflict"
    assert world.refused(lambda: world.remove(child)) in ("conflict", "refused")
    world.stop(child)
    assert world.slot(child) in ("", "stopped")
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    world.mends(child)
