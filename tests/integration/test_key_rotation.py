"""A running node changes its keys: calls go on, and it starts again with them, also when it was killed at once."""

from __future__ import annotations

import json
from typing import Any

from chain.keys.keys import load_pairs
from tests.integration.effects import Effects
from tests.integration.live_node import LiveNode, until

TOOLS = ("calculator", "count", "look")
FIVE_CALLS = ("calculator", "file_write", "file_read", "file_list")


def said(node: LiveNode, *words: str) -> str:
    status, out, err = node.command(*words)
    assert status == 0, err
    return out


def rotate(node: LiveNode, reason: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(said(node, "chain", "rotate", "--reason", reason, "--json"))
    return answer


def calls_run(node: LiveNode, name: str) -> None:
    assert node.talk(name, "five-calls", tools=FIVE_CALLS)["status"] == "ok"


def test_calls_go_on_under_new_keys_and_after_restarts(fresh: LiveNode, effects: Effects) -> None:
    origin = fresh.up()["origin"]
    calls_run(fresh, "before")
    fresh.agent("worker", "rekeyed", TOOLS)
    effects.hold("rekeyed-held")
    message = fresh.api.send("worker", "go")["message"]
    effects.await_count("rekeyed-held")
    first = rotate(fresh, "a call is on its way")
    assert (first["origin"], first["number"]) == (origin, 1)
    effects.release("rekeyed-held")
    until(lambda: fresh.ended(message), "the turn goes on")
    calls_run(fresh, "after")
    rotate(fresh, "and again")
    fresh.kill()
    assert fresh.up()["origin"] == origin
    calls_run(fresh, "again")
    assert {entry["status"] for entry in fresh.entries("turn.ended")} == {"ok"}
    assert {entry["status"] for entry in fresh.entries("tool.outcome")} == {"ok"}
    fresh.down()
    fresh.up()
    assert [path.name for path in fresh.data.glob("keys*")] == ["keys"]
    assert [entry["number"] for entry in fresh.entries("key.rotated")] == [1, 2]


def test_the_keys_are_shown_as_they_are_and_were(fresh: LiveNode) -> None:
    origin = fresh.up()["origin"]
    first = said(fresh, "chain", "key")
    assert said(fresh, "chain", "key", "--all") == first
    changed = [rotate(fresh, reason) for reason in ("one", "two")]
    pairs = load_pairs(fresh.data / "keys")
    assert len(pairs) == 3 and first == pairs[0].text
    assert said(fresh, "chain", "key") == pairs[-1].text
    assert said(fresh, "chain", "key", "--all") == "".join(pair.text for pair in pairs)
    shown = json.loads(said(fresh, "chain", "key", "--all", "--json"))
    assert (shown["origin"], shown["ed25519"]) == (origin, changed[-1]["ed25519"])
    assert [row["ml_dsa_65"] for row in shown["all"][1:]] == [answer["ml_dsa_65"] for answer in changed]
