"""Monitors on a real node: their ends come once, also when the cell or the node of the watcher is killed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until

TALKS = ("send_message",)


def watch(node: LiveNode, *names: str) -> list[str]:
    """Have the watcher set a monitor of each; the references."""
    answer = node.api.send("watcher", " ".join(names), wait_s=WAIT_S)
    assert answer["status"] == "ok", answer
    refs: list[str] = json.loads(answer["reply"])
    assert len(refs) == len(names) and all(refs)
    return refs


def told(node: LiveNode) -> list[tuple[str, int, str]]:
    """What the watcher was told of ends, by what its turns replied, in that order."""
    downs = {one["id"] for one in node.entries("message.accepted") if one["kind"] == "down"}
    of = {one["turn"] for one in node.entries("turn.started") if one["message"] in downs}
    ends = [one for one in node.entries("turn.ended") if one["turn"] in of]
    assert len(ends) == len({one["turn"] for one in ends})
    return [tuple(json.loads(one["reply"])) for one in ends]


def test_watcher_and_watched_in_a_killed_cell_and_then_a_killed_node(fresh: LiveNode) -> None:
    node = fresh
    node.up()
    node.api.spawn("watcher", behaviour="watcher", tools=TALKS)
    node.api.spawn("beside", behaviour="watcher", tools=TALKS)
    node.api.spawn("apart", behaviour="modules")
    before = {name: node.row(name) for name in ("watcher", "beside", "apart")}
    assert before["watcher"]["os_pid"] == before["beside"]["os_pid"] != before["apart"]["os_pid"]

    gone, beside, apart = watch(node, "nobody", "beside", "apart")
    until(lambda: told(node) == [(gone, 0, "noproc")], "what is not there is told")

    os.kill(before["watcher"]["os_pid"], signal.SIGKILL)
    until(lambda: len(told(node)) == 2, "the successor of the watcher is told")
    reasons = {entry["pid"]: entry["reason"] for entry in node.entries("process.exited")}
    lost = before["beside"]["pid"]
    assert told(node)[1] == (beside, lost, reasons[lost]) and reasons[lost] in ("crash", "cell_lost")
    assert node.row("watcher")["pid"] > before["watcher"]["pid"]

    node.kill()
    node.up()
    until(lambda: len(told(node)) == 3, "the watcher is told by the next boot")
    assert told(node)[2] == (apart, before["apart"]["pid"], "noconnection")

    [again] = watch(node, "apart")
    pid = node.row("apart")["pid"]
    node.api.kill("apart", signal="kill")
    until(lambda: len(told(node)) == 4, "the watcher is told again")
    assert told(node)[3] == (again, pid, "killed")
    assert sorted(entry["ref"] for entry in node.entries("monitor.down")) == sorted(
        (gone, beside, apart, again)
    )
    tally = node.api.status()["messages"]
    assert tally["accepted"] == tally["acknowledged"] + tally["in_flight"]
    node.down()


@pytest.mark.slow
def test_an_end_that_waits_in_the_mailbox_outlives_a_killed_node(fresh: LiveNode) -> None:
    node = fresh
    node.up()
    node.api.spawn("watcher", behaviour="watcher", tools=TALKS)
    node.api.spawn("bob", behaviour="modules")
    [ref] = watch(node, "bob")
    pid = node.row("bob")["pid"]
    os.kill(node.row("watcher")["os_pid"], signal.SIGSTOP)  # it answers nothing
    node.api.kill("bob", signal="kill")
    until(lambda: node.entries("monitor.down"), "the end is recorded")
    assert told(node) == []
    node.kill()
    node.up()
    until(lambda: told(node) == [(ref, pid, "killed")], "the watcher is told by the next boot")
    assert len(node.entries("monitor.down")) == 1
    node.down()
