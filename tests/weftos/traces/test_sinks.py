"""A server of traces that refuses, hangs, sends elsewhere or ends: told in words, and nothing is followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weftos.traces.sinks
from kernel.shapes import read, told
from kernel.slices.feed.agent_trace import AgentTrace
from tests.servers.receivers import receiver
from tests.weftos.traces.example import EXAMPLE
from weftos.traces.sinks import FileSink, OtlpSink, SinkError


@pytest.mark.parametrize("mode", ["refuse", "redirect", "hang", "close", "nobody"])
def test_who_takes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(weftos.traces.sinks, "TIMEOUT_S", 0.5)
    place = tmp_path / "spans"
    with receiver(place, "close" if mode == "nobody" else mode) as taker:
        endpoint = "http://127.0.0.1:9/v1/traces" if mode == "nobody" else taker.endpoint
        with pytest.raises(SinkError) as raised:
            OtlpSink(endpoint, {}).take([(EXAMPLE, {})])
        assert str(raised.value)
        assert {one["path"] for one in taker.spans()} <= {"/v1/traces"}, "nothing is followed"


def test_what_is_taken_are_the_spans_of_the_trace(tmp_path: Path) -> None:
    with receiver(tmp_path / "spans", "take") as taker:
        OtlpSink(taker.endpoint, {"service.name": "weftos"}).take([(EXAMPLE, {})])
        spans = {span["name"]: span for span in taker.spans()}
    assert set(spans) == {
        "invoke_agent ada", "stage execute", "chat m", "execute_tool pay", "attempt 2", "wait_for_person",
    }  # fmt: skip
    assert spans["chat m"]["attributes"]["gen_ai.usage.input_tokens"] == 7
    assert spans["chat m"]["parent"] == spans["stage execute"]["id"]
    assert spans["execute_tool pay"]["error"] == "timeout"


def test_a_file_has_a_trace_a_line_and_what_was_said_is_not_in_it(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "traces" / "turns.jsonl")
    sink.take([(EXAMPLE, {"input": "the secret"})] * 2)
    lines = (tmp_path / "traces" / "turns.jsonl").read_text().splitlines()
    assert len(lines) == 2 and "secret" not in lines[0]
    assert json.loads(lines[0])["turn"] == "t7"
    assert read(AgentTrace, told(EXAMPLE)) == EXAMPLE
