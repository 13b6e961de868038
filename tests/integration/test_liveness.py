"""Who holds a cell, on a real node: found, named, and in the end alone."""

from __future__ import annotations

import pytest

from tests.integration.live_node import LiveNode, until
from tests.places import ROOT

BEHAVIOURS = ROOT / "tests" / "behaviours"
EXTRA = f"""
[limits]
hang_s = 1
[behaviours.stuck]
import = "cell_behaviours:Blocks"
python_path = ["{BEHAVIOURS}"]
isolation = "shared"
"""

pytestmark = pytest.mark.slow


def test_who_holds_its_cell_twice_is_alone_in_one_from_then_on_and_its_neighbours_go_on(
    node: LiveNode,
) -> None:
    for name in ("ada", "bob"):
        node.api.spawn(name, behaviour="stuck", tools=["calculator"])
    assert node.row("ada")["cell"] == node.row("bob")["cell"]
    node.api.send("ada", "x")
    felled = until(
        lambda: [each for each in node.entries("process.felled") if each["isolated"]], "it was held twice"
    )
    assert [each["address"] for each in felled] == ["/user/ada"]
    until(lambda: node.row("ada")["isolation"] == "dedicated", "ps says that it is alone")
    ends = {(each["address"], each["reason"]) for each in node.entries("process.exited")}
    assert ends >= {("/user/ada", "timeout"), ("/user/bob", "cell_lost")}
    assert node.row("bob")["isolation"] == "shared"
    assert "felled" in node.command("inspect", "ada")[1]
    for name in ("ada", "bob"):
        node.api.stop(name)
