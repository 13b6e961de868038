"""Traces of turns that have ended, handed to the tracer: sampled, bounded, and never waited for.

A trace is made when the end of its turn is on the disk, of what the node keeps of the turn, so it is whole though the
node was killed in the middle. What the tracer cannot bring anywhere is tried again, a few times and later each time;
then it is dropped and counted, as is what does not fit into the queue. A tracer that does not answer is ended, and
comes again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Protocol

from chain.journal.group import Group
from cognition.config.trace_config import TraceConfig
from kernel.helper.helper import Answered
from kernel.helper.helpers import HelperChild
from kernel.operations.node import TraceState
from kernel.shapes import told
from kernel.slices.feed.agent_trace import AgentTrace
from kernel.slices.feed.turn_logs import TurnLogs
from kernel.slices.mailboxes import turn_id
from kernel.slices.turns import Turns
from weftos.traces.content import Scrubber, content_of
from weftos.traces.spans import TRACE_BYTES, trace_id_of

MOST_WAITING = 1_000
AT_ONCE = 50
TRIES = 4
AGAIN_S = 1.0
ANSWER_S = 60.0
CLOSE_S = 2.0
MOST_MESSAGES = 1_000
MESSAGE_CHARS = 64 * 1024
UNKNOWN_TOOL = "unknown"
_HALF = 2 ** (8 * TRACE_BYTES // 2)


class TracerLink(HelperChild, Protocol):
    """The tracer as this sees it."""

    def call(self, op: str, args: dict[str, Any], answered: Answered) -> Callable[[], object]: ...


class TraceExport:
    """``group`` is for :meth:`Ledger.on_group`. ``exported`` and ``dropped`` are counts since the node began."""

    def __init__(
        self,
        config: TraceConfig,
        tracer: TracerLink,
        logs: TurnLogs,
        turns: Turns,
        tools: Container[str],
        scrubber: Scrubber,
    ) -> None:
        self._config = config
        self.tracer = tracer
        self._logs, self._turns = logs, turns
        self._tools = tools
        self._scrubber = scrubber
        self._last: OrderedDict[str, None] = OrderedDict()
        self._waiting: deque[list[Any]] = deque()
        self._messages: OrderedDict[str, str] = OrderedDict()
        self._out: list[list[Any]] = []
        self._tries = 0
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], object] = lambda: None
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.exported = self.dropped = 0
        self._why = ""

    @property
    def waiting(self) -> int:
        """How many are on their way."""
        return len(self._waiting) + len(self._out)

    def state(self) -> TraceState:
        """How many got where they should, wait or were dropped; and why, while they do not get there."""
        return {
            "export": self._config.export,
            "exported": self.exported,
            "waiting": self.waiting,
            "dropped": self.dropped,
            "fault": self._why,
        }

    def group(self, group: Group) -> None:
        """Some entries are durable."""
        for written in group.entries:
            kind, subject = written.entry.kind, written.entry.subject
            if kind == "turn.started" and self._config.include_prompts:
                self._remember(subject)
            elif kind in ("turn.ended", "message.dead"):
                self._ended(subject if kind == "turn.ended" else turn_id(subject))

    def _remember(self, turn: str) -> None:
        """What was asked is told with the trace, and is not kept by the node for that long."""
        found = self._turns.get(turn)
        if found is not None:
            self._messages[turn] = found.mail.text[:MESSAGE_CHARS]
            if len(self._messages) > MOST_MESSAGES:
                self._messages.popitem(last=False)

    def _ended(self, turn: str) -> None:
        log, message = self._logs.get(turn), self._messages.pop(turn, "")
        if log is None or not log.ended or turn in self._last:  # its message may die with it: that is one end
            return
        self._last[turn] = None
        if len(self._last) > MOST_MESSAGES:
            self._last.popitem(last=False)
        trace = log.trace.trace()
        if int(trace_id_of(trace), 16) % _HALF >= self._config.sample_rate * _HALF:
            return
        prompts = self._config.include_prompts
        trace = trace if prompts else self._without_words(trace)
        content = content_of(message, list(log.events), self._scrubber) if prompts else {}
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._drop(1, "the queue is full")
        self._waiting.append([told(trace), content])
        self._go_on()

    def _without_words(self, trace: AgentTrace) -> AgentTrace:
        """What a stage says of itself may repeat what was said to it, and so may the name of a tool that is none."""
        stages = [
            replace(one, metadata={name: value for name, value in one.metadata.items() if name != "why"})
            for one in trace.stages
        ]
        calls = [
            call if call.tool in self._tools else replace(call, tool=UNKNOWN_TOOL)
            for call in trace.tool_calls
        ]
        return replace(trace, stages=tuple(stages), tool_calls=tuple(calls))

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        self._why = self._why or why

    def _go_on(self) -> None:
        if self._out or not self._waiting:
            return
        self._out = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
        self._tries = 0
        self._idle.clear()
        self._send()

    def _send(self) -> None:
        self._tries += 1
        self._timer = asyncio.get_running_loop().call_later(ANSWER_S, self._late)
        self._forget = self.tracer.call("export", {"traces": self._out}, self._answered)

    def _late(self) -> None:
        self._forget()
        task = asyncio.get_running_loop().create_task(self.tracer.end(True))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._answered(None, TimeoutError(f"it did not answer within {ANSWER_S:g} s"))

    def _answered(self, value: Any, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if error is not None and self._tries < TRIES:
            self._why = str(error)[:300]
            delay_s = AGAIN_S * 4 ** (self._tries - 1)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._send)
            return
        count, self._out = len(self._out), []
        if error is None:
            self.exported += count
            self._why = ""
        else:
            self._why = str(error)[:300]
            self._drop(count, self._why)
        self._idle.set()
        self._go_on()

    async def close(self) -> None:
        """Wait a moment for what is on its way; the rest is lost."""
        try:
            async with asyncio.timeout(CLOSE_S):
                while self._out:
                    await self._idle.wait()
        except TimeoutError:
            self.dropped += self.waiting
        if self._timer is not None:
            self._timer.cancel()
