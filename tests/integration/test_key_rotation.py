"""A running node changes its keys: calls go on, it starts again with them, also when it was killed at once."""

from __future__ import annotations

import json
from pathlib import Path

from chain.keys import load_pairs
from tests.integration.effects import Effects
from tests.integration.live_node import LiveNode, until

TOOLS = ("calculator", "count", "look")


def key_names(node: LiveNode) -> list[str]:
    return sorted(path.name for path in node.data.glob("keys*"))


def rotate(node: LiveNode, reason: str) -> dict[str, object]:
    done = node.cli("chain", "rotate", "--reason", reason, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_calls_go_on_under_new_keys_and_after_restarts(
    fresh: LiveNode, effects: Effects, tmp_path: Path
) -> None:
    origin = fresh.up()["origin"]
    assert (
        fresh.talk("before", "five-calls", tools=("calculator", "file_write", "file_read", "file_list"))[
            "status"
        ]
        == "ok"
    )
    fresh.agent("worker", "resume", TOOLS)
    effects.hold("resume-held")
    fresh.api.send("worker", "go")
    effects.await_count("resume-held")
    first = rotate(fresh, "a call is on its way")
    assert (first["origin"], first["number"]) == (origin, 1)
    effects.release("resume-held")
    until(lambda: fresh.entries("turn.ended")[1:], "the turn goes on")
    assert [entry["status"] for entry in fresh.entries("turn.ended")] == ["ok", "ok"]
    assert (
        fresh.talk("after", "five-calls", tools=("calculator", "file_write", "file_read", "file_list"))[
            "status"
        ]
        == "ok"
    )
    rotate(fresh, "and again")
    fresh.kill()
    assert fresh.up()["origin"] == origin
    assert (
        fresh.talk("again", "five-calls", tools=("calculator", "file_write", "file_read", "file_list"))[
            "status"
        ]
        == "ok"
    )
    assert fresh.row("worker")["pid"]
    outcomes = fresh.entries("tool.outcome")
    assert len(outcomes) > 15 and {entry["status"] for entry in outcomes} == {"ok"}
    fresh.down()
    fresh.up()
    assert key_names(fresh) == ["keys"]
    assert [entry["number"] for entry in fresh.entries("key.rotated")] == [1, 2]
    pairs = load_pairs(fresh.data / "keys")
    shown = json.loads(fresh.cli("chain", "key", "--all", "--json").stdout)
    assert shown["origin"] == origin and shown["ed25519"] == pairs[-1].ed25519.text
    assert [row["ed25519"] for row in shown["all"]] == [pair.ed25519.text for pair in pairs]
    assert fresh.cli("chain", "key", "--all").stdout == "".join(pair.text for pair in pairs)
    assert fresh.cli("chain", "key").stdout == pairs[-1].text
    assert pairs[1].ed25519.text == first["ed25519"] and len(pairs) == 3
