"""What a tool or a cell cuts loose does not outlive the node."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from tests.integration.conftest import NodeMaker
from tests.integration.live_node import WAIT_S, LiveNode, alive, until


def cut_loose(node: LiveNode, name: str = "once") -> list[int]:
    planner, daemoniser = f"{name}-planner", f"{name}-daemoniser"
    node.api.spawn(planner, behaviour="planner", tools=["daemonises"])
    [result] = node.plan(planner, ("daemonises", {}))
    node.api.spawn(daemoniser, behaviour="daemoniser")
    pids = [int(result["text"]), int(node.api.send(daemoniser, "go", wait_s=WAIT_S)["reply"])]
    assert all(alive(pid) for pid in pids)
    assert all(os.getsid(pid) != node.os_pid for pid in pids)
    return pids


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def test_what_was_cut_loose_goes_with_the_node(new_node: NodeMaker, engine: str) -> None:
    node = new_node(engine)
    node.up()
    pids = cut_loose(node)
    try:
        os.kill(node.os_pid, signal.SIGKILL)  # it can take nothing along; the next start does
        until(lambda: not node.running, "the node is gone")
        node.up()
        assert [pid for pid in pids if alive(pid)] == []
        pids += cut_loose(node, "again")
        node.down()
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
