"""Behaviours of Erlang/OTP's supervisor that are seen at the doors of a node alone, each named by its number."""

from __future__ import annotations

from kernel.operations.spawning import TEMPLATE
from tests.integration.real_world import RealWorld
from tests.kernel.supervision.conformance.cases import family, is_back, stays


def test_14_30_39_what_is_spawned_below_a_template_is_shown_by_its_pid(world: RealWorld) -> None:
    top = world.supervisor("n14", strategy=TEMPLATE, child_restart="transient")
    made = world.node.api.spawn("a", under=top)
    shown = world.node.api.inspect(made["pid"])
    assert (shown["address"], shown["spec"]["restart"]) == (f"{top}/a", "transient")
    assert world.refused(lambda: world.node.api.inspect(made["pid"] + 1_000_000)) == "not_found"
    assert world.node.api.inspect(top)["spec"]["strategy"] == TEMPLATE
    world.ends(f"{top}/a", "crash")
    world.until(is_back(world, f"{top}/a", made["pid"]))


def test_28_a_child_is_stopped_by_its_pid_below_any_supervisor(world: RealWorld) -> None:
    _, [child], [pid] = family(world, "n28", "a")
    world.node.api.stop(pid)
    world.until(stays(world, child, "stopped"))
    assert world.refused(lambda: world.node.api.stop(pid + 1_000_000)) == "not_found"


def test_35_which_children(world: RealWorld) -> None:
    top, [a, b, c], [first, _, _] = family(world, "n35", "a", "b", "c", intensity=(50, 60.0))
    world.stop(b)
    world.fails(c)
    world.ends(c, "crash")

    def rows() -> list[tuple[str, int, str]]:
        found = world.node.api.children(top)["children"]
        return [(row["address"], row["pid"], row["slot"]) for row in found]

    world.until(lambda: rows() == [(a, first, "running"), (b, 0, "stopped"), (c, 0, "restarting")])
    world.mends(c)
    world.until(lambda: rows()[2] == (c, world.pid(c), "running"))
