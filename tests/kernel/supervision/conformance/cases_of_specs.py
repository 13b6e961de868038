"""Faulty specs and flags, each refused with words of its own, and nothing is kept: bodies for any substrate."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.operations.spawning import TEMPLATE
from tests.kernel.supervision.conformance.world import World


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("", {}, "name"),
        ("1234", {}, "name"),
        ("a/b", {}, "name"),
        ("a", {"restart": "always"}, "restart"),
        ("a", {"shutdown_s": -1.0}, "shutdown_s"),
        ("a", {"on_logical": "wait"}, "on_logical"),
        ("a", {"isolation": "alone"}, "isolation"),
    ],
)
def test_15_31_child_specs(world: World, name: str, fields: dict[str, Any], said: str) -> None:
    top = world.supervisor(f"n31{said}{len(name)}")
    assert said in world.words(lambda: world.child(name, top, **fields))
    assert world.counts(top)["specs"] == 0


def test_15_31_child_specs_ids_are_unique(world: World) -> None:
    top = world.supervisor("n31ids")
    world.child("a", top)
    assert world.refused(lambda: world.child("a", top)) == "conflict"


@pytest.mark.parametrize(
    ("mode", "restart", "said"),
    [("never", "transient", "auto_shutdown"), ("any_significant", "permanent", "significant")],
)
def test_32_child_specs_map_bad_combinations(world: World, mode: str, restart: str, said: str) -> None:
    top = world.supervisor(f"n32{mode}", auto_shutdown=mode)
    assert said in world.words(lambda: world.child("a", top, restart=restart, significant=True))
    assert world.counts(top)["specs"] == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"strategy": "one_for_none"}, "strategy"),
        ({"intensity": (-1, 60.0)}, "intensity"),
        ({"intensity": (1, 0.0)}, "intensity"),
        ({"auto_shutdown": "perhaps"}, "auto_shutdown"),
    ],
)
def test_08_09_33_sup_flags(world: World, flags: dict[str, Any], said: str) -> None:
    assert said in world.words(lambda: world.supervisor("n33", **flags))
    assert not world.slot("/user/n33")


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_34_a_template_is_for_simple_one_for_one_alone(world: World, strategy: str) -> None:
    flags = {"strategy": strategy, "child_restart": "transient"}
    assert "template" in world.words(lambda: world.supervisor("n34", **flags))
    assert not world.slot("/user/n34")
    one = world.supervisor(f"n34{strategy}", **{**flags, "strategy": TEMPLATE})
    assert world.spec(world.child("a", one))["restart"] == "transient"
