"""What a turn went through, with the questions and calls of it: one type, made of entries by one builder.

The node keeps a builder for each turn that it still knows (:mod:`kernel.slices.feed.turn_logs`), so a trace is whole
after a crash; who reads the files has another one, and both come to the same. Stages are what the behaviour tells of
its turn; questions, calls, tokens, waits and their times are the node's own. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from kernel.model.rows import as_list, as_number, as_rows, as_text, made, row
from kernel.slices.turns import rank

OPEN = -1
MODEL, TOOL, PERSON = "model", "tool", "person"
STEP_BYTES = 400
"""What a step takes, about."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the behaviour tells of it that was handed the turn last: it began when those before it were over.
    ``metadata``: why it came out so, and how many questions and calls began in it.
    """

    stage: str
    started_at_us: int
    took_us: int
    outcome: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallTrace:
    """A call of a tool. ``attempts``: when each began after a first one that was lost with a node or a worker."""

    step: str
    tool: str
    status: str
    started_at_us: int
    took_us: int
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelCallTrace:
    """A question to a model. ``attempts`` as of a call; ``tokens``: read and written; ``cost_millionths`` None: nobody
    knows.
    """

    step: str
    provider: str
    model: str
    status: str
    error_kind: str
    tokens: tuple[int, ...]
    cached_tokens: int
    cost_millionths: int | None
    stop_reason: str
    started_at_us: int
    took_us: int
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A person was waited for: about a call in doubt (``step``), or about a turn that had diverged."""

    step: str
    what: str
    started_at_us: int
    took_us: int


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """The trace of one turn. Times are microseconds since 1970; ``completed_at_us`` None: it is open. ``parent``: the
    call (TURN:STEP) that the message came of, empty for one from outside. ``attempts``: how often the turn was handed
    out. ``fallback_attempts``: questions that were not answered.
    """

    trace_id: str
    turn: str
    parent: str
    session_key: str
    started_at_us: int
    completed_at_us: int | None
    attempts: int
    stages: tuple[Stage, ...]
    tool_calls: tuple[ToolCallTrace, ...]
    model_calls: tuple[ModelCallTrace, ...]
    waits: tuple[Wait, ...]
    provider_used: str
    model_used: str
    total_tokens: int
    fallback_attempts: int
    outcome: str

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


@dataclass(slots=True)
class Step:
    """What is known of a question (``kind`` model), a call (tool), or of a wait for a person. ``model`` and
    ``provider`` of a question, ``tool`` of a call; ``read`` and ``written`` are tokens; ``cost`` -1: nobody knows.
    ``lost``: its node has ended since. ``again``: JSON of when each further attempt began.
    """

    kind: str
    ordinal: str
    began_us: int
    ended_us: int = OPEN
    status: str = "open"
    tool: str = ""
    provider: str = ""
    model: str = ""
    error_kind: str = ""
    stop_reason: str = ""
    read: int = 0
    written: int = 0
    cached: int = 0
    cost: int = -1
    lost: bool = False
    again: str = ""

    @property
    def took_us(self) -> int:
        return max(0, self.ended_us - self.began_us)

    @property
    def attempts(self) -> tuple[int, ...]:
        return tuple(json.loads(f"[{self.again}]"))

    def begin_again(self, time_us: int) -> None:
        self.again = f"{self.again},{time_us}" if self.again else str(time_us)
        self.lost = False


Body = Mapping[str, Any]


