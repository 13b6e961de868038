"""What a node and its cells say to each other, each shape declared once. Which frame carries it stands in
:mod:`kernel.cell.shell`.

The message of a turn is a :class:`kernel.abi.Message`, its result a :class:`kernel.abi.TurnResult`, a proposed call a
:class:`kernel.abi.ToolCall`, what a model said a :class:`kernel.abi.ModelAnswer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from kernel.abi import (
    Compaction,
    Deeds,
    Flushed,
    LastExit,
    Linked,
    ModelAnswer,
    Monitored,
    OutcomeStatus,
    PromptFile,
    Quote,
    Section,
    ToolCall,
    ValueName,
)
from kernel.shapes import ShapeError, read, told

STARTED_TOGETHER = 32
"""Starts that one frame of a cell reports: the node writes them as one unit, while its loop waits."""

LIKE_TOGETHER = 64
"""Starts that one frame of a node orders, all like the one before them: they are made without a break."""


@dataclass(slots=True)
class StartOrder:
    """A process to construct; ``last_exit`` says how its forerunner ended. ``check_replay``: each of its turns is gone
    through once more (:mod:`kernel.cell.replay`). Treat as frozen; it is not, because one is made for each start, here
    and in the cell.
    """

    address: str
    name: str
    behaviour: str
    import_string: str
    python_path: tuple[str, ...]
    config: dict[str, Any]
    last_exit: LastExit | None = None
    check_replay: bool = False


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line that is being carried out; ``source`` is its text, empty where nobody knows it."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a task or a thread stands: what calls, the newest call last."""

    name: str
    calls: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Those of the tasks of one process, and how many more there are."""

    stacks: tuple[Stack, ...]
    more: int


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
class ModelOptions:
    """How a model is to answer, and how it is to be asked: those fields of a :class:`kernel.abi.ModelRequest`."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 0
    output_schema: dict[str, Any] | None = None
    retry: bool = True
    after_ms: int = 0
    aside: bool = False
    stream: bool = True


NO_OPTIONS = ModelOptions()


def said_options(options: ModelOptions | None) -> dict[str, Any]:
    """Those that are not the usual ones, under ``options``; nothing where there are none: a question that says nothing
    of them is the same as before there were any.
    """
    if options is None:
        return {}
    usual = told(NO_OPTIONS)
    said = {name: value for name, value in told(options).items() if value != usual[name]}
    return {"options": said} if said else {}


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question to a model. ``messages``: those that are said; without ``terms`` all of them. ``options`` None: as
    whoever asks nothing else. ``sections`` are told beside it, and are no part of what its hash is of.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[str, ...] = ()
    provider: str = ""
    model: str = ""
    terms: Terms | None = None
    options: ModelOptions | None = None
    sections: tuple[Section, ...] = ()


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
class LinkTarget:
    """A process to link with."""

    target: str


@dataclass(frozen=True, slots=True)
class LinkRef:
    """A link to end."""

    ref: str


@dataclass(frozen=True, slots=True)
class Trapping:
    """Whether ends of the linked are to be told."""

    on: bool


@dataclass(frozen=True, slots=True)
class Quoting:
    """Which models are asked of, for about how many tokens to read and to write."""

    models: tuple[str, ...]
    tokens: int
    answer: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """The arguments of a syscall that takes none."""


Arguments = (
    ToolCall
    | ModelQuestion
    | MonitorTarget
    | MonitorRef
    | LinkTarget
    | LinkRef
    | Trapping
    | Quoting
    | Compaction
    | Nothing
)
ARGUMENTS: dict[str, type[Arguments]] = {
    "tool": ToolCall,
    "model": ModelQuestion,
    "monitor": MonitorTarget,
    "demonitor": MonitorRef,
    "link": LinkTarget,
    "unlink": LinkRef,
    "trap_exits": Trapping,
    "deeds": Nothing,
    "quote": Quoting,
    "prompt_files": Nothing,
    "steered": Nothing,
    "compaction": Compaction,
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
class PromptFiles:
    """Those that there are."""

    files: tuple[PromptFile, ...]


@dataclass(frozen=True, slots=True)
class Steered:
    """Texts that join a turn."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MonitorRemoved:
    """``found``: the monitor, or the link, was set."""

    found: bool


@dataclass(frozen=True, slots=True)
class Trapped:
    """``before``: whether they were told until now."""

    before: bool


CallOutcome = (
    ToolOutcome
    | ModelAnswer
    | Value
    | Deeds
    | PromptFiles
    | Steered
    | Flushed
    | Monitored
    | MonitorRemoved
    | Linked
    | Trapped
    | Quote
)
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
