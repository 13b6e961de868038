"""What is seen of a turn of a real node, and where its trace goes: also when the node is killed in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until
from tests.servers.processes import model_server
from tests.servers.receivers import receiver
from weftos import WeftosError

SECRET = "sk-live-" + "7" * 32
CALL = {"name": "calculator", "arguments": {"expression": "17*23"}}
SCRIPT = {
    "by": "round",
    "answers": [
        {"text": "I will compute.", "tool_calls": [CALL]},
        {"faults": [{"text": "It is " * 400, "words_ms": 20}], "text": f"It is 391, {SECRET}."},
    ],
}


@contextmanager
def node_with(configuration: str) -> Iterator[LiveNode]:
    node = LiveNode(configuration=configuration)
    try:
        node.up()
        yield node
    finally:
        assert node.end() == []


def test_a_turn_of_a_killed_node_is_seen_whole_and_is_one_trace_with_one_root(tmp_path: Path) -> None:
    with model_server(tmp_path, SCRIPT) as models, receiver(tmp_path / "spans", "take") as taker:
        configuration = (
            f'[providers.scripted]\nbase_url = "{models.base_url}"\nmodel = "m"\nkind = "openai"\n'
            f'[agent.trace]\nexport = "otlp"\nendpoint = "{taker.endpoint}"\ninclude_prompts = true\n'
        )
        with node_with(configuration) as node:
            node.api.spawn("ada", provider="scripted", tools=["calculator"])
            sent = node.api.send("ada", f"what is 17*23, by {SECRET}")
            turn = f"t{sent['message'][1:]}"
            first = []
            for event in node.api.turns.events(turn):
                first.append(event)
                if event["event"] == "llm_token" and "action_completed" in {one["event"] for one in first}:
                    break  # in the middle of the second answer
            node.kill()
            node.up()
            rows = list(node.api.turns.events(turn))
            assert rows[: len(first)] == first
            seen = [(row["event"], row["step"]) for row in rows]
            call, answer = seen[1][1], first[-1]["step"]
            assert seen[0][0] == "llm_token" and seen[1:4] == [
                ("action_started", call),
                ("shield_verdict", call),
                ("action_completed", call),
            ]
            again = seen.index(("reset", answer))
            assert set(seen[4:again]) == {("llm_token", answer)}
            assert seen[again + 1 :] == [("llm_token", answer), ("response_complete", "")]
            assert rows[-1]["data"]["status"] == "ok"

            def ended() -> list[dict[str, Any]]:
                return [one for one in taker.spans() if one["attributes"].get("weftos.turn") == turn]

            until(ended, "the trace has come")
            spans = taker.spans()
            roots = [span for span in spans if not span["parent"]]
            assert [root["name"] for root in roots] == ["invoke_agent ada"]
            assert {span["trace"] for span in spans} == {roots[0]["trace"]}
            ids = {span["id"] for span in spans}
            assert len(ids) == len(spans) and {span["parent"] for span in spans if span["parent"]} <= ids
            tools = [span for span in spans if span["name"].startswith("execute_tool")]
            assert [span["attributes"]["gen_ai.tool.name"] for span in tools] == ["calculator"]
            (retry,) = [span for span in spans if span["name"] == "attempt 2"]
            assert retry["links"] == [retry["parent"]]
            assert roots[0]["attributes"]["weftos.turn.attempts"] == 2
            assert any(span["name"] == "stage execute" and span["parent"] == roots[0]["id"] for span in spans)
            assert "17*23" in json.dumps(spans) and SECRET not in json.dumps(spans)
            until(lambda: node.api.status()["traces"]["exported"] == 1, "it is counted")
            shown = node.cli("trace", "--turn", turn, "--json")
            assert json.loads(shown.stdout)["trace_id"] == roots[0]["trace"]
            with pytest.raises(WeftosError, match="numbered from 0"):
                list(node.api.turns.events(turn, 10_000))
            node.api.erasure.erase("asked for", target="ada", session="main")
            with pytest.raises(WeftosError, match="are kept"):
                list(node.api.turns.events(turn))


def test_a_receiver_that_never_answers_holds_up_no_turn(tmp_path: Path) -> None:
    with (
        receiver(tmp_path / "spans", "hang") as taker,
        node_with(f'[agent.trace]\nexport = "jaeger"\nendpoint = "{taker.endpoint}"\n') as node,
    ):
        node.api.spawn("ada")
        for _ in range(3):
            assert node.api.send("ada", "what is 17*23", wait_s=WAIT_S)["status"] == "ok"
        until(taker.spans, "it was asked")
        traces = node.api.status()["traces"]
        assert traces["exported"] == 0 and traces["waiting"] + traces["dropped"] == 3


def test_traces_go_into_a_file_without_what_was_said_and_conversations_with_it(tmp_path: Path) -> None:
    with node_with('[agent.trace]\nexport = "file"\n') as node:
        node.api.spawn("ada")
        assert node.api.send("ada", "what is 17*23", wait_s=WAIT_S)["status"] == "ok"
        assert node.cli("sessions", "export", "ada", "--out", str(node.place / "main.jsonl")).returncode == 0
        again = node.cli("sessions", "import", str(node.place / "main.jsonl"), "ada", "--session", "copy")
        assert "/user/ada remembers 1 exchanges as copy" in again.stdout
        assert node.api.inspect("ada")["sessions"]["copy"] == 2
        assert "17*23" in node.cli("sessions", "search", "WHAT", "is", "--of", "ada").stdout
        place = node.data / "traces" / "turns.jsonl"
        until(lambda: place.exists() and place.read_text().endswith("\n"), "the trace is there")
        (line,) = place.read_text().splitlines()
        assert "17*23" not in line and json.loads(line)["outcome"] == "ok"
        assert place.stat().st_mode & 0o777 == 0o600
