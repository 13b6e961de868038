"""Which model an agent asks, end to end: the configuration, the cell that proposes, the node that decides."""

from __future__ import annotations

from tests.integration.live_node import WAIT_S, LiveNode, until

EXTRA = """
[routing]
mode = "tiered"
[[routing.tiers]]
name = "free"
models = ["offline"]
[[routing.tiers]]
name = "standard"
models = ["scripted/endless", "single/endless"]
selection = "random"
[[routing.tiers]]
name = "premium"
models = ["scripted/kept"]
selection = "random"
[routing.permissions]
deny = ["whole/*"]
[routing.permissions.roles]
operator = "premium"
agent = "free"
[[models]]
name = "scripted/five-calls"
tier = "elite"
"""
MIDDLING = (
    "Write a Python function that reads a table, then sorts its rows by date, and writes them to a new file without "
    "the first column."
)
HARD = (
    "Prove the theorem, then derive a rigorous bound for each case, then compare all of them step by step and justify "
    "exactly which architecture must be used in production, without leaving out any hypotheses. "
) * 4


def asked(node: LiveNode, turn: object) -> list[tuple[str, str]]:
    """Whom a turn has put questions to, as the ledger has it."""
    return [
        (entry["provider"], entry["model"]) for entry in node.entries("model.asked") if entry["turn"] == turn
    ]


def waits_for(node: LiveNode, name: str) -> str:
    waiting = node.row(name)["waiting"]
    return "" if waiting is None else waiting["kind"]


def test_a_greeting_and_hard_work_are_put_to_models_of_different_tiers(node: LiveNode) -> None:
    node.api.spawn("router", tools=())
    easy = node.api.send("router", "hello", wait_s=WAIT_S)
    assert asked(node, easy["turn"]) == [("offline", "")]
    hard = node.api.send("router", HARD, wait_s=WAIT_S)
    assert asked(node, hard["turn"]) == [("scripted", "kept")]
    said = [line["text"] for line in node.logged("agent")]
    assert any("wants free, role operator may have premium: offline/ of free" in text for text in said)
    assert any("scripted/kept of premium by random" in text for text in said)


def test_the_same_work_asked_for_by_an_agent_is_put_to_what_agents_may_have(node: LiveNode) -> None:
    node.api.spawn("serves", tools=())
    node.api.spawn("asks", behaviour="planner", tools=["ask"])
    [result] = node.plan("asks", ("ask", {"to": "serves", "text": HARD}))
    assert result["status"] == "ok"
    pid = node.row("serves")["pid"]
    models = {entry["provider"] for entry in node.entries("model.asked") if entry["entry_pid"] == pid}
    assert models == {"offline"}


def test_the_node_refuses_a_model_that_the_router_would_not_have_proposed(node: LiveNode) -> None:
    """A process that names its model goes around the router of its cell, and not around the gate of the node."""
    denied = node.talk("denied", "kept", provider="whole")
    assert denied["status"] == "error" and "routes: whole/kept is denied here" in str(denied["reply"])
    beyond = node.talk("beyond", "five-calls")
    assert "routes: operator may have premium at most, and scripted/five-calls is of elite" in str(
        beyond["reply"]
    )
    answers = [entry for entry in node.entries("model.answered") if entry["turn"] == beyond["turn"]]
    assert [entry["status"] for entry in answers] == ["error"]
    assert node.talk("within", "kept")["status"] == "ok"


def test_a_turn_that_goes_on_after_a_kill_asks_the_model_that_chance_had_given_it(node: LiveNode) -> None:
    node.api.spawn("lucky", tools=())
    message = str(node.api.send("lucky", MIDDLING)["message"])
    turn = f"t{message[1:]}"
    [before] = until(lambda: asked(node, turn), "a question is put")
    assert before[1] == "endless"
    node.kill()
    node.up()
    until(lambda: waits_for(node, "lucky") == "model", "it is put again")
    assert asked(node, turn) == [before]
    drawn = [entry for entry in node.entries("sys.value") if entry["turn"] == turn]
    assert [entry["op"] for entry in drawn].count("random") == 1
    assert node.api.status()["divergences"] == 0
    node.api.cancel("lucky", message=message)
    until(lambda: node.ended(message), "the turn ends")
