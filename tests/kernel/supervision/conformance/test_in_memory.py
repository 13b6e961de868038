"""Behaviours that are about what the node holds, which nobody sees from outside: on the process tree on twins alone."""

from __future__ import annotations

from tests.kernel.supervision.conformance.world import MemoryWorld


def test_48_do_not_save_start_parameters_for_temporary_children(world: MemoryWorld) -> None:
    top = world.supervisor("n48")
    before = len(repr(world.tree.state.slots.rows()))
    for number in range(100):
        child = world.child(f"a{number}", top, restart="temporary", config={"system_prompt": "x" * 10_000})
        world.ends(child, "normal")
    assert len(repr(world.tree.state.slots.rows())) < before + 1_000
