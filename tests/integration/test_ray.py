"""One node on a real Ray: work, isolation, and every kind of death, each healed."""

from __future__ import annotations

import os
import signal

import pytest

from kernel.operations.processes import ProcessRow
from kernel.operations.spawning import Isolation, SpawnRequest
from tests.integration.effects import Effects
from tests.integration.live_node import WAIT_S, LiveNode, alive, until
from tests.integration.scripts import WORDS
from tests.servers.processes import ModelServer

pytestmark = [pytest.mark.ray]
WORKER_TOOLS = ("calculator", "count", "look")


def test_an_agent_on_ray_finishes_a_task_of_five_calls(ray_node: LiveNode) -> None:
    answer = ray_node.talk("five", "five-calls", tools=("calculator", "file_read", "file_list", "file_write"))
    assert (answer["status"], answer["reply"]) == ("ok", WORDS)


def test_shared_agents_share_an_actor_and_a_dedicated_one_has_its_own(ray_node: LiveNode) -> None:
    agents: tuple[tuple[str, Isolation], ...] = (("one", "shared"), ("two", "shared"), ("own", "dedicated"))
    for name, isolation in agents:
        ray_node.api.spawn(name, isolation=isolation)
    one, two, own = (ray_node.row(name) for name in ("one", "two", "own"))
    assert one["cell"] == two["cell"] != own["cell"]
    assert one["os_pid"] == two["os_pid"] != own["os_pid"]
    assert "391" in ray_node.api.send("own", "what is 17*23", wait_s=WAIT_S)["reply"]


def test_a_killed_actor_is_healed_and_its_turn_goes_on_without_repeating(
    ray_node: LiveNode, effects: Effects, models: ModelServer
) -> None:
    node = ray_node
    node.agent("cell-worker", "ray-cell", WORKER_TOOLS)
    before = node.row("cell-worker")
    effects.hold("ray-cell-held")
    message = node.api.send("cell-worker", "go")["message"]
    effects.await_count("ray-cell-held")
    os.kill(before["os_pid"], signal.SIGKILL)
    until(lambda: node.row("cell-worker")["pid"] > before["pid"], "it is back")
    effects.release("ray-cell-held")
    until(lambda: node.ended(message), "the turn ends")
    assert [end["status"] for end in node.ended(message)] == ["ok"]
    assert [effects.count(f"ray-cell-{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert len([request for request in models.requests() if request["body"]["model"] == "ray-cell"]) == 5


@pytest.mark.slow
def test_one_kill_of_a_cell_of_two_hundred_is_one_restart_and_says_who_was_running(
    ray_node: LiveNode,
) -> None:
    """First one of them is in a turn, then none."""
    node = ray_node
    node.api.spawn("crowd", supervisor=True, intensity=(5, 60.0))
    node.api.spawn_all([SpawnRequest("one", behaviour="holds", under="/user/crowd")], count=200)

    def crowd() -> dict[str, ProcessRow]:
        return {row["name"]: row for row in node.api.ps() if row["address"].startswith("/user/crowd/")}

    for counted, culprit in enumerate(("one-7", ""), 1):
        if culprit:
            node.api.send(culprit, "hold")
            until(lambda: node.row("one-7")["turn"], "it holds its turn")
        before = crowd()
        [cell] = {row["os_pid"] for row in before.values()}
        os.kill(cell, signal.SIGKILL)

        def all_are_back(before: dict[str, ProcessRow] = before) -> bool:
            now = crowd().values()
            return all(row["state"] == "running" and row["pid"] > before[row["name"]]["pid"] for row in now)

        until(all_are_back, "all two hundred run again")
        assert (node.api.children("crowd")["counted"], len(before)) == (counted, 200)
        ends = {row["name"]: row["last_exit"] for row in crowd().values()}
        words = "no culprit is known"
        if culprit:
            assert ": crash: " in ends.pop(culprit)
            words = f"/user/crowd/{culprit} (PID {before[culprit]['pid']}) was running"
            node.api.cancel(culprit)
            until(lambda: not node.row("one-7")["turn"], "its turn has ended")
        assert all(": cell_lost: " in said and said.endswith(words) for said in ends.values())
    node.api.stop("crowd")


def test_a_killed_placer_is_healed_and_named_and_nothing_of_its_ray_is_left(ray_node: LiveNode) -> None:
    node = ray_node
    node.api.spawn("survivor")
    before, placer = node.row("survivor"), node.row("placer")
    rays = {line.split()[0] for line in node.left(node.os_pid) if "/ray/" in line.lower()}
    assert rays
    os.kill(placer["os_pid"], signal.SIGKILL)

    def healed() -> bool:
        row = node.row("placer")
        return bool(row["restarts"] >= 1 and row["state"] == "running" and row["os_pid"] != placer["os_pid"])

    until(healed, "the placer runs again")
    until(lambda: node.row("survivor")["state"] == "running", "its processes run again")
    assert node.row("survivor")["pid"] > before["pid"]
    assert "391" in node.api.send("survivor", "what is 17*23", wait_s=WAIT_S)["reply"]
    until(lambda: not rays & {line.split()[0] for line in node.left(node.os_pid)}, "the old Ray is gone")
    deaths = [line["pid"] for line in node.logged("helper died", '"helper": "placer"')]
    assert deaths.count(placer["pid"]) == 1  # a new one may fail on a machine that is slow; it is healed too
    assert node.row("survivor")["restarts"] >= 1


def test_a_behaviour_that_holds_its_actor_can_be_killed_and_leaves_the_others_alone(
    ray_node: LiveNode,
) -> None:
    node = ray_node
    node.api.spawn("blocker", behaviour="blocks", restart="temporary")
    node.api.spawn("neighbour")
    neighbour, blocker = node.row("neighbour"), node.row("blocker")
    node.api.send("blocker", "hold")
    until(lambda: node.api.logs("blocker"), "it holds its actor")
    node.api.kill("blocker", signal="kill")
    until(lambda: not alive(blocker["os_pid"]), "its actor is gone")
    assert node.row("neighbour")["pid"] == neighbour["pid"]
    assert "391" in node.api.send("neighbour", "what is 17*23", wait_s=WAIT_S)["reply"]


@pytest.mark.slow
def test_a_killed_node_on_ray_goes_on_with_the_same_turn_and_leaves_nothing(
    ray_node: LiveNode, effects: Effects, models: ModelServer
) -> None:
    node = ray_node
    node.agent("node-worker", "ray-node", WORKER_TOOLS)
    effects.hold("ray-node-held")
    message = node.api.send("node-worker", "go")["message"]
    effects.await_count("ray-node-held")
    first_run = node.os_pid
    assert len(node.left(first_run)) > 5
    node.kill()
    node.up()
    assert node.left(first_run) == []
    effects.release("ray-node-held")
    until(lambda: node.ended(message), "the turn ends")
    assert [end["status"] for end in node.ended(message)] == ["ok"]
    assert [effects.count(f"ray-node-{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert len([request for request in models.requests() if request["body"]["model"] == "ray-node"]) == 5
