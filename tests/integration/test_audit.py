"""An auditor beside a real node: the files are read while it writes them, and proofs are made of what it has signed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.live_node import WAIT_S, LiveNode, until, whole_lines


def document(node: LiveNode, *words: str) -> Any:
    status, out, err = node.command(*words, "--json")
    assert status == 0, err
    return json.loads(out)


def test_what_happens_is_followed_explained_and_proved_while_the_node_runs(
    node: LiveNode, tmp_path: Path
) -> None:
    node.api.spawn("ada", behaviour="planner", tools=["calculator", "file_read"])
    seen = tmp_path / "followed"
    with open(seen, "w") as out:
        argv = [sys.executable, "-P", "-m", "weftos", "chain", "log", "-f", "--kind", "tool", "--json"]
        following = subprocess.Popen(
            argv, stdout=out, stderr=subprocess.PIPE, text=True, env=node.variables()
        )
        done, gone = node.plan(
            "ada", ("calculator", {"expression": "17 * 23"}), ("file_read", {"path": "none"})
        )
        assert (done["text"], gone["status"]) == ("391", "error")

        def rows() -> list[dict[str, Any]]:
            return [json.loads(line) for line in whole_lines(seen)]

        until(lambda: sum(row["kind"] == "tool.outcome" for row in rows()) == 2, "both outcomes are followed")
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=WAIT_S)
    assert (following.returncode, err) == (0, "")
    followed = rows()
    outcome = followed[-1]
    assert outcome["body"]["tool"] == "file_read"

    found = document(node, "chain", "log", "--kind", "tool", "--address", "/user/ada")["rows"]
    assert [row["seq"] for row in found] == [row["seq"] for row in followed]
    path = document(node, "chain", "why", str(outcome["seq"]))
    kinds = [row["kind"] for row in path]
    assert kinds[:3] == ["operator.command", "message.accepted", "turn.started"]
    assert kinds[-3:] == ["tool.verdict", "tool.intent", "tool.outcome"]
    story = document(node, "chain", "turn", outcome["body"]["turn"])
    assert [(step["tool"], step["status"]) for step in story["steps"]] == [
        ("calculator", "ok"),
        ("file_read", "error"),
    ]
    assert (story["status"], story["address"]) == ("ok", "/user/ada")
    assert "sent by operator, user" in story["sent_by"]
    spans = document(node, "chain", "timeline", "ada")
    assert [span["status"] for span in spans if span["kind"] == "tool.proposed"] == ["ok", "error"]
    assert document(node, "chain", "stats")["kinds"]["tool.outcome"] == 2

    keys = tmp_path / "keys"
    keys.write_text(node.command("chain", "key")[1])
    until(
        lambda: document(node, "chain", "status")["published_size"] > outcome["seq"],
        "what happened is published",
    )
    file = str(tmp_path / "receipt")
    made = document(node, "chain", "receipt", str(outcome["seq"]), "-o", file, "--with-body")
    checked = document(node, "chain", "check", file, "--key", str(keys))
    assert checked["body"] == outcome["body"]
    proof = document(node, "chain", "prove", str(outcome["seq"]), str(made["size"]))
    assert (proof["size1"], proof["size2"]) == (outcome["seq"], made["size"])
