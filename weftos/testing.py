"""A node for the tests of a behaviour and its tools: no processes, no files, no keys.

    from weftos.testing import Twin, call

    def test_it_greets():
        assert call(greet, name="Ada").text == "Hello, Ada!"
        twin = Twin(Greeter, tools={"greet": greet}, answers=["fine weather"])
        assert twin.handle("Ada").reply == "Hello, Ada! There is fine weather."
        assert [each.arguments for each in twin.calls] == [{"name": "Ada"}]

A tool that is a function runs, with its arguments checked by its own declaration as a node checks them; one that is a
list answers from that, in order. A model answers from ``answers``. With ``network`` a function whose declaration goes
beyond it is denied, as by a process with that capability. What a node does beside, it does not: no other policy, no
deadline, no ledger, no other process.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kernel.abi import (
    Behaviour,
    Linked,
    Message,
    ModelAnswer,
    ModelRequest,
    Monitored,
    OutcomeStatus,
    ProcessInfo,
    Quote,
    Syscalls,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    TurnResult,
    ValueName,
)
from kernel.model.capability import against_network
from kernel.operations.rights.capabilities import read_capabilities
from kernel.toolbox.arguments import ArgumentsError, Validator, canonical_json, parse_arguments
from kernel.worker.worker import render
from weftos.decorators import TOOL_MARK

__all__ = ["Called", "Twin", "call"]

_ALONE = "there are no other processes in a twin"
ToolFunction = Callable[..., Any]
Scripted = str | ToolResult
"""What a tool gives: its text, or a result of any status."""


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call that a behaviour made, and what it was given."""

    name: str
    arguments: dict[str, Any]
    result: ToolResult


def call(tool: ToolFunction, /, **arguments: Any) -> ToolResult:
    """What a node would give for one call of a decorated function: its rendered result; ``error`` for arguments that
    its declaration refuses and for what it raises. Raises TypeError for a function without ``@tool``.
    """
    return asyncio.run(_call(tool, _declaration(tool).name, canonical_json(arguments), "effect-1"))


