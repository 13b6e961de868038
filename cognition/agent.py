"""The behaviour ``agent``: receive, build the context, recall, ask a model, run the tools it asks for, answer.

Everything it learns comes through a syscall and everything else is pure, so that a resumed turn asks the same
again and gets recorded outcomes. Nothing a model says is an exception here: an error, an unknown tool, no
words at all or tool calls for ever each end in a reply that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cognition.budgets import budget_note
from cognition.context import (
    ContextBounds,
    Record,
    build_context,
    call_record,
    record_bytes,
    remembered,
    result_records,
    shortened,
)
from cognition.errors import ConfigurationError
from cognition.forerunner import note_of
from cognition.recall.context import TOOL as RECALL_TOOL
from cognition.recall.context import recall_call, recall_records
from kernel.abi import Message, ModelRequest, ProcessInfo, Syscalls, ToolCall, ToolResult, TurnResult

DEFAULT_SYSTEM_PROMPT = (
    "You are an agent that runs as a process on a weftos node. Do what the message asks, with the tools you "
    "are given. A tool result that reports an error or a refusal is a fact to work with, not to hide. Then "
    "answer briefly."
)
RECALL_TOKENS = 1_500


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """An agent's part of its spawn request. ``tools`` None: every tool the process may use is offered.

    ``recall_tokens`` bounds what is recalled before the model is asked; 0: nothing is.
    """

    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    provider: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    recall_tokens: int = RECALL_TOKENS

    @classmethod
    def parse(cls, config: dict[str, Any]) -> AgentConfig:
        """Raises :class:`ConfigurationError` that names every fault. Empty text and null mean the default."""
        texts = {key: config.get(key) or "" for key in ("system_prompt", "provider", "model")}
        faults = [f"{key} must be text" for key, value in texts.items() if not isinstance(value, str)]
        tools = config.get("tools")
        if tools is not None:
            if not isinstance(tools, list | tuple) or not all(isinstance(name, str) for name in tools):
                faults.append("tools must be a list of names")
            else:
                tools = tuple(tools)
        recall = config.get("recall_tokens")
        recall = RECALL_TOKENS if recall is None else recall
        if type(recall) is not int or recall < 0:
            faults.append("recall_tokens must be a number of tokens, 0 for none")
        if faults:
            raise ConfigurationError("agent configuration: " + "; ".join(faults))
        prompt = texts["system_prompt"] or DEFAULT_SYSTEM_PROMPT
        return cls(prompt, texts["provider"], texts["model"], tools, recall)


class Agent:
    """See :class:`kernel.abi.Behaviour`. Holds nothing between messages but its configuration."""

    def __init__(self, info: ProcessInfo, bounds: ContextBounds | None = None) -> None:
        self._config = AgentConfig.parse(info.config)
        self._bounds = bounds or ContextBounds()

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        """One turn. See the module's words; raises nothing of its own."""
        config, bounds = self._config, self._bounds
        if message.kind == "budget":
            return TurnResult("", remembered([budget_note(message.text)], "Noted.", bounds.remember_bytes))
        question: Record = {"role": "user", "content": message.text}
        context = build_context(config.system_prompt, await sys.history(), question, bounds.history_tokens)
        tools = _offered(config.tools, await sys.tools())
        context += await self._recalled(message.text, tools, sys)
        exchange: list[Record] = [question]
        shown = list(context)
        ends = {end.questions: end for end in message.ends}
        for number in range(bounds.rounds):
            shown += note_of(ends.get(number))
            answer = await sys.ask_model(ModelRequest(tuple(shown), tools, config.provider, config.model))
            if answer.status != "ok":
                return self._failed(exchange, f"The model could not be asked: {answer.text}")
            if not answer.tool_calls:
                if not answer.text.strip():
                    return self._failed(
                        exchange, "The model answered with nothing: neither text nor a tool call."
                    )
                reply = shortened(answer.text, bounds.reply_bytes)
                return TurnResult(reply, remembered(exchange, reply, bounds.remember_bytes))
            results = await self._run(answer.tool_calls, sys)
            made = call_record(answer.text, answer.tool_calls)
            added = [made, *result_records(answer.tool_calls, results, bounds.round_bytes)]
            exchange += added
            shown += added
            if sum(map(record_bytes, exchange)) > bounds.turn_bytes:
                return self._failed(exchange, f"The turn grew over {bounds.turn_bytes} bytes and was ended.")
        return self._failed(
            exchange, f"I stopped after {bounds.rounds} rounds: the model still asked for tools."
        )

    async def _recalled(self, text: str, tools: tuple[str, ...], sys: Syscalls) -> tuple[Record, ...]:
        """What memory has on the message, for this turn alone. Without memory the turn goes on without it."""
        call = recall_call(text)
        if RECALL_TOOL not in tools or not self._config.recall_tokens or call is None:
            return ()
        [result] = await sys.call_tools([call])
        if result.status != "ok":
            sys.log(f"recall: {result.status}")
        return recall_records(call, result, self._config.recall_tokens)

    async def _run(self, calls: tuple[ToolCall, ...], sys: Syscalls) -> list[ToolResult]:
        """The calls of one round, in parallel. Those beyond the limit are not made, and the model is told."""
        limit = self._bounds.calls_per_round
        results = await sys.call_tools(calls[:limit])
        refusal = f"not run: at most {limit} calls in one round"
        return [*results, *(ToolResult(call.id, call.name, "denied", refusal) for call in calls[limit:])]

    def _failed(self, exchange: list[Record], reply: str) -> TurnResult:
        """An error reply.

        The session keeps what was done; a question nothing was done about leaves no trace.
        """
        keep = remembered(exchange, reply, self._bounds.remember_bytes) if len(exchange) > 1 else ()
        return TurnResult(reply, keep, "error")


def _offered(wanted: tuple[str, ...] | None, allowed: list[str]) -> tuple[str, ...]:
    return tuple(allowed) if wanted is None else tuple(name for name in allowed if name in wanted)
