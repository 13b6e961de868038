"""Keys, topics and dead letters on a real node that is killed in between: nothing twice, nothing lost, all counted."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until
from weftos import WeftosError

NOTHING = "[]"  # the planner makes no call, and answers


def taken(node: LiveNode, name: str) -> list[str]:
    """The messages for a process."""
    return [one["id"] for one in node.entries("message.accepted") if one["to"] == f"/user/{name}"]


def balances(node: LiveNode) -> bool:
    """Whether every message that was accepted is accounted for."""
    tally = node.api.status()["messages"]
    ended = tally["acknowledged"] + tally["dead"] + tally["dropped"] + tally["in_flight"]
    return bool(tally["accepted"] == ended)


def test_keys_publications_and_replays_over_killed_nodes(fresh: LiveNode) -> None:
    node = fresh
    node.up()
    for name in ("ada", "bob"):
        node.api.spawn(name, behaviour="planner")
        node.api.topics.subscribe(name, "news.*")
    node.api.spawn("holds", behaviour="holds")

    first = node.api.send("ada", NOTHING, key="once")
    os.kill(node.row("ada")["os_pid"], signal.SIGSTOP)  # ada and bob, who share a cell, answer nothing
    said = node.api.topics.publish("news.today", NOTHING)
    assert (said["accepted"], said["left_out"]) == (2, 0)
    node.kill()
    node.up()

    again = node.api.send("ada", NOTHING, key="once", wait_s=WAIT_S)
    assert (again["message"], again["again"], again["status"]) == (first["message"], True, "ok")
    with pytest.raises(WeftosError, match="another message was sent under this key"):
        node.api.send("bob", NOTHING, key="once")
    for name, count in (("ada", 2), ("bob", 1)):
        held = taken(node, name)
        assert len(held) == count
        for one in held:
            until(partial(node.ended, one), f"{name} has answered {one}")
            assert len(node.ended(one)) == 1

    open_turn = node.api.send("holds", "held")["message"]
    until(
        lambda: any(one["message"] == open_turn for one in node.entries("turn.started")), "its turn is open"
    )
    waiting = node.api.send("holds", NOTHING)["message"]
    node.api.stop("holds")
    until(lambda: waiting in {one["id"] for one in node.api.deadletters()}, "what waited is dead")
    new = node.api.replay(waiting, to="ada")["message"]
    node.kill()
    node.up()
    with pytest.raises(WeftosError, match=f"was replayed as {new} already"):
        node.api.replay(waiting, to="ada")
    assert node.api.deadletter(waiting)["replayed_as"] == new
    until(lambda: node.ended(new), "ada has answered what was sent again")
    assert len(node.ended(new)) == 1
    node.api.drop(waiting, why="done")
    assert balances(node)
    node.verify()
    node.down()
