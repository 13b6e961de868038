"""Links on a real node: who is taken along, who is told, and what outlives a killed cell and a killed node."""

from __future__ import annotations

import json
import os
import signal

from tests.integration.live_node import WAIT_S, LiveNode, until

TALKS = ("send_message",)


def has(node: LiveNode, name: str, *calls: str) -> str:
    """Have a linker make calls; the last answer."""
    answer = node.api.send(name, " ".join(calls), wait_s=WAIT_S)
    assert answer["status"] == "ok", answer
    return str(json.loads(answer["reply"])[-1])


def spawn(node: LiveNode, *names: str) -> None:
    for name in names:
        node.api.spawn(name, behaviour="linker", tools=TALKS)


def pid(node: LiveNode, name: str) -> int:
    return int(node.row(name)["pid"])


def exit_of(node: LiveNode, pid: int) -> list[str]:
    return [one["reason"] for one in node.entries("process.exited") if one["pid"] == pid]


def told(node: LiveNode) -> list[tuple[str, int, str]]:
    """What those that trap exits were told, by what their turns replied."""
    sent = {one["id"] for one in node.entries("message.accepted") if one["kind"] == "exit"}
    of = {one["turn"] for one in node.entries("turn.started") if one["message"] in sent}
    return [tuple(json.loads(one["reply"])) for one in node.entries("turn.ended") if one["turn"] in of]


def test_a_linked_one_ends_with_the_other_and_one_that_traps_is_told(node: LiveNode) -> None:
    spawn(node, "one", "other", "traps")
    before, other = pid(node, "one"), pid(node, "other")
    has(node, "one", "link:other")
    ref = has(node, "traps", "trap:on", "link:other")
    node.api.kill("other", signal="kill")
    until(lambda: told(node) == [(ref, other, "killed")], "who traps is told")
    until(lambda: exit_of(node, before) == ["killed"], "who does not ends with it")
    until(lambda: pid(node, "one") > before and node.row("one")["state"] == "running", "and is back")


def test_links_over_a_killed_cell_and_a_killed_node(fresh: LiveNode) -> None:
    node = fresh
    node.up()
    spawn(node, "traps")
    node.api.spawn("apart", behaviour="modules")
    first, apart = has(node, "traps", "trap:on", "link:apart"), pid(node, "apart")
    os.kill(node.row("apart")["os_pid"], signal.SIGKILL)
    until(lambda: len(told(node)) == 1, "the end with its cell is told")
    assert told(node)[0][:2] == (first, apart) and told(node)[0][2] in ("crash", "cell_lost")
    until(lambda: node.row("apart")["state"] == "running", "it is back")
    second, apart = has(node, "traps", "link:apart"), pid(node, "apart")
    node.kill()
    node.up()
    until(lambda: len(told(node)) == 2, "the end with the node is told by the next boot")
    assert told(node)[1] == (second, apart, "noconnection")
    assert sorted(one["ref"] for one in node.entries("monitor.down")) == sorted((first, second))
    node.down()
