"""Where a provider's key is: on its way to the server, and nowhere that a worker or a cell can look."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.live_node import KEY, KEY_VARIABLE, LiveNode, alive, until
from tests.servers.processes import ModelServer

NOTHING = {"found": [], "opened": []}


def look(node: LiveNode, name: str) -> None:
    """A tool and a behaviour look for it in all of /proc."""
    closed = [node.os_pid, node.row("gateway")["os_pid"]]
    node.api.spawn(f"{name}-planner", behaviour="planner", tools=["prowls"])
    [result] = node.plan(f"{name}-planner", ("prowls", {"yek": KEY[::-1], "closed": closed}))
    assert json.loads(result["text"]) == NOTHING
    node.api.spawn(f"{name}-cell", behaviour="prowler")
    answer = node.api.send(f"{name}-cell", json.dumps([KEY[::-1], closed]), wait_s=60)
    assert json.loads(answer["reply"]) == NOTHING


def test_the_key_reaches_the_server_and_no_worker_or_cell_finds_it(
    node: LiveNode, models: ModelServer
) -> None:
    assert node.talk("keyed", "five-calls")["status"] == "ok"
    assert models.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}"
    look(node, "local-keys")


def test_a_gateway_that_is_started_again_has_the_key_again(node: LiveNode, models: ModelServer) -> None:
    gateway = node.row("gateway")["os_pid"]
    os.kill(gateway, signal.SIGKILL)
    until(lambda: not alive(gateway), "the gateway is gone")
    assert node.talk("keyed-again", "five-calls")["status"] == "ok"
    assert models.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}"


@pytest.mark.ray
def test_under_ray_no_worker_or_cell_finds_it_either(ray_node: LiveNode) -> None:
    look(ray_node, "ray-keys")


def test_no_process_of_a_node_has_it_in_its_environment(node: LiveNode) -> None:
    """As seen by root, who sees everything."""
    session = [node.os_pid, *(int(line.split()[0]) for line in node.left())]
    assert len(session) > 2
    for pid in session:
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert KEY.encode() not in environment
            assert KEY_VARIABLE.encode() not in environment
