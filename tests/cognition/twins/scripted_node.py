"""The node's syscalls for an agent's stages: scripted model answers, and tools from a dict of functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cognition.config.agent_config import AgentConfig
from cognition.context import ContextBounds
from cognition.turn.agent_turn import AgentTurn
from kernel.abi import (
    Compaction,
    Deeds,
    Flushed,
    Linked,
    Message,
    ModelAnswer,
    ModelRequest,
    Monitored,
    PromptFile,
    Quote,
    Syscalls,
    ToolCall,
    ToolResult,
    ValueName,
)


class Node(Syscalls):
    """Syscalls as the node would answer them: scripted model answers, tools from a dict of functions."""

    def __init__(self, answers: Sequence[ModelAnswer], tools: dict[str, Any] | None = None) -> None:
        self.answers = list(answers)
        self.tool_functions = tools or {}
        self.records: list[dict[str, Any]] = []
        self.requests: list[ModelRequest] = []
        self.rounds: list[list[ToolCall]] = []
        self.sizes: dict[str, int] = {}
        self.done = Deeds()
        self.compactions: list[Compaction] = []
        self.against: dict[str, str] = {}
        self.quoted: list[tuple[str, ...]] = []
        self.files: tuple[PromptFile, ...] = ()
        self.joins: list[tuple[str, ...]] = []

    async def call_tool(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        raise AssertionError("the agent proposes whole rounds")

    async def call_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        self.rounds.append(list(calls))
        return [self._run(call) for call in calls]

    def _run(self, call: ToolCall) -> ToolResult:
        if call.name not in self.tool_functions:
            return ToolResult(call.id, call.name, "denied", f"there is no tool {call.name}")
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            return ToolResult(call.id, call.name, "error", "the arguments are not JSON")
        return ToolResult(call.id, call.name, "ok", str(self.tool_functions[call.name](**arguments)))

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def history(self) -> list[dict[str, Any]]:
        return list(self.records)

    async def tools(self) -> list[str]:
        return sorted(self.tool_functions)

    async def tool_tokens(self) -> dict[str, int]:
        return dict(self.sizes)

    async def deeds(self) -> Deeds:
        return self.done

    async def prompt_files(self) -> tuple[PromptFile, ...]:
        return self.files

    async def steered(self) -> tuple[str, ...]:
        return self.joins.pop(0) if self.joins else ()

    async def compaction(self, told: Compaction) -> Flushed:
        self.compactions.append(told)
        return Flushed(len(told.facts))

    async def value(self, name: ValueName) -> float | int:
        return 4

    async def quote(self, models: Sequence[str], tokens: int, answer: int = 0) -> Quote:
        self.quoted.append(tuple(models))
        found = tuple(self.against.get(each, "") for each in models)
        return Quote(found, self.quoted.count(tuple(models)) - 1)

    async def monitor(self, target: str) -> Monitored:
        raise AssertionError("the agent watches nobody")

    async def demonitor(self, ref: str, *, flush: bool = False) -> bool:
        raise AssertionError("the agent watches nobody")

    async def link(self, target: str) -> Linked:
        raise AssertionError("the agent is linked with nobody")

    async def unlink(self, ref: str) -> bool:
        raise AssertionError("the agent is linked with nobody")

    async def trap_exits(self, on: bool = True) -> bool:
        raise AssertionError("the agent is linked with nobody")

    def log(self, text: str) -> None:
        return


def begun_turn(
    text: str = "hello",
    node: Syscalls | None = None,
    config: AgentConfig | None = None,
    bounds: ContextBounds | None = None,
) -> AgentTurn:
    """A turn to which nothing has been done yet."""
    message = Message("m1", "operator", text, "default", True)
    return AgentTurn.begin(message, node or Node([]), config or AgentConfig(), bounds or ContextBounds())