@dataclass(slots=True)
class TraceBuilder:
    """Hears the entries of a turn in their order. Only what a trace says is kept, no text of anybody."""

    turn: str
    trace_id: str = ""
    address: str = ""
    session: str = ""
    parent: str = ""
    began_us: int = OPEN
    last_began_us: int = OPEN
    ended_us: int = OPEN
    attempts: int = 0
    status: str = "open"
    stages: str = "[]"
    steps: list[Step] = field(default_factory=list)

    def hear(self, kind: str, body: Body, time_us: int) -> None:
        """Take in an entry of this turn; of kinds that say nothing of a trace nothing is taken."""
        hearer = self._HEARERS.get(kind)
        if hearer is not None:
            hearer(self, body, time_us)

    def node_ended(self) -> None:
        """A node booted while the turn was open: who asked for what is under way is gone."""
        for step in self.steps:
            step.lost = step.lost or (step.ended_us == OPEN and step.kind == MODEL)

    def _started(self, body: Body, time_us: int) -> None:
        if self.began_us == OPEN:
            self.began_us, self.address, self.session = time_us, body["address"], body.get("session", "")
        self.attempts += 1
        self.last_began_us = time_us
        for step in self.steps:
            if step.lost:
                step.begin_again(time_us)

    def _ended(self, body: Body, time_us: int) -> None:
        self.ended_us, self.status, self.stages = time_us, body["status"], body.get("stages", "[]")
        for step in self.steps:
            if step.ended_us == OPEN:
                step.ended_us = time_us

    def _step(self, kind: str, ordinal: str) -> Step | None:
        for step in reversed(self.steps):
            if step.ordinal == ordinal and step.kind == kind:
                return step
        return None

    def _asked(self, body: Body, time_us: int) -> None:
        """The same question put to somebody else after a restart is another attempt at the same step."""
        step = self._step(MODEL, body["ordinal"])
        if step is None or step.ended_us != OPEN:
            step = Step(MODEL, body["ordinal"], time_us)
            self.steps.append(step)
        elif not step.again:
            step.begin_again(time_us)
        step.provider, step.model = body.get("provider", ""), body.get("model", "")

    def _answered(self, body: Body, time_us: int) -> None:
        step = self._step(MODEL, body["ordinal"])
        if step is None:
            return
        step.ended_us, step.status, step.lost = time_us, body["status"], False
        step.read, step.written = body["input_tokens"], body["output_tokens"]
        step.cached, step.cost = body.get("cached_tokens", 0), body.get("cost_millionths", -1)
        step.error_kind, step.stop_reason = body.get("error_kind", ""), body.get("stop_reason", "")
        step.provider = str(body.get("provider") or step.provider)
        step.model = str(body.get("model") or step.model)

    def _proposed(self, body: Body, time_us: int) -> None:
        self.steps.append(Step(TOOL, body["ordinal"], time_us, tool=body["tool"]))

    def _intended(self, body: Body, time_us: int) -> None:
        step = self._step(TOOL, body["ordinal"])
        if step is not None and body["attempt"] > 1:
            step.begin_again(time_us)

    def _came_out(self, body: Body, time_us: int) -> None:
        step = self._step(TOOL, body["ordinal"])
        if step is None:
            return
        step.ended_us, step.status = time_us, body["status"]
        if body["status"] == "in_doubt":
            self.steps.append(Step(PERSON, body["ordinal"], time_us, status="in_doubt"))

    def _resolved(self, body: Body, time_us: int) -> None:
        self._waited(body["ordinal"], body["resolution"], time_us)
        step = self._step(TOOL, body["ordinal"])
        if step is not None and body["resolution"] != "retry":
            step.status = "ok" if body["resolution"] == "done" else body["resolution"]

    def _diverged(self, body: Body, time_us: int) -> None:
        self.steps.append(Step(PERSON, body["ordinal"], time_us, status="diverged"))

    def _decided(self, body: Body, time_us: int) -> None:
        self._waited(body["ordinal"], body["decision"], time_us)
        if body["decision"] == "accept":  # what was recorded from that call on is forgotten
            first = rank(body["ordinal"])
            self.steps = [one for one in self.steps if one.kind == PERSON or rank(one.ordinal) < first]

    def _waited(self, ordinal: str, how: str, time_us: int) -> None:
        step = self._step(PERSON, ordinal)
        if step is not None and step.ended_us == OPEN:
            step.ended_us, step.status = time_us, f"{step.status}: {how}"

    _HEARERS: ClassVar[Mapping[str, Callable[[TraceBuilder, Body, int], None]]] = {
        "turn.started": _started,
        "turn.ended": _ended,
        "turn.diverged": _diverged,
        "turn.decided": _decided,
        "model.asked": _asked,
        "model.answered": _answered,
        "tool.proposed": _proposed,
        "tool.intent": _intended,
        "tool.outcome": _came_out,
        "tool.resolved": _resolved,
    }

    # -- what came of it -----------------------------------------------------------------------------------------

    def trace(self) -> AgentTrace:
        """What is known so far."""
        asked = [step for step in self.steps if step.kind == MODEL]
        called = [step for step in self.steps if step.kind == TOOL]
        used = next((step for step in reversed(asked) if step.status == "ok"), None)
        return AgentTrace(
            trace_id=self.trace_id,
            turn=self.turn,
            parent=self.parent,
            session_key=f"{self.address} {self.session}",
            started_at_us=self.began_us,
            completed_at_us=None if self.ended_us == OPEN else self.ended_us,
            attempts=self.attempts,
            stages=tuple(self._stages()),
            tool_calls=tuple(
                ToolCallTrace(
                    each.ordinal, each.tool, each.status, each.began_us, each.took_us, each.attempts
                )
                for each in called
            ),
            model_calls=tuple(_model_call(each) for each in asked),
            waits=tuple(
                Wait(each.ordinal, each.status, each.began_us, each.took_us)
                for each in self.steps
                if each.kind == PERSON
            ),
            provider_used=used.provider if used else "",
            model_used=used.model if used else "",
            total_tokens=sum(each.read + each.written for each in asked),
            fallback_attempts=sum(each.status == "error" for each in asked),
            outcome=self.status,
        )

    def _stages(self) -> list[Stage]:
        """Rows of what the behaviour told, who was handed the turn last; none of an entry that is older than stages."""
        found: list[Stage] = []
        at_us = self.last_began_us
        for stage, outcome, why, took_us in json.loads(self.stages):
            metadata: dict[str, Any] = {"why": why} if why else {}
            for name, kind in (("model_calls", MODEL), ("tool_calls", TOOL)):
                count = sum(
                    each.kind == kind and at_us <= each.began_us < at_us + took_us for each in self.steps
                )
                metadata |= {name: count} if count else {}
            found.append(Stage(stage, at_us, took_us, outcome, metadata))
            at_us += took_us
        return found

    # -- as a row ------------------------------------------------------------------------------------------------

    def row(self) -> list[Any]:
        return [*(getattr(self, name) for name in _PLAIN), [row(step) for step in self.steps]]

    @classmethod
    def made(cls, of: Any) -> TraceBuilder:
        """That of a row. Raises ValueError, TypeError."""
        *plain, steps = as_list(of)
        builder = cls(**dict(zip(_PLAIN, plain, strict=True)))
        for name in _PLAIN:
            kind = int if name in ("began_us", "last_began_us", "ended_us", "attempts") else str
            if type(getattr(builder, name)) is not kind:
                raise TypeError(f"{name} of a trace is not {kind.__name__}")
        as_number(builder.attempts)
        as_text(builder.turn)
        builder.steps = [made(Step, each) for each in as_rows(steps)]
        return builder


_PLAIN = (
    "turn",
    "trace_id",
    "address",
    "session",
    "parent",
    "began_us",
    "last_began_us",
    "ended_us",
    "attempts",
    "status",
    "stages",
)


def _model_call(step: Step) -> ModelCallTrace:
    return ModelCallTrace(
        step.ordinal,
        step.provider,
        step.model,
        step.status,
        step.error_kind,
        (step.read, step.written),
        step.cached,
        None if step.cost < 0 else step.cost,
        step.stop_reason,
        step.began_us,
        step.took_us,
        step.attempts,
    )
