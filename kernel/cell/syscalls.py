"""The cell's end of the Syscalls protocol: what a behaviour holds during one turn.

Numbering: each single call opens a new round and has index 0 in it; ``call_tools`` of k calls is one round
with the indexes 0 to k-1. ``history`` and ``tools`` came with the message and are no calls. The ordinal
(round, index) names the call to the node for ever, so a behaviour that makes the same calls in the same order
gets the same outcomes again.

A question to a model is told in terms of what the node knows of this turn (:mod:`kernel.cell.conversation`). The node
may ask for all of it as long as the call has no outcome.

The node takes no more than ``OPEN_CALLS`` of a process at once. A call beyond them waits here, and is made, in order,
when one before it has its outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from kernel.abi import (
    MOST_SECTIONS,
    OPEN_CALLS,
    Compaction,
    Deeds,
    Flushed,
    Linked,
    ModelAnswer,
    ModelRequest,
    Monitored,
    PromptFile,
    Quote,
    Syscalls,
    ToolCall,
    ToolResult,
    TurnEnded,
    ValueName,
)
from kernel.cell.conversation import Conversation, as_json, canonical_json
from kernel.cell.link.frames import FrameError
from kernel.cell.protocol import (
    NO_OPTIONS,
    Arguments,
    LinkRef,
    LinkTarget,
    ModelOptions,
    ModelQuestion,
    MonitorRef,
    MonitorRemoved,
    MonitorTarget,
    Nothing,
    PromptFiles,
    Quoting,
    Steered,
    ToolOutcome,
    Trapped,
    Trapping,
    Value,
)
from kernel.shapes import ShapeError, read, told

Send = Callable[[list[Any]], None]
T = TypeVar("T")
MAX_LOG_CHARS = 4096
MAX_LOGS_PER_TURN = 1000


def _check_text(what: str, **fields: Any) -> None:
    for name, value in fields.items():
        if not isinstance(value, str):
            raise TypeError(f"{what}.{name} is {type(value).__name__}, expected str")


def _options_of(request: ModelRequest) -> ModelOptions | None:
    """None where nothing is said of them. Raises TypeError; what the values may be is for the node to say."""
    given = {field.name: getattr(request, field.name) for field in fields(ModelOptions)}
    if given["output_schema"] is not None:
        given["output_schema"] = as_json(given["output_schema"])
    try:
        options = read(ModelOptions, given)
    except ShapeError as error:
        raise TypeError(f"ModelRequest.{error}") from None
    return None if options == NO_OPTIONS else options


@dataclass(slots=True)
class _Call(Generic[T]):
    """A syscall that waits for its outcome, which is a ``kind``. ``unmade``: what that is when the call is too large to
    be made, which one without arguments is not.
    """

    round: int
    index: int
    op: str
    args: dict[str, Any]
    kind: type[T]
    unmade: Callable[[str], T] | None
    outcome: asyncio.Future[T]


class CellSyscalls(Syscalls):
    """One turn of one process. After :meth:`end` every call raises :class:`TurnEnded`, pending ones included."""

    def __init__(
        self,
        pid: int,
        turn: str,
        history: list[dict[str, Any]],
        tools: list[str],
        send: Send,
        sizes: Sequence[int] = (),
    ) -> None:
        self._pid = pid
        self._turn = turn
        self._history = history
        self._conversation = Conversation(history)
        self._whole: dict[tuple[int, int], tuple[list[bytes], ModelQuestion] | None] = {}
        self._tools = tools
        self._sizes = sizes
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._round = 0
        self._logs = 0
        self._open: dict[tuple[int, int], _Call[Any]] = {}
        self._waiting: deque[_Call[Any]] = deque()
        self._ended: str | None = None

    async def call_tool(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        text = arguments if isinstance(arguments, str) else canonical_json(arguments)
        return (await self.call_tools([ToolCall(name, text)]))[0]

    async def call_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        for call in calls:
            _check_text("ToolCall", name=call.name, arguments=call.arguments, id=call.id)
        round_ = self._next_round()
        asked = [
            self._call(
                (round_, index),
                "tool",
                ToolCall(call.name, call.arguments, call.id),
                ToolOutcome,
                _unmade_call,
            )
            for index, call in enumerate(calls)
        ]
        outcomes = [await outcome for outcome in asked]
        return [
            ToolResult(call.id, call.name, outcome.status, outcome.text, outcome.truncated)
            for call, outcome in zip(calls, outcomes, strict=True)
        ]

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        _check_text("ModelRequest", provider=request.provider, model=request.model)
        options = _options_of(request)
        round_ = self._next_round()
        said, terms = self._conversation.told(list(request.messages))
        question = ModelQuestion(
            tuple(said),
            tuple(request.tools),
            request.provider,
            request.model,
            terms,
            options,
            tuple(request.sections[:MOST_SECTIONS]),
        )
        self._whole[round_, 0] = (self._conversation.packed, question) if terms is not None else None
        try:
            return await self._call((round_, 0), "model", question, ModelAnswer, _unmade_question)
        finally:
            del self._whole[round_, 0]

    async def history(self) -> list[dict[str, Any]]:
        return list(self._history)

    async def tools(self) -> list[str]:
        return list(self._tools)

    async def tool_tokens(self) -> dict[str, int]:
        return dict(zip(self._tools, self._sizes, strict=False))

    async def deeds(self) -> Deeds:
        return await self._call((self._next_round(), 0), "deeds", Nothing(), Deeds)

    async def prompt_files(self) -> tuple[PromptFile, ...]:
        return (await self._call((self._next_round(), 0), "prompt_files", Nothing(), PromptFiles)).files

    async def steered(self) -> tuple[str, ...]:
        return (await self._call((self._next_round(), 0), "steered", Nothing(), Steered)).texts

    async def compaction(self, told: Compaction) -> Flushed:
        return await self._call((self._next_round(), 0), "compaction", told, Flushed, _unmade_flush)

    async def value(self, name: ValueName) -> float | int:
        return (await self._call((self._next_round(), 0), name, Nothing(), Value)).value

    async def quote(self, models: Sequence[str], tokens: int, answer: int = 0) -> Quote:
        try:
            asked = read(Quoting, {"models": list(models), "tokens": tokens, "answer": answer})
        except ShapeError as error:
            raise TypeError(f"quote.{error}") from None
        return await self._call((self._next_round(), 0), "quote", asked, Quote, _unmade_quote)

    async def monitor(self, target: str) -> Monitored:
        _check_text("monitor", target=target)
        return await self._call(
            (self._next_round(), 0), "monitor", MonitorTarget(target), Monitored, _unmade_monitor
        )

    async def demonitor(self, ref: str, *, flush: bool = False) -> bool:
        _check_text("demonitor", ref=ref)
        asked = MonitorRef(ref, bool(flush))
        unmade = _unmade_removal
        return (await self._call((self._next_round(), 0), "demonitor", asked, MonitorRemoved, unmade)).found

    async def link(self, target: str) -> Linked:
        _check_text("link", target=target)
        return await self._call((self._next_round(), 0), "link", LinkTarget(target), Linked, _unmade_link)

    async def unlink(self, ref: str) -> bool:
        _check_text("unlink", ref=ref)
        asked, unmade = LinkRef(ref), _unmade_removal
        return (await self._call((self._next_round(), 0), "unlink", asked, MonitorRemoved, unmade)).found

    async def trap_exits(self, on: bool = True) -> bool:
        asked = Trapping(bool(on))
        return (await self._call((self._next_round(), 0), "trap_exits", asked, Trapped)).before

    def log(self, text: str) -> None:
        self._logs += 1
        if self._ended is None and self._logs <= MAX_LOGS_PER_TURN:
            self._send(["log", self._pid, text[:MAX_LOG_CHARS].encode(errors="replace").decode()])

    def _next_round(self) -> int:
        round_ = self._round
        self._round += 1
        return round_

    def _call(
        self,
        ordinal: tuple[int, int],
        op: str,
        arguments: Arguments,
        kind: type[T],
        unmade: Callable[[str], T] | None = None,
    ) -> asyncio.Future[T]:
        if self._ended is not None:
            raise TurnEnded(self._ended)
        call = _Call(*ordinal, op, told(arguments), kind, unmade, self._loop.create_future())
        if self._waiting or len(self._open) >= OPEN_CALLS:
            self._waiting.append(call)
        else:
            self._make(call, call.args)
        return call.outcome

    def _make(self, call: _Call[Any], args: dict[str, Any]) -> None:
        try:
            self._send(["call", self._pid, self._turn, call.round, call.index, call.op, args])
        except FrameError as error:
            if call.unmade is None:
                raise
            call.outcome.set_result(call.unmade(f"the call is too large to be made: {error}"))
        else:
            self._open[call.round, call.index] = call

    def _make_next(self) -> None:
        """Make calls that wait, as far as there is room. One that nobody waits for any more is not made."""
        while self._waiting and len(self._open) < OPEN_CALLS:
            call = self._waiting.popleft()
            if call.outcome.done():
                continue
            try:
                self._make(call, call.args)
            except (TypeError, ValueError, OverflowError) as error:  # as it would have been raised at once
                call.outcome.set_exception(error)

    def resolve(self, round_: int, index: int, outcome: Any) -> None:
        """The node's answer to one call; one that nobody waits for any more is dropped. Raises ShapeError."""
        call = self._open.pop((round_, index), None)
        if call is not None and not call.outcome.done():
            call.outcome.set_result(read(call.kind, outcome))
        self._make_next()

    def say_whole(self, round_: int, index: int) -> None:
        """The node wants all of a call that was told in terms of what it no longer knows. Each message is said packed,
        as one value: together they may have more than a frame may.
        """
        call, whole = self._open.get((round_, index)), self._whole.get((round_, index))
        if call is not None and whole is not None:
            packed, question = whole
            self._make(call, told(question) | {"messages": packed, "terms": None})

    def end(self, why: str) -> bool:
        """The turn is over. True when a call was waiting, and so the behaviour learns of it without being
        cancelled.
        """
        self._ended = why
        outcomes = [call.outcome for call in (*self._open.values(), *self._waiting)]
        waiting = [outcome for outcome in outcomes if not outcome.done()]
        self._open.clear()
        self._waiting.clear()
        for outcome in waiting:
            outcome.set_exception(TurnEnded(why))
        return bool(waiting)


def _unmade_call(why: str) -> ToolOutcome:
    return ToolOutcome("error", why, False)


def _unmade_question(why: str) -> ModelAnswer:
    return ModelAnswer("error", why, error_kind="invalid")


def _unmade_quote(why: str) -> Quote:
    return Quote((), 0)


def _unmade_monitor(why: str) -> Monitored:
    return Monitored("", why)


def _unmade_link(why: str) -> Linked:
    return Linked("", why)


def _unmade_flush(why: str) -> Flushed:
    return Flushed(0, why)


def _unmade_removal(why: str) -> MonitorRemoved:
    return MonitorRemoved(False)
