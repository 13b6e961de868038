"""Behaviours that take a start which fails or hangs, or time that passes: on the process tree on twins alone."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.operations.spawning import TEMPLATE
from tests.kernel.supervision.conformance.cases import family, is_back, stays
from tests.kernel.supervision.conformance.world import MemoryWorld

REASONS = ["normal", "shutdown", "shutdown:x", "crash"]
TOGETHER = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])


def test_03_sup_start_ignore_child_what_has_nothing_to_do_ends_and_is_kept(world: MemoryWorld) -> None:
    top, [_], _ = family(world, "n03", "a")
    idle = world.child("idle", top, restart="transient")
    world.ends(idle, "normal")
    assert world.slot(idle) == "stopped"
    assert world.counts(top) == {"specs": 2, "active": 1, "supervisors": 0, "workers": 2}


def test_04_05_sup_start_ignore_temporary_child_is_not_kept(world: MemoryWorld) -> None:
    top = world.supervisor("n04")
    idle = world.child("idle", top, restart="temporary")
    world.ends(idle, "normal")
    assert not world.slot(idle) and world.counts(top)["specs"] == 0


@pytest.mark.parametrize("restart", ["transient", "temporary"])
def test_06_07_sup_start_ignore_child_start_child_simple(world: MemoryWorld, restart: str) -> None:
    top = world.supervisor("n06", strategy=TEMPLATE, child_restart=restart)
    idle = world.child("idle", top)
    world.ends(idle, "normal")
    assert not world.slot(idle) and world.counts(top)["specs"] == 0
    world.stop(top)
    assert world.exits(top)[-1] == (top, "shutdown")


@pytest.mark.parametrize("flags", [{}, {"strategy": TEMPLATE}, {"strategy": "one_for_all"}])
def test_10_12_sup_start_child_returns_error(world: MemoryWorld, flags: dict[str, Any]) -> None:
    top = world.supervisor("n12", **flags)
    world.failing.add(f"{top}/a")
    child = world.child("a", top)
    assert not world.slot(child) and world.counts(top)["specs"] == 0
    world.failing.clear()
    assert world.pid(world.child("a", top))


def test_11_sup_start_restart_child_returns_error(world: MemoryWorld) -> None:
    _, [child], _ = family(world, "n11", "a")
    world.stop(child)
    world.failing.add(child)
    world.start(child)
    assert stays(world, child, "stopped")()


def test_16_already_started_outside_supervisor_a_name_is_taken_below_its_supervisor_alone(
    world: MemoryWorld,
) -> None:
    first, second = world.supervisor("n16"), world.supervisor("n16other")
    assert world.pid(world.child("a", first)) != world.pid(world.child("a", second))


@TOGETHER
def test_17_a_child_that_does_not_start_with_its_supervisor_is_tried_again(
    world: MemoryWorld, strategy: str
) -> None:
    top, [a, b], _ = family(
        world, "n17", "a", "b", strategy=strategy, intensity=(3, 60.0), restart="transient"
    )
    world.failing.add(b)
    world.ends(top, "killed")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-2:] == [(a, "shutdown"), (top, "shutdown")]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("strategy", ["one_for_one", TEMPLATE])
def test_23_24_sup_stop_race_and_non_shutdown_exit_dynamic(
    world: MemoryWorld, strategy: str, restart: str, reason: str
) -> None:
    kind = "child_restart" if strategy == TEMPLATE else "restart"
    top = world.supervisor("n23", strategy=strategy, **({kind: restart} if strategy == TEMPLATE else {}))
    own = {} if strategy == TEMPLATE else {"restart": restart}
    children = [world.child(name, top, **own) for name in "abc"]
    for child in children:
        world.busy(child)
    begun = len(world.starts("/user"))
    world.stop(top)
    for child in children:
        world.ends(child, reason)
    assert stays(world, top, "stopped")() and len(world.starts("/user")) == begun
    assert sorted(world.exits(top)) == [(top, "shutdown"), *((child, reason) for child in children)]


def test_38_count_restarting_children(world: MemoryWorld) -> None:
    top, [child], [pid] = family(world, "n38", "a", intensity=(50, 60.0))
    world.failing.add(child)
    world.ends(child, "crash")
    assert world.counts(top) == {"specs": 1, "active": 0, "supervisors": 0, "workers": 1}
    world.failing.clear()
    world.until(is_back(world, child, pid))
    assert world.counts(top)["active"] == 1


def test_48_do_not_save_start_parameters_for_temporary_children(world: MemoryWorld) -> None:
    top = world.supervisor("n48")
    before = len(repr(world.tree.state.slots.rows()))
    for number in range(100):
        child = world.child(f"a{number}", top, restart="temporary", config={"system_prompt": "x" * 10_000})
        world.ends(child, "normal")
    assert len(repr(world.tree.state.slots.rows())) < before + 1_000


def test_50_multiple_restarts(world: MemoryWorld) -> None:
    top, [child], _ = family(world, "n50", "a", intensity=(1, 1.0), restart="transient")
    whole = world.pid(top)
    for _ in range(10):
        pid = world.pid(child)
        world.ends(child, "crash")
        world.wait(2.1)
        assert is_back(world, child, pid)()
    assert world.pid(top) == whole


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", TEMPLATE])
def test_52_54_57_59_escalation(world: MemoryWorld, strategy: str) -> None:
    flags: dict[str, Any] = {"strategy": strategy, "intensity": (3, 600.0), "restart": "transient"}
    top, [first, second], _ = family(world, "n52", "a", "b", **flags)
    world.failing.add(second)
    world.ends(second, "crash")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-2:] == [(first, "shutdown"), (top, "shutdown")]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", TEMPLATE])
@pytest.mark.parametrize("how", ["failing", "hanging"])
def test_61_hanging_restart_loop(world: MemoryWorld, strategy: str, how: str) -> None:
    top, [child], _ = family(world, "n61", "a", strategy=strategy, intensity=(1_000, 60.0))
    getattr(world, how).add(child)
    world.ends(child, "crash")
    assert world.refused(lambda: world.child("a", top)) == "conflict"
    assert world.refused(lambda: world.start(child)) == "conflict"
    assert world.refused(lambda: world.remove(child)) == "refused"
    world.stop(child)
    assert world.slot(child) in ("", "stopped")
    world.stop(top)
    assert stays(world, top, "stopped")()
