"""What a model is shown, end to end: files of the workspace, what was said before a cancel; all of it on record."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.live_node import WAIT_S, LiveNode, until

ENDLESS = {"provider": "scripted", "model": "endless"}


def shown(node: LiveNode, turn: object) -> dict[str, str]:
    """The texts of the sections of the newest question of a turn, as they were hashed."""
    found = json.loads(node.cli("context", str(turn), "--json").stdout)
    assert found["fault"] == ""
    return {row["name"]: row["text"] for row in found["sections"]}


def test_what_was_said_before_a_cancel_is_shown_in_the_next_turn_behind_the_files_of_the_workspace(
    node: LiveNode, tmp_path: Path
) -> None:
    workspace, others = tmp_path / "w", tmp_path / "others"
    workspace.mkdir()
    (workspace / "IDENTITY.md").write_text("You are Ada.")
    others.write_text("what others keep")
    (workspace / "USER.md").symlink_to(others)
    node.api.spawn("teller", provider="offline", tools=(), workspace=str(workspace))
    message = str(node.api.send("teller", "tell me all", options=ENDLESS)["message"])
    turn = f"t{message[1:]}"

    def said() -> bool:
        return any(each["event"] == "llm_token" for each in node.api.turns.events(turn, follow=False))

    until(said, "the model has begun")
    node.api.cancel("teller", message=message, why="enough")
    until(lambda: node.ended(message), "the turn has ended")
    answered = node.api.send("teller", "and now?", wait_s=WAIT_S)
    assert answered["status"] == "ok"
    texts = shown(node, answered["turn"])
    assert texts["identity"].endswith("You are Ada.") and "user" not in texts
    assert "what others keep" not in str(texts) and any(
        "prompt: USER.md: not shown" in line["text"] for line in node.logged("agent")
    )
    history = texts["history"]
    assert (
        history.startswith("user: tell me all\nassistant: ")
        and "was ended before its answer was whole" in history
    )
    assert len(history.split("\n\n[weftos:")[0]) > len("user: tell me all\nassistant: "), (
        "some of it was said"
    )
