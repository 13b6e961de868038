"""Trajectories on a real node, as a person has them: listed, rated, exported, and without what was erased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.live_node import WAIT_S, LiveNode


def exported(node: LiveNode, file: Path) -> list[dict[str, Any]]:
    node.cli("trajectories", "ada", "--export", str(file))
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_turns_are_listed_rated_and_exported_until_they_are_erased(node: LiveNode, tmp_path: Path) -> None:
    node.api.spawn("ada", provider="offline", tools=("calculator",))
    turns = [
        str(node.api.send("ada", "what is 17*23", session=session, wait_s=WAIT_S)["turn"])
        for session in ("main", "other")
    ]
    rows = json.loads(node.cli("trajectories", "ada", "--json").stdout)
    assert [row["turn"] for row in rows] == turns
    assert {(row["outcome"], row["provider"], row["tool_calls"], row["failed_calls"]) for row in rows} == {
        ("ok", "offline", 1, 0)
    }
    counted = rows[0]["scores"]["overall"]
    assert counted > 0.5 and rows[0]["overall"] == counted
    assert turns[0] in node.cli("trajectories", "ada").stdout
    said = node.cli("rate", turns[0], "down", "--why", "zanzibarwren").stdout
    assert f"its score is {counted / 2:.2f}" in said
    assert node.cli("rate", turns[1], "up").stdout.startswith(f"turn {turns[1]} is rated up")
    node.down()
    node.up()
    trace = json.loads(node.cli("trace", "--turn", turns[0], "--json").stdout)
    assert trace["stages"][-1]["stage"] == "learn" and trace["rating"]["overall"] == counted / 2
    newest, oldest = exported(node, tmp_path / "before")
    assert (oldest["asked"], oldest["rated_why"], oldest["thumb"]) == (
        "what is 17*23",
        "zanzibarwren",
        "down",
    )
    assert "391" in oldest["answered"] and newest["rated_why"] == ""
    node.archive_answers()
    node.cli("chain", "erase", "--session", "main", "--of", "ada", "--reason", "it must go")
    assert [row["turn"] for row in exported(node, tmp_path / "after")] == [turns[1]]
    assert node.cli("trace", "--turn", turns[0]).stdout.startswith(f"turn {turns[0]}: erased")
    assert json.loads(node.cli("trace", "--turn", turns[1], "--json").stdout)["rating"]["thumb"] == "up"
