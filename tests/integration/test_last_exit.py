"""A behaviour is told how its forerunner ended: on real cells, of Ray too, and after a boot."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until


def told(node: LiveNode, text: str = "hello") -> dict[str, Any]:
    """What the process that answers knows of the one before it."""
    answer = node.api.send("phoenix", text, wait_s=WAIT_S)
    assert answer["status"] == "ok", answer
    end: dict[str, Any] = json.loads(answer["reply"])
    return end


def rises(node: LiveNode) -> None:
    """It crashes, and its cell is killed: each successor is told of it."""
    node.api.spawn("phoenix", behaviour="remembers")
    assert told(node) is None
    end = told(node, "crash")
    assert (end["kind"], end["reason"], end["restarts"]) == ("technical", "crash", 1)
    assert "ValueError: on purpose" in end["detail"] and end["time_s"] > 1e9
    before = node.row("phoenix")
    os.kill(before["os_pid"], signal.SIGKILL)
    until(lambda: node.row("phoenix")["pid"] > before["pid"], "it is back")
    end = told(node)
    assert (end["kind"], end["restarts"]) == ("technical", 2)
    assert end["reason"] in ("crash", "cell_lost") and end["detail"]


def test_each_is_told_of_the_end_before_it_and_after_a_boot_that_its_node_took_it_along(
    fresh: LiveNode,
) -> None:
    fresh.up()
    rises(fresh)
    fresh.kill()
    fresh.up()
    end = told(fresh)
    assert (end["kind"], end["reason"], end["restarts"]) == ("technical", "cell_lost", 3)
    assert end["detail"] == "it ran when its node ended"


@pytest.mark.slow
def test_one_that_refuses_is_parked_and_its_sibling_left_alone_until_a_person_starts_it(
    fresh: LiveNode,
) -> None:
    fresh.up()
    fresh.api.spawn("bob", behaviour="remembers", on_logical="end")
    fresh.api.spawn("phoenix", behaviour="remembers", on_logical="park")
    bob = fresh.row("bob")["pid"]
    answer = fresh.api.send("phoenix", "refuse", wait_s=WAIT_S)
    assert (answer["status"], "is parked" in answer["reply"]) == ("dead", True), answer
    assert (fresh.row("phoenix")["slot"], fresh.row("phoenix")["why"]) == ("parked", "refused")
    [fault] = fresh.api.status()["faults"]
    assert fault.startswith("/user/phoenix is parked (refused) and waits for a person")
    fresh.kill()
    fresh.up()
    assert fresh.row("phoenix")["slot"] == "parked" and fresh.row("bob")["pid"] > bob
    fresh.api.start("phoenix")
    end = told(fresh)
    assert (end["kind"], end["reason"], end["detail"]) == ("logical", "refused", "not a word of it")
    assert fresh.api.status()["faults"] == []


def test_on_ray_each_is_told_of_the_end_before_it(ray_node: LiveNode) -> None:
    rises(ray_node)
