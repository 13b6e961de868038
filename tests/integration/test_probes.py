"""A node is killed between an intent and its outcome, and a tool's probe says what became of it: on real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.effects import Effects
from tests.integration.live_node import LiveNode, until

BANK = '''
import json, socket
from pathlib import Path
from weftos import EffectId, Probed, tool

def ask(**words):
    with socket.create_connection(("127.0.0.1", {port})) as link:
        link.sendall(json.dumps(words).encode() + b"\\n")
        return json.loads(link.makefile().readline())["counted"]

def find(key: EffectId) -> Probed:
    if Path(__file__).with_name("closed").exists():
        raise ConnectionError("the bank is closed")
    return Probed("landed", "paid, says the bank") if ask(seen=key) else Probed("not_landed")

@tool(probe=find)
def pay(before: str, after: str, key: EffectId) -> str:
    """Pay, with a word before and a word after."""
    ask(count=before)
    ask(count=key)
    ask(count=after)
    return "paid"
'''


def bank(node: LiveNode, effects: Effects) -> Path:
    """The node, with an agent that pays; where the code of its tool is."""
    code = node.place / "code"
    code.mkdir(mode=0o700)
    (code / "bank_tools.py").write_text(BANK.replace("{port}", str(effects.port)))
    node.configuration += f'[tools.pay]\nimport = "bank_tools:pay"\npython_path = ["{code}"]\n'
    node.up()
    node.api.spawn("payer", behaviour="planner", tools=["pay"])
    return code


@pytest.mark.parametrize(
    ("held", "attempts", "text"),
    [("after", 1, "paid, says the bank"), pytest.param("before", 2, "paid", marks=pytest.mark.slow)],
)
def test_a_node_that_is_killed_under_a_call_has_its_effect_exactly_once(
    fresh: LiveNode, effects: Effects, held: str, attempts: int, text: str
) -> None:
    """Killed behind the effect it is not made again; killed before, it is, under the same id. Nobody is asked."""
    node = fresh
    bank(node, effects)
    words = {"before": f"bank-{held}-1", "after": f"bank-{held}-2"}
    effects.hold(words[held])
    message = node.api.send("payer", json.dumps([["pay", words]]))["message"]
    effects.await_count(words[held])
    node.kill()
    node.up()
    effects.await_count(words[held], attempts)
    effects.release(words[held])
    [end] = until(lambda: node.ended(message), "the turn ends")
    [told] = json.loads(end["reply"])
    assert (told["status"], told["text"]) == ("ok", text)
    intents = node.entries("tool.intent")
    assert [(one["attempt"], one["effect_id"]) for one in intents] == [
        (number + 1, intents[0]["effect_id"]) for number in range(attempts)
    ]
    assert effects.count(intents[0]["effect_id"]) == 1
    [probed] = node.entries("tool.probed")
    assert probed["answer"] == ("landed" if held == "after" else "not_landed")
    assert [entry["status"] for entry in node.entries("tool.outcome")] == ["ok"]
    assert node.api.doubts.list() == []


def test_a_doubt_says_why_its_probe_does_not_know_and_closes_itself_at_a_boot_at_which_it_does(
    fresh: LiveNode, effects: Effects
) -> None:
    node = fresh
    closed = bank(node, effects) / "closed"
    effects.hold("closed-2")
    words = {"before": "closed-1", "after": "closed-2"}
    message = node.api.send("payer", json.dumps([["pay", words]]))["message"]
    effects.await_count("closed-2")
    node.kill()
    closed.touch()
    node.up()
    [doubt] = until(node.api.doubts.list, "the probe was asked")
    [intent] = node.entries("tool.intent")
    assert doubt["probe"] == "unknown: the probe failed: ConnectionError: the bank is closed"
    assert doubt["effect_id"] == intent["effect_id"]
    status, out, _ = node.command("doubts", "show", doubt["id"])
    assert (status, "the bank is closed" in out, intent["effect_id"] in out) == (0, True, True)
    node.down()
    closed.unlink()
    node.up()
    [end] = until(lambda: node.ended(message), "the turn ends")
    assert json.loads(end["reply"])[0]["text"] == "paid, says the bank"
    assert effects.count(intent["effect_id"]) == 1
    assert [entry["by"] for entry in node.entries("tool.resolved")] == ["probe"]
    assert node.api.doubts.list() == []
    effects.release("closed-2")
