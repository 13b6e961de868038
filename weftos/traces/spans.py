"""A trace as the spans that OpenTelemetry knows. Pure.

Ids are made of what a span is of (trace, turn, call), so a turn has one root whatever crashed in it, a trace that is
sent twice is the same one, and the turn of a sub-agent stands below the call that asked for it, whose span may be sent
before it or after. The names of attributes are those of the semantic conventions for generative AI where these have
one, else ``weftos.*``; docs/traces.md has them all in one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from kernel.slices.feed.agent_trace import AgentTrace, ModelCallTrace, ToolCallTrace, Wait

Kind = Literal["internal", "client"]
Attribute = str | int | float | bool | list[str]
Content = Mapping[str, str]
"""What was said, by ``input``, ``output``, ``arguments STEP``, ``result STEP``; empty unless prompts are to be told."""
SPAN_BYTES, TRACE_BYTES = 8, 16


@dataclass(frozen=True, slots=True)
class Span:
    """Ids in hexadecimal digits; ``parent_id`` and ``links`` are spans of the same trace. Times are microseconds
    since 1970. ``error``: empty when it went well.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_us: int
    end_us: int
    kind: Kind = "internal"
    error: str = ""
    links: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)


def trace_id_of(trace: AgentTrace) -> str:
    """That of its message; of a turn without one, one of its own."""
    return trace.trace_id if trace.trace_id.strip("0") else _hash(TRACE_BYTES, "turn", trace.turn)


def spans_of(trace: AgentTrace, content: Content) -> list[Span]:
    """Those of one turn that has ended, its root first."""
    made = _Maker(trace, content)
    return [made.root(), *made.stages(), *made.steps()]


def _hash(size: int, *of: str) -> str:
    return sha256("\n".join(of).encode()).digest()[:size].hex()


def _span_id(trace_id: str, turn: str, what: str) -> str:
    return _hash(SPAN_BYTES, "span", trace_id, turn, what)


class _Maker:
    def __init__(self, trace: AgentTrace, content: Content) -> None:
        self._trace = trace
        self._content = content
        self._id = trace_id_of(trace)
        self._end_us = trace.completed_at_us or trace.started_at_us
        turn, _, step = trace.parent.partition(":")
        self._above = _span_id(self._id, turn, f"tool/{step}") if step else ""

    def _own(self, what: str) -> str:
        return _span_id(self._id, self._trace.turn, what)

    def _span(self, name: str, what: str, parent: str, start_us: int, end_us: int, **more: Any) -> Span:
        return Span(name, self._id, self._own(what), parent, start_us, max(start_us, end_us), **more)

    def root(self) -> Span:
        trace = self._trace
        address, _, session = trace.session_key.partition(" ")
        name = address.rpartition("/")[2]
        ok = trace.outcome in ("ok", "cancelled")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": address,
            "gen_ai.conversation.id": session,
            "gen_ai.provider.name": trace.provider_used,
            "gen_ai.response.model": trace.model_used,
            "gen_ai.usage.input_tokens": sum(call.tokens[0] for call in trace.model_calls),
            "gen_ai.usage.output_tokens": sum(call.tokens[1] for call in trace.model_calls),
            "weftos.turn": trace.turn,
            "weftos.turn.outcome": trace.outcome,
            "weftos.turn.attempts": trace.attempts,
            "weftos.turn.fallback_attempts": trace.fallback_attempts,
            "weftos.turn.tool_calls": len(trace.tool_calls),
            "gen_ai.input.messages": self._content.get("input", ""),
            "gen_ai.output.messages": self._content.get("output", ""),
        }
        error = "" if ok else trace.outcome
        return self._span(
            f"invoke_agent {name}",
            "",
            self._above,
            trace.started_at_us,
            self._end_us,
            error=error,
            attributes=_said(attributes | ({"error.type": error} if error else {})),
        )

    def stages(self) -> Iterator[Span]:
        for number, stage in enumerate(self._trace.stages):
            end_us = min(stage.started_at_us + stage.took_us, self._end_us)
            why = str(stage.metadata.get("why", ""))
            yield self._span(
                f"stage {stage.stage}",
                f"stage/{number}",
                self._own(""),
                min(stage.started_at_us, self._end_us),
                end_us,
                attributes=_said(
                    {"weftos.stage": stage.stage, "weftos.stage.outcome": stage.outcome, "weftos.why": why}
                ),
            )

    def steps(self) -> Iterator[Span]:
        for asked in self._trace.model_calls:
            yield from self._step(f"model/{asked.step}", asked, _of_question(asked))
        for called in self._trace.tool_calls:
            yield from self._step(f"tool/{called.step}", called, self._of_call(called))
        for number, wait in enumerate(self._trace.waits):
            yield from self._wait(number, wait)

    def _step(
        self, what: str, step: ModelCallTrace | ToolCallTrace, said: tuple[str, Kind, dict[str, Any]]
    ) -> Iterator[Span]:
        """A question or a call, and below it each further attempt, which is linked with the first."""
        name, kind, attributes = said
        error = "" if step.status == "ok" else step.status
        if isinstance(step, ModelCallTrace) and step.error_kind:
            error = step.error_kind
        attributes |= {"weftos.step": step.step, "weftos.status": step.status, "error.type": error}
        end_us = step.started_at_us + step.took_us
        yield self._span(
            name,
            what,
            self._parent(step.started_at_us),
            step.started_at_us,
            end_us,
            kind=kind,
            error=error,
            attributes=_said(attributes),
        )
        for number, began_us in enumerate(step.attempts, 2):
            yield self._span(
                f"attempt {number}",
                f"{what}/{number}",
                self._own(what),
                began_us,
                end_us,
                links=(self._own(what),),
                attributes={"weftos.step": step.step, "weftos.attempt": number},
            )

    def _parent(self, at_us: int) -> str:
        """The stage in which something began, by the behaviour's word; else the turn."""
        for number, stage in enumerate(self._trace.stages):
            if stage.started_at_us <= at_us < stage.started_at_us + stage.took_us:
                return self._own(f"stage/{number}")
        return self._own("")

    def _of_call(self, call: ToolCallTrace) -> tuple[str, Kind, dict[str, Any]]:
        return (
            f"execute_tool {call.tool}",
            "internal",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool,
                "gen_ai.tool.call.id": f"{self._trace.turn}:{call.step}",
                "gen_ai.tool.call.arguments": self._content.get(f"arguments {call.step}", ""),
                "gen_ai.tool.call.result": self._content.get(f"result {call.step}", ""),
            },
        )

    def _wait(self, number: int, wait: Wait) -> Iterator[Span]:
        yield self._span(
            "wait_for_person",
            f"wait/{number}",
            self._own(""),
            wait.started_at_us,
            wait.started_at_us + wait.took_us,
            attributes={"weftos.step": wait.step, "weftos.why": wait.what},
        )


def _of_question(call: ModelCallTrace) -> tuple[str, Kind, dict[str, Any]]:
    cost = None if call.cost_millionths is None else call.cost_millionths / 1e6
    return (
        f"chat {call.model}".strip(),
        "client",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": call.provider,
            "gen_ai.request.model": call.model,
            "gen_ai.usage.input_tokens": call.tokens[0],
            "gen_ai.usage.output_tokens": call.tokens[1],
            "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
            "gen_ai.response.finish_reasons": [call.stop_reason] if call.stop_reason else None,
            "weftos.cost": cost,
        },
    )


def _said(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}
