"""What is loaded where, in the living processes: the node, and cells of both engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.live_node import WAIT_S, LiveNode

FOREIGN = {
    "ray",
    "duckdb",
    "numpy",
    "hnswlib",
    "httpx",
    "probe_tools",
    "probe_behaviours",
    "surveyor",
    "word_count",
}
OURS = {"chain", "cognition", "kernel", "mesh", "weftos"}


def loaded_by_a_cell(node: LiveNode, name: str, isolation: Any = None) -> dict[str, Any]:
    node.api.spawn(name, behaviour="modules", isolation=isolation)
    loaded: dict[str, Any] = json.loads(node.api.send(name, "tell", wait_s=WAIT_S)["reply"])
    return loaded


def work_everything(node: LiveNode, name: str) -> None:
    """Have the node do one of each: a model call, a tool in the node, in both kinds of worker, a query."""
    node.talk(f"{name}-agent", "five-calls", tools=("calculator", "file_read", "file_list", "file_write"))
    node.api.spawn(f"{name}-planner", behaviour="planner", tools=["worker_pid", "calculator"])
    results = node.plan(f"{name}-planner", ("worker_pid", {}), ("calculator", {"expression": "1"}))
    assert [result["status"] for result in results] == ["ok", "ok"]
    assert node.api.log(limit=1)["rows"]


def check_node(node: LiveNode) -> None:
    imported = node.imported()
    assert {"weftos.node.boot", "kernel.kernel", "chain.ledger.ledger"} <= imported
    assert {name.partition(".")[0] for name in imported} & FOREIGN == set()
    assert {
        "kernel.cells.engines.placer",
        "chain.archive.archive",
        "weftos.archive",
        "cognition.agent",
    } & imported == set()
    for foreign in FOREIGN:
        assert f"/site-packages/{foreign}" not in node.mapped()


def check_cell(loaded: dict[str, Any]) -> None:
    ours = {name for name in loaded["modules"] if name.partition(".")[0] in OURS}
    kernel = {name for name in ours if name.startswith("kernel") and not name.startswith("kernel.cell")}
    assert kernel == {"kernel", "kernel.abi", "kernel.shapes"}
    assert {name for name in ours if name.startswith(("chain", "mesh"))} <= {"mesh", "mesh.bounded"}
    assert {name for name in ours if name.startswith("weftos")} <= {"weftos", "weftos.decorators"}
    assert "duckdb" not in loaded["modules"]
    variables = [name for name in loaded["environment"] if name.startswith(("WEFTOS", "OPENAI"))]
    assert variables == ["WEFTOS_SESSION"]  # which run it is of, nothing secret


def test_the_node_has_loaded_nothing_foreign_after_all_kinds_of_work(node: LiveNode) -> None:
    work_everything(node, "local")
    check_node(node)


def test_a_local_cell_holds_the_abi_its_own_shell_and_its_behaviour(node: LiveNode) -> None:
    loaded = loaded_by_a_cell(node, "modules")
    check_cell(loaded)
    assert "ray" not in loaded["modules"]


@pytest.mark.ray
def test_the_node_beside_a_real_ray_has_loaded_nothing_foreign(ray_node: LiveNode) -> None:
    work_everything(ray_node, "ray")
    check_node(ray_node)


@pytest.mark.ray
def test_a_cell_on_ray_holds_the_abi_its_own_shell_and_its_behaviour(ray_node: LiveNode) -> None:
    loaded = loaded_by_a_cell(ray_node, "modules")
    check_cell(loaded)
    assert "ray" in loaded["modules"]
    assert str(ray_node.data) not in loaded["path"]
