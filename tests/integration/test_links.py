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


def told(node: LiveNode, name: str = "traps", kind: str = "exit") -> list[tuple[str, int, str]]:
    """What one was told of ends, by what its turns replied."""
    sent = {
        one["id"]
        for one in node.entries("message.accepted")
        if one["kind"] == kind and one["to"] == f"/user/{name}"
    }
    of = {one["turn"] for one in node.entries("turn.started") if one["message"] in sent}
    return [tuple(json.loads(one["reply"])) for one in node.entries("turn.ended") if one["turn"] in of]


def comes_back(node: LiveNode, name: str, before: int) -> None:
    until(lambda: pid(node, name) > before and node.row(name)["state"] == "running", f"{name} is back")


def each_pid_is_of_one(node: LiveNode) -> bool:
    """Whether each PID that ever ran is of one incarnation alone."""
    pids = [one["pid"] for one in node.entries("process.started")]
    return len(pids) == len(set(pids)) > 1


def test_a_linked_one_ends_with_the_other_and_one_that_traps_is_told(node: LiveNode) -> None:
    spawn(node, "one", "other", "traps")
    before, other = pid(node, "one"), pid(node, "other")
    has(node, "one", "link:other")
    ref = has(node, "traps", "trap:on", "link:other")
    node.api.kill("other", signal="kill")
    until(lambda: told(node) == [(ref, other, "killed")], "who traps is told")
    until(lambda: exit_of(node, before) == ["killed"], "who does not ends with it")
    comes_back(node, "one", before)
    trapping = pid(node, "traps")
    node.api.kill("traps", signal="kill")
    until(lambda: exit_of(node, trapping) == ["killed"], "a kill is not trapped")


def test_a_link_binds_both_when_both_have_asked_and_is_one(node: LiveNode) -> None:
    spawn(node, "asks", "answers")
    ref = has(node, "asks", "link:answers")
    assert ref and has(node, "asks", "link:answers") == ref
    before = {name: pid(node, name) for name in ("asks", "answers")}
    node.api.kill("asks", signal="kill")
    comes_back(node, "asks", before["asks"])
    assert pid(node, "answers") == before["answers"]  # which has not asked
    ref = has(node, "asks", "link:answers")
    assert has(node, "answers", "link:asks") == ref
    before = {name: pid(node, name) for name in before}
    node.api.kill("asks", signal="kill")
    for name in before:
        comes_back(node, name, before[name])
    assert [exit_of(node, before[name]) for name in before] == [["killed"], ["killed"]]


def test_an_end_in_order_takes_nobody_along(node: LiveNode) -> None:
    spawn(node, "stays")
    node.api.spawn("leaves", behaviour="linker", restart="temporary")
    ref, before, other = has(node, "stays", "link:leaves"), pid(node, "stays"), pid(node, "leaves")
    node.api.send("leaves", "leave:now")
    until(lambda: exit_of(node, other) == ["normal"], "it ends")
    assert has(node, "stays", f"unlink:{ref}") == "False"  # the link has ended
    assert pid(node, "stays") == before


def test_what_is_not_there_is_noproc_at_once(node: LiveNode) -> None:
    spawn(node, "alone")
    assert has(node, "alone", "link:nobody") == ""
    ref = has(node, "alone", "trap:on", "link:nobody")
    watch = has(node, "alone", "monitor:nobody")
    until(lambda: told(node, "alone") == [(ref, 0, "noproc")], "who traps is told")
    until(lambda: told(node, "alone", "down") == [(watch, 0, "noproc")], "and who watches")


def test_after_an_unlink_no_exit_comes(node: LiveNode) -> None:
    spawn(node, "parts", "parted")
    before, other = pid(node, "parts"), pid(node, "parted")
    ref = has(node, "parts", "link:parted")
    assert has(node, "parts", f"unlink:{ref}") == "True"
    node.api.kill("parted", signal="kill")
    comes_back(node, "parted", other)
    assert has(node, "parts", f"unlink:{ref}") == "False" and pid(node, "parts") == before


def test_with_flush_an_end_that_waits_in_the_mailbox_is_never_told(node: LiveNode) -> None:
    """What waits there comes before what is sent later: once that is answered, it would have been told."""
    spawn(node, "watches", "watched")
    ref, before = has(node, "watches", "monitor:watched"), pid(node, "watched")
    goes_on = node.place / "goes_on"
    message = node.api.send("watches", f"until:{goes_on} flush:{ref}")["message"]
    until(lambda: node.row("watches")["turn"], "it is in its turn")
    node.api.kill("watched", signal="kill")
    until(lambda: [one for one in node.entries("monitor.down") if one["ref"] == ref], "the end is recorded")
    goes_on.touch()
    until(lambda: node.ended(message), "it has taken the monitor back")
    comes_back(node, "watched", before)
    assert has(node, "watches", "trap:off") == "False" and told(node, "watches", "down") == []


def test_each_monitor_is_told_exactly_once(node: LiveNode) -> None:
    spawn(node, "looks", "seen")
    refs = [has(node, "looks", "monitor:seen") for _ in range(2)]
    before = pid(node, "seen")
    node.api.kill("seen", signal="kill")
    until(lambda: len(told(node, "looks", "down")) == 2, "both are told")
    comes_back(node, "seen", before)
    again = pid(node, "seen")
    node.api.kill("seen", signal="kill")
    comes_back(node, "seen", again)
    assert has(node, "looks", "trap:off") == "False"
    assert sorted(told(node, "looks", "down")) == sorted((ref, before, "killed") for ref in refs)


def test_no_pid_is_given_twice(node: LiveNode) -> None:
    spawn(node, "mortal")
    for _ in range(3):
        before = pid(node, "mortal")
        node.api.kill("mortal", signal="kill")
        comes_back(node, "mortal", before)
    assert each_pid_is_of_one(node)


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
    assert each_pid_is_of_one(node)
    node.down()
