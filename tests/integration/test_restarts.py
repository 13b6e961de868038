"""What survives: nodes killed under work and stopped cleanly, cells and helpers killed, each on real processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.effects import Effects
from tests.integration.live_node import FILE_TOOLS, WAIT_S, LiveNode, alive, until
from tests.servers.processes import ModelServer
from weftos import WeftosError

WORKER_TOOLS = ("calculator", "count", "look")


@pytest.fixture
def working(fresh: LiveNode, effects: Effects, request: pytest.FixtureRequest) -> Iterator[LiveNode]:
    """A node with an agent in the middle of a turn: two effects done, a third call held by the test."""
    model = request.param
    fresh.up()
    fresh.agent("worker", model, WORKER_TOOLS)
    effects.hold(f"{model}-held")
    fresh.api.send("worker", "go")
    effects.await_count(f"{model}-held")
    yield fresh
    effects.release(f"{model}-held")


def turns(node: LiveNode) -> list[tuple[str, str]]:
    return [(entry["turn"], entry["status"]) for entry in node.entries("turn.ended")]


@pytest.mark.parametrize("working", ["resume"], indirect=True)
def test_a_killed_node_goes_on_with_the_same_turn(
    working: LiveNode, effects: Effects, models: ModelServer
) -> None:
    node, before = working, working.row("worker")
    first_run = node.os_pid
    [turn] = [entry["turn"] for entry in node.entries("turn.started")]
    node.kill()
    node.up()
    assert node.left(first_run) == []
    effects.await_count("resume-held", 2)
    after = node.row("worker")
    assert after["pid"] > before["pid"]
    resumed = node.api.inspect("worker")["turn"]
    assert resumed is not None and resumed["attempt"] == 2
    effects.release("resume-held")
    until(lambda: turns(node), "the turn ends")
    assert turns(node) == [(turn, "ok")]
    assert [effects.count(f"resume-{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert len([request for request in models.requests() if request["body"]["model"] == "resume"]) == 5
    tally = node.api.status()["messages"]
    assert (tally["accepted"], tally["acknowledged"], tally["in_flight"]) == (1, 1, 0)


def test_a_turn_whose_cell_is_killed_between_its_stages_does_and_asks_nothing_twice(
    fresh: LiveNode, effects: Effects, models: ModelServer, tmp_path: Path
) -> None:
    """All places, and who else may be killed there: ``make prove PART=stages``."""
    fresh.up()
    fresh.api.spawn(
        "walker", behaviour="stumbles", tools=("count",), provider="scripted", model="ten-effects"
    )
    answer = fresh.api.send("walker", str(tmp_path), wait_s=WAIT_S)
    assert (answer["status"], answer["reply"]) == ("ok", "All ten are done.")
    assert len(list(tmp_path.iterdir())) == 3
    assert answer["metadata"]["attempts"] == 4
    assert [effects.count(f"ten-{number}") for number in range(10)] == [1] * 10
    asked = [request for request in models.requests() if request["body"]["model"] == "ten-effects"]
    assert len(asked) == 11


@pytest.mark.parametrize("working", ["doubt"], indirect=True)
def test_an_effect_nobody_knows_the_end_of_is_put_before_a_person(
    working: LiveNode, effects: Effects
) -> None:
    node = working
    node.kill()
    node.up()
    [doubt] = node.api.doubts.list()
    assert (doubt["tool"], "doubt-held" in doubt["arguments"]) == ("count", True)
    until(lambda: node.row("worker")["state"] == "suspended", "it waits for a person")
    effects.release("doubt-held")
    node.api.doubts.resolve(doubt["id"], "done")
    until(lambda: turns(node), "the turn ends")
    assert [effects.count(f"doubt-{name}") for name in ("1", "2", "held", "3")] == [1, 1, 1, 1]
    assert node.api.doubts.list() == []
    resolved = node.entries("tool.resolved")
    assert [(entry["resolution"], entry["by"]) for entry in resolved] == [("done", f"operator:{os.getuid()}")]


def test_a_clean_stop_and_start_brings_back_what_was_meant_to_run(
    fresh: LiveNode, models: ModelServer
) -> None:
    node = fresh
    node.up()
    node.api.spawn("team", supervisor=True, intensity=(3, 10.0))
    node.api.spawn("ada", under="/user/team", provider="scripted", model="memory")
    node.api.spawn("resting")
    node.api.stop("resting")
    node.api.spawn("passing", restart="temporary")
    node.api.spawn("finished", restart="transient")
    node.api.stop("finished")
    assert "heron" in node.api.send("ada", "remember heron", wait_s=WAIT_S)["reply"]
    pids = {row["address"]: row["pid"] for row in node.api.ps()}
    node.api.spawn("poisoned", behaviour="raises", restart="temporary")
    node.api.send("poisoned", "crash")
    [letter] = until(node.api.deadletters, "the message of a process that is no more is a dead letter")
    node.down()
    node.up()
    rows = {row["address"]: row for row in node.api.ps()}
    assert set(rows) == {"/user", "/user/team", "/user/team/ada", "/user/resting", "/user/finished"}
    until(lambda: node.row("ada")["state"] == "running", "ada runs again")
    assert [rows[f"/user/{name}"]["slot"] for name in ("resting", "finished")] == ["stopped", "stopped"]
    assert node.row("ada")["pid"] > max(pids.values())
    assert node.api.inspect("team")["spec"]["intensity"] == [3, 10.0]
    assert node.api.deadletters() == [letter]
    node.api.send("ada", "which word?", wait_s=WAIT_S)
    [*_, last] = [request["body"] for request in models.requests() if request["body"]["model"] == "memory"]
    assert [message["content"] for message in last["messages"][1:]] == [
        "remember heron",
        "I will remember the word heron.",
        "which word?",
    ]
    node.api.start("/user/resting")
    assert "391" in node.api.send("resting", "what is 17*23", wait_s=WAIT_S)["reply"]


@pytest.mark.slow
def test_mail_that_waited_is_handled_after_a_kill(fresh: LiveNode, effects: Effects) -> None:
    node = fresh
    node.up()
    effects.hold("mail")
    node.api.spawn("busy", behaviour="planner", tools=["look"])
    call = json.dumps([["look", {"port": effects.port, "effect": "mail"}]])
    for _ in range(3):
        node.api.send("busy", call)
    effects.await_count("mail")
    assert node.row("busy")["mailbox"] == 3
    node.kill()
    node.up()
    effects.release("mail")
    until(lambda: len(turns(node)) == 3, "all three are handled")
    assert {status for _, status in turns(node)} == {"ok"}
    tally = node.api.status()["messages"]
    assert (tally["accepted"], tally["acknowledged"], tally["in_flight"]) == (3, 3, 0)


@pytest.mark.slow
def test_after_a_kill_the_parked_stay_parked_and_the_temporary_are_gone_with_their_mail_kept(
    fresh: LiveNode, effects: Effects
) -> None:
    node = fresh
    node.up()
    node.api.spawn("crasher", behaviour="raises_shared")  # six cells of its own may take over a minute
    for _ in range(2):
        node.api.send("crasher", "always")
    until(lambda: node.row("crasher")["slot"] == "parked", "it is parked")
    until(lambda: len(node.api.deadletters()) == 2, "its mail is dead")
    with pytest.raises(WeftosError, match="is parked; weftos start /user/crasher"):
        node.api.send("crasher", "hello")
    effects.hold("brief")
    node.api.spawn("brief", behaviour="planner", tools=["look"], restart="temporary")
    call = json.dumps([["look", {"port": effects.port, "effect": "brief"}]])
    open_turn, waiting = (node.api.send("brief", call)["message"] for _ in range(2))
    effects.await_count("brief")
    node.kill()
    node.up()
    assert node.row("crasher")["slot"] == "parked"
    assert "/user/brief" not in [row["address"] for row in node.api.ps()]
    letters = {letter["id"]: letter["why"] for letter in node.api.deadletters()}
    assert len(letters) == 4
    assert {open_turn, waiting} <= set(letters)
    effects.release("brief")
    node.api.start("/user/crasher")
    assert node.row("crasher")["state"] == "running"
    tally = node.api.status()["messages"]
    assert (tally["accepted"], tally["dead"], tally["in_flight"]) == (4, 4, 0)


@pytest.mark.slow
def test_a_node_boots_without_what_its_configuration_does_not_name_any_more(fresh: LiveNode) -> None:
    node = fresh
    node.up()
    node.api.spawn("planner", behaviour="planner", tools=["worker_pid"])
    node.agent("agent", "memory", ["worker_pid", "calculator"])
    node.api.spawn("ada")
    node.kill()
    node.configuration = ""
    node.up()
    assert "391" in node.api.send("ada", "what is 17*23", wait_s=WAIT_S)["reply"]
    until(lambda: node.row("planner")["slot"] == "parked", "what cannot start is parked")
    assert "behaviour 'planner' is not configured" in node.entries("process.exited")[-1]["detail"]
    answer = node.api.send("agent", "hello", wait_s=WAIT_S)
    assert (answer["status"], "scripted" in answer["reply"]) == ("error", True)


def test_a_killed_cell_is_one_event_and_its_turn_goes_on(
    node: LiveNode, effects: Effects, models: ModelServer
) -> None:
    node.agent("worker", "cell", WORKER_TOOLS)
    node.agent("bystander", "memory", WORKER_TOOLS)
    before, other = node.row("worker"), node.row("bystander")
    assert before["os_pid"] == other["os_pid"]
    effects.hold("cell-held")
    message = node.api.send("worker", "go")["message"]
    effects.await_count("cell-held")
    os.kill(before["os_pid"], signal.SIGKILL)
    until(lambda: node.row("worker")["pid"] > before["pid"], "it is back")
    after = node.row("worker")
    effects.release("cell-held")
    [end] = until(lambda: node.ended(message), "the turn ends")
    assert (end["status"], end["entry_pid"]) == ("ok", after["pid"])
    assert [effects.count(f"cell-{name}") for name in ("1", "2", "held", "3")] == [1, 1, 1, 1]
    assert len([request for request in models.requests() if request["body"]["model"] == "cell"]) == 5
    started = [entry for entry in node.entries("turn.started") if entry["message"] == message]
    assert [entry["attempt"] for entry in started] == [1, 2]
    reasons = {entry["pid"]: entry["reason"] for entry in node.entries("process.exited")}
    assert {reasons[before["pid"]], reasons[other["pid"]]} <= {"crash", "cell_lost"}
    [lost] = node.logged("cell lost")
    assert lost["processes"] == 2


def test_a_killed_cell_takes_those_behind_it_along_and_a_node_killed_meanwhile_has_the_same_tree(
    fresh: LiveNode,
) -> None:
    node, names = fresh, ("first", "second", "third")
    gate = node.place / "gate"
    node.up()
    status, _, err = node.command("spawn", "team", "--supervisor", "--strategy", "rest_for_one")
    assert status == 0, err
    for name in names:
        node.api.spawn(name, behaviour="gated", under="/user/team", system_prompt=str(gate))
    node.api.spawn("passing", under="/user/team", restart="temporary")
    assert node.api.inspect("team")["spec"]["strategy"] == "rest_for_one"
    before = {name: node.row(name) for name in names}

    def back(*wanted: str) -> bool:
        rows = [node.row(name) for name in wanted]
        new = all(row["pid"] > before[row["name"]]["pid"] for row in rows)
        return new and all(row["state"] == "running" for row in rows)

    os.kill(before["second"]["os_pid"], signal.SIGKILL)
    until(lambda: back("second", "third"), "both are back")
    assert node.row("first")["pid"] == before["first"]["pid"]
    assert node.row("second")["pid"] < node.row("third")["pid"]
    assert "/user/team/passing" not in [row["address"] for row in node.api.ps()]
    ends = {entry["address"].rpartition("/")[2]: entry for entry in node.entries("process.exited")}
    why = f"rest_for_one: second failed ({ends['second']['reason']})"
    assert ends["second"]["reason"] in ("crash", "cell_lost")
    assert [(ends[name]["reason"], ends[name]["detail"]) for name in ("third", "passing")] == [
        ("shutdown", why)
    ] * 2

    before = {name: node.row(name) for name in names}
    gate.touch()
    os.kill(before["first"]["os_pid"], signal.SIGKILL)
    until(lambda: node.row("first")["pid"] > before["first"]["pid"], "the restart has come to the starts")
    assert [node.row(name)["slot"] for name in names] == ["restarting"] * 3
    assert node.api.stop("third")["state"] == "stopped"
    node.kill()
    gate.unlink()
    node.up()
    until(lambda: back("first", "second"), "what was meant to run is back")
    assert node.row("first")["pid"] < node.row("second")["pid"]
    assert node.row("third")["slot"] == "stopped"
    node.api.start("/user/team/third")
    assert back("third")


@pytest.mark.parametrize("helper", ["gateway", "archive"])
def test_a_killed_helper_is_healed_and_named(node: LiveNode, helper: str) -> None:
    before = node.helper(helper)
    os.kill(before["os_pid"], signal.SIGKILL)

    def healed() -> bool:
        row = node.row(helper)
        return bool(row["restarts"] == 1 and row["state"] == "running" and row["os_pid"] != before["os_pid"])

    until(healed, f"{helper} runs again")
    assert len(node.logged("helper died", f'"helper": "{helper}"')) == 1
    exits = [entry for entry in node.entries("process.exited") if entry["address"] == f"/kernel/{helper}"]
    assert [(entry["pid"], entry["reason"]) for entry in exits] == [(before["pid"], "crash")]
    assert node.talk(f"after-{helper}", "memory")["status"] == "ok"
    assert node.api.log(limit=1)["rows"]


def test_a_killed_worker_is_healed_and_a_call_without_effects_made_again(
    node: LiveNode, effects: Effects
) -> None:
    node.api.spawn("digger", behaviour="planner", tools=["look", "worker_pid"])
    [first] = node.plan("digger", ("worker_pid", {}))
    effects.hold("dig")
    node.api.send("digger", f'[["look", {{"port": {effects.port}, "effect": "dig"}}], ["worker_pid", {{}}]]')
    effects.await_count("dig")
    os.kill(int(first["text"]), signal.SIGKILL)
    effects.await_count("dig", 2)
    effects.release("dig")
    [second] = node.plan("digger", ("worker_pid", {}))
    assert second["text"] != first["text"]
    intents = [entry for entry in node.entries("tool.intent") if entry["tool"] == "look"]
    assert [entry["attempt"] for entry in intents][-2:] == [1, 2]


@pytest.mark.slow
def test_without_what_bears_the_gateway_a_question_is_answered_with_what_to_do(fresh: LiveNode) -> None:
    """Another one could not be closed from its birth; so it is said, at once, and a restart heals it."""
    fresh.up()
    gateway, nursery = fresh.helper("gateway")["os_pid"], fresh.nursery()
    os.kill(nursery, signal.SIGKILL)
    until(lambda: not alive(gateway), "the gateway has ended too")
    answer = fresh.talk("cut-off", "five-calls")
    assert answer["status"] == "error"
    assert "the process that alone can start the gateway is gone" in answer["reply"]
    assert "restart the node" in answer["reply"]
    [fault] = fresh.api.status()["faults"]
    assert fault.startswith("gateway: the process that alone")
    assert fresh.row("gateway")["state"] == "exited"
    fresh.logged("helper is lost", "restart the node")
    fresh.down()
    fresh.up()
    assert fresh.talk("joined", "five-calls", tools=FILE_TOOLS)["status"] == "ok"


def test_a_gateway_killed_under_a_question_asks_it_again(node: LiveNode, models: ModelServer) -> None:
    node.agent("patient", "five-calls", ("calculator", "file_read", "file_list", "file_write"))
    events = node.api.watch("patient", "go")
    next(event for event in events if event["event"] == "delta" and "It" in event.get("text", ""))
    os.kill(node.helper("gateway")["os_pid"], signal.SIGKILL)
    end = list(events)[-1]
    assert (end["event"], end["status"]) == ("reply", "ok")
