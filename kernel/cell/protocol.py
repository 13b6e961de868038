"""What a node and its cells say to each other, each shape declared once. Which frame carries it stands in
:mod:`kernel.cell.shell`.

The message of a turn is a :class:`kernel.abi.Message`, its result a :class:`kernel.abi.TurnResult`, a proposed call a
:class:`kernel.abi.ToolCall`, what a model said a :class:`kernel.abi.ModelAnswer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from kernel.abi import LastExit, ModelAnswer, Monitored, OutcomeStatus, ToolCall, ValueName
from kernel.shapes import ShapeError, read


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A process to construct; ``last_exit`` says how its forerunner ended."""

    address: str
    name: str
    behaviour: str
    import_string: str
    python_path: tuple[str, ...]
    config: dict[str, Any]
    last_exit: LastExit | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What the messages of a question are told in terms of: ``count`` and ``hash`` name the beginning of a list that
    both sides know, ``pieces`` say how the question is put together of it and of what is said
    (:mod:`kernel.cell.conversation`).
    """

    count: int
    hash: str
    pieces: list[Any]


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question to a model. ``messages``: those that are said; without ``terms`` all of them."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[str, ...] = ()
    provider: str = ""
    model: str = ""
    terms: Terms | None = None


@dataclass(frozen=True, slots=True)
class MonitorTarget:
    """A process to watch."""

    target: str


@dataclass(frozen=True, slots=True)
class MonitorRef:
    """A monitor to take back; ``flush``: with its message, when that is there already."""

    ref: str
    flush: bool


@dataclass(frozen=True, slots=True)
class Nothing:
    """The arguments of a syscall that takes none."""


Arguments = ToolCall | ModelQuestion | MonitorTarget | MonitorRef | Nothing
ARGUMENTS: dict[str, type[Arguments]] = {
    "tool": ToolCall,
    "model": ModelQuestion,
    "monitor": MonitorTarget,
    "demonitor": MonitorRef,
    **dict.fromkeys(get_args(ValueName), Nothing),
}
"""Each syscall, and what it takes; a value is one by its name."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of a tool call. ``truncated``: there is more of it in the record."""

    status: OutcomeStatus
    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was asked for, whole or not."""

    value: float


@dataclass(frozen=True, slots=True)
class MonitorRemoved:
    """``found``: it was set."""

    found: bool


CallOutcome = ToolOutcome | ModelAnswer | Value | Monitored | MonitorRemoved
"""What a syscall gives."""


def read_arguments(op: str, args: dict[str, Any]) -> Arguments:
    """What a cell asks for. Raises :class:`ShapeError`."""
    kind = ARGUMENTS.get(op)
    if kind is None:
        raise ShapeError(f"syscall {op[:80]!r} is none of {', '.join(ARGUMENTS)}")
    try:
        return read(kind, args)
    except ShapeError as error:
        raise ShapeError(f"syscall {op!r} with arguments of the wrong shape: {error}") from None