class Twin(Syscalls):
    """One process of ``behaviour``, and the node that it asks. ``tools`` are those that it may use, by the names that a
    node would know them by. ``network``: the hosts that they may declare to use, None for any, () for none; scripted
    ones declare nothing and are not asked. ``time_s`` and ``random_bits``: what it is told of both.

    ``calls``, ``questions`` and ``logged`` hold what it did; ``records`` what it remembers, by session.
    """

    def __init__(
        self,
        behaviour: type[Behaviour],
        *,
        tools: Mapping[str, ToolFunction | Iterable[Scripted]] | None = None,
        answers: Iterable[str | ModelAnswer] = (),
        config: Mapping[str, Any] | None = None,
        name: str = "twin",
        network: Sequence[str] | None = None,
        time_s: float = 1_000_000.0,
        random_bits: int = 4,
    ) -> None:
        self.calls: list[Called] = []
        self.questions: list[ModelRequest] = []
        self.logged: list[str] = []
        self.records: dict[str, list[dict[str, Any]]] = {}
        self._tools = {
            each: made if callable(made) else list(made) for each, made in dict(tools or {}).items()
        }
        for made in self._tools.values():
            if callable(made):
                _declaration(made)
        self._answers = list(answers)
        self._values: dict[ValueName, float | int] = {"now": time_s, "random": random_bits}
        self._session = ""
        self._traps = False
        self._messages = 0
        address = f"/user/{name}"
        self._against = partial(against_network, _hosts(network), address)
        info = ProcessInfo(1, address, name, behaviour.__name__, dict(config or {}))
        self._behaviour = behaviour(info)

    def handle(self, text: str, *, sender: str = "operator", session: str = "") -> TurnResult:
        """One message, handled to its end. Raises what the behaviour raises."""
        self._messages += 1
        self._session = session
        message = Message(f"m{self._messages}", sender, text, session, True)
        result = _result(asyncio.run(_awaited(self._behaviour.handle(message, self))))
        self.records.setdefault(session, []).extend(result.remember)
        return result

    # -- what the behaviour asks ---------------------------------------------------------------------------------

    async def call_tool(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        text = arguments if isinstance(arguments, str) else canonical_json(arguments)
        [result] = await self.call_tools([ToolCall(name, text)])
        return result

    async def call_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        return [await self._call(each) for each in calls]

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        self.questions.append(request)
        if not self._answers:
            raise AssertionError(f"question {len(self.questions)} to the model, and answers has no more")
        answer = self._answers.pop(0)
        if not isinstance(answer, str):
            return answer
        return ModelAnswer("ok", answer, stop_reason="stop", provider=request.provider, model=request.model)

    async def history(self) -> list[dict[str, Any]]:
        return list(self.records.get(self._session, ()))

    async def tools(self) -> list[str]:
        return sorted(self._tools)

    async def tool_tokens(self) -> dict[str, int]:
        return {}

    async def value(self, name: ValueName) -> float | int:
        return self._values[name]

    async def quote(self, models: Sequence[str], tokens: int, answer: int = 0) -> Quote:
        return Quote(("",) * len(models), 0)

    async def monitor(self, target: str) -> Monitored:
        return Monitored("", _ALONE)

    async def demonitor(self, ref: str, *, flush: bool = False) -> bool:
        return False

    async def link(self, target: str) -> Linked:
        return Linked("", _ALONE)

    async def unlink(self, ref: str) -> bool:
        return False

    async def trap_exits(self, on: bool = True) -> bool:
        before, self._traps = self._traps, on
        return before

    def log(self, text: str) -> None:
        self.logged.append(text)

    async def _call(self, asked: ToolCall) -> ToolResult:
        result = await self._outcome(asked)
        try:
            arguments = parse_arguments(asked.arguments)
        except ArgumentsError:
            arguments = {}
        self.calls.append(Called(asked.name, arguments, result))
        return ToolResult(asked.id, result.name, result.status, result.text, result.truncated)

    async def _outcome(self, asked: ToolCall) -> ToolResult:
        made = self._tools.get(asked.name)
        if made is None:
            return _told(asked.name, "denied", f"the process may not use {asked.name}")
        if callable(made):
            why = self._against(_declaration(made))
            if why:
                return _told(asked.name, "denied", f"capability: {why}")
            return await _call(made, asked.name, asked.arguments, f"effect-{len(self.calls) + 1}")
        if not made:
            raise AssertionError(f"another call of {asked.name}, and its list has no more results")
        given = made.pop(0)
        return _told(asked.name, "ok", given) if isinstance(given, str) else given


async def _call(tool: ToolFunction, name: str, text: str, effect: str) -> ToolResult:
    declaration = _declaration(tool)
    try:
        arguments = parse_arguments(text)
        Validator(declaration.parameters).check(arguments)
    except ArgumentsError as error:
        return _told(name, "error", str(error))
    if declaration.effect_parameter:
        arguments[declaration.effect_parameter] = effect
    try:
        returned = tool(**arguments)
        if inspect.isawaitable(returned):
            returned = await returned
        return _told(name, "ok", render(returned))
    except Exception as error:  # a tool's fault is data for whoever called it
        return _told(name, "error", f"{type(error).__name__}: {error}")


def _hosts(network: Sequence[str] | None) -> tuple[str, ...] | None:
    """Raises ValueError for what no capability has."""
    return read_capabilities({"network": network}).network


def _told(name: str, status: OutcomeStatus, text: str) -> ToolResult:
    return ToolResult("", name, status, text)


def _declaration(tool: ToolFunction) -> ToolDeclaration:
    found = getattr(tool, TOOL_MARK, None)
    if not isinstance(found, ToolDeclaration):
        raise TypeError(f"{getattr(tool, '__name__', tool)} is not marked: write @tool from weftos above it")
    return found


async def _awaited(handled: Any) -> Any:
    return await handled


def _result(returned: Any) -> TurnResult:
    """As a cell takes it."""
    if returned is None or isinstance(returned, str):
        return TurnResult(returned or "")
    if not isinstance(returned, TurnResult):
        raise TypeError(f"handle() returned {type(returned).__name__}, expected TurnResult, str or None")
    return returned
