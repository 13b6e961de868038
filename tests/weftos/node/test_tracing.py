"""Traces are handed over in a bounded queue: nobody waits for it, and what does not fit is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

import weftos.node.tracing
from chain.entry.entry import ZERO_HASH, Entry
from chain.journal.group import Group
from chain.journal.sequencer import Written
from cognition.config.agent_config import AgentConfig
from cognition.config.check import parse
from cognition.config.trace_config import NodesAgentConfig, TraceConfig, trace_faults
from cognition.errors import ConfigurationError
from kernel.helper.helper import Answered, HelperLost
from tests.kernel.slices.told import Told
from weftos.node.tracing import TraceExport
from weftos.traces.content import Scrubber


class Tracer:
    """Answers when a test says so."""

    os_pid = 1

    def __init__(self) -> None:
        self.asked: list[tuple[list[Any], Answered]] = []
        self.ended = 0

    def call(self, op: str, args: dict[str, Any], answered: Answered) -> Callable[[], object]:
        self.asked.append((args["traces"], answered))
        return lambda: None

    async def start(self, on_death: Callable[[str], None]) -> None: ...

    async def end(self, hard: bool) -> None:
        self.ended += 1

    async def stop(self) -> None: ...


class Exports:
    def __init__(self, **config: Any) -> None:
        self.told, self.tracer = Told(), Tracer()
        state = self.told.state
        self.export = TraceExport(
            TraceConfig(export="otlp", **config),
            self.tracer,
            state.turn_logs,
            state.turns,
            ("calculator",),
            Scrubber([]),
        )

    def turn(self, number: int, text: str = "hi") -> None:
        """A turn begins, and ends."""
        self.told.message(number, to=f"/a{number}", text=text)
        self.told.turn(number, address=f"/a{number}")
        self.group("turn.started", number)
        proposed = {"turn": f"t{number}", "call_hash": "h", "arguments": "{}"}
        for ordinal, tool in (("0.0", "calculator"), ("0.1", "the secret")):
            self.told.entry("tool.proposed", **proposed, ordinal=ordinal, tool=tool)
        stages = '[["classify","continue","about the secret",3]]'
        self.told.entry("turn.ended", turn=f"t{number}", status="ok", reply="yes", stages=stages)
        self.group("turn.ended", number)
        self.group("message.dead", number)  # as of a turn that killed its process too often: it is one end

    def group(self, kind: str, number: int) -> None:
        subject = f"{'m' if kind == 'message.dead' else 't'}{number}"
        entry = Entry(1, 1, "n", 1, 0, kind, subject, b"", -1, ZERO_HASH, ZERO_HASH)
        self.export.group(Group(1, 1, 2, b"", (), (), (Written(entry, b"", b"", b"", b""),)))


def test_what_is_not_taken_is_tried_again_and_then_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weftos.node.tracing, "MOST_WAITING", 3)
    monkeypatch.setattr(weftos.node.tracing, "AGAIN_S", 0.0)

    async def run() -> None:
        exports = Exports()
        for number in range(1, 7):
            exports.turn(number)
        assert exports.export.waiting == 4 and exports.export.dropped == 2  # one is out, three wait
        for tries in range(1, weftos.node.tracing.TRIES + 1):
            while len(exports.tracer.asked) < tries:
                await asyncio.sleep(0)
            exports.tracer.asked[tries - 1][1](None, HelperLost("it died"))
        state = exports.export.state()
        assert (state["exported"], state["dropped"], state["waiting"]) == (0, 3, 3)
        assert state["fault"] == "it died"
        exports.tracer.asked[-1][1]({}, None)  # those that waited go at once, together
        state = exports.export.state()
        assert (state["exported"], state["dropped"], state["waiting"], state["fault"]) == (3, 3, 0, "")
        await exports.export.close()

    asyncio.run(run())


def test_a_tracer_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weftos.node.tracing, "ANSWER_S", 0.0)
    monkeypatch.setattr(weftos.node.tracing, "AGAIN_S", 3600.0)

    async def run() -> None:
        exports = Exports()
        exports.turn(1)
        while not exports.tracer.ended:
            await asyncio.sleep(0)
        assert "did not answer" in exports.export.state()["fault"]
        monkeypatch.setattr(weftos.node.tracing, "CLOSE_S", 0.0)
        await exports.export.close()
        assert exports.export.dropped == 1

    asyncio.run(run())


def test_prompts_are_in_it_only_where_that_is_wanted_and_so_is_a_share_of_traces() -> None:
    async def run() -> None:
        for wanted in (True, False):
            exports = Exports(include_prompts=wanted)
            exports.turn(1, "tell me of the secret")
            [[trace, content]] = exports.tracer.asked[0][0]
            assert next(call["tool"] for call in trace["tool_calls"]) == "calculator"
            assert ("secret" in str(trace)) is ("secret" in str(content)) is wanted
            await exports.export.close()
        counts = []
        for rate in (0.0, 0.5, 1.0):
            exports = Exports(sample_rate=rate)
            for number in range(1, 201):
                exports.turn(number)
            counts.append(exports.export.waiting)
        assert counts[0] == 0 and counts[2] == 200, "by the trace alone"
        assert counts[1] in (0, 200), "all of these turns are of one trace"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"endpoint": "ftp://x/"}, "must be http"),
        ({"endpoint": "http://"}, "must be http"),
        ({"endpoint": "http://h:99999/"}, "must be http"),
        ({"endpoint": "http://u:secret@h/"}, "no user"),
        ({"export": "file", "include_prompts": True}, "for otlp alone"),
    ],
)
def test_what_does_not_go_together_is_said_before_there_is_a_trace(config: dict[str, Any], said: str) -> None:
    (fault,) = trace_faults(TraceConfig(**config))
    assert said in fault


def test_every_key_is_read_from_the_file_and_none_is_a_processs_own() -> None:
    keys = {
        "enabled": False,
        "export": "otlp",
        "endpoint": "https://h/v1/traces",
        "sample_rate": 0.25,
        "include_prompts": True,
    }
    read = parse(NodesAgentConfig, {"temperature": 0.1, "trace": keys}, "agent").trace
    assert asdict(read) == keys and read.sink == "", "it is not enabled"
    assert [replace(read, enabled=True, export=export).sink for export in ("none", "file", "otlp", "jaeger")] == [
        "", "file", "otlp", "otlp",
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="trace"):
        parse(AgentConfig, {"trace": keys}, "agent configuration")
