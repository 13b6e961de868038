"""Operations on processes that are there: look at them, start, stop, signal and remove them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from kernel.operations.operation import MAX_ROWS, START_S, Limit, Noun, OfTarget, Operation

Signal = Literal["term", "kill"]
REMOVE_S = 120.0
"""What the node may take to remove a tree of many thousands."""


@dataclass(frozen=True, slots=True)
class Listing:
    """``all``: what runs under ``/kernel`` too. A node of many thousands is asked a page at a time: the first ``limit``
    below ``/user``, then those ``after`` the last address of that page, until one is shorter than ``limit``.
    """

    _: KW_ONLY
    all: bool = False
    after: Annotated[str, Limit(max_length=1100)] = ""
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] | None = None


@dataclass(frozen=True, slots=True)
class Removal(OfTarget):
    """``recursive``: with all below it."""

    _: KW_ONLY
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Kill(OfTarget):
    """``term`` lets it end its turn in order, ``kill`` does not."""

    _: KW_ONLY
    signal: Signal = "term"


@dataclass(frozen=True, slots=True)
class LogLines(OfTarget):
    """The newest ``limit`` lines."""

    _: KW_ONLY
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] = 200


@dataclass(frozen=True, slots=True)
class ChildrenOf(OfTarget):
    """The first ``limit`` children in the order in which they were made, or of those that were made after the entry
    ``after``: the ``spawned_seq`` of the last child of a page, which need not be there any more.
    """

    _: KW_ONLY
    after: Annotated[int, Limit(ge=-1)] = -1
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] = 1_000


class Slot(TypedDict):
    """A process, or the slot of one. ``type``: worker, supervisor or helper. ``why`` and ``last_exit`` are said of
    slots that can be restarted."""

    pid: int
    address: str
    name: str
    type: str
    state: str
    slot: str
    behaviour: str
    restarts: int
    mailbox: int
    uptime_s: float
    cell: str | None
    os_pid: int
    isolation: str
    children: int
    why: NotRequired[str]
    last_exit: NotRequired[str]


class ProcessRow(Slot):
    """``turn``: the one it is in, empty for none."""

    turn: NotRequired[str]


class OpenTurn(TypedDict):
    """``calls`` that it made, of which ``recorded`` have an outcome; ``doubts``: ordinals of those in doubt."""

    id: str
    message: str
    attempt: int
    crashes: int
    calls: int
    recorded: int
    doubts: list[str]
    diverged: dict[str, Any] | None


class MailRow(TypedDict):
    """A message that waits; ``text`` is its beginning."""

    id: str
    sender: str
    session: str
    text: str
    seq: int


class Inspected(Slot):
    """``sessions``: how many records each has; ``mail``: the first of what waits; ``supervision``: counts of its
    children, where it is a supervisor."""

    spec: dict[str, Any]
    tools: list[str]
    spawned_seq: int
    turn: OpenTurn | None
    mail: list[MailRow]
    sessions: dict[str, int]
    supervision: dict[str, int] | None


class ChildRow(TypedDict):
    """``phase``: what there is of its process just now (none, starting, up, stopping, waiting for its back-off, queued
    for its turn in a restart of several); ``pid`` 0 for none. ``shutdown_s``: what it may take to end. ``spawned_seq``:
    the entry that made its slot.
    """

    name: str
    address: str
    spawned_seq: int
    pid: int
    slot: str
    phase: str
    type: str
    restart: str
    significant: bool
    on_logical: str
    shutdown_s: float | Literal["infinity"]


class Children(TypedDict):
    """``restarts`` it allows in ``period_s``; ``on_exceed``: with one too many it ends (shutdown), or parks the child.
    ``counts``: OTP's count_children. ``running``: it runs, and does not just end.
    """

    address: str
    running: bool
    strategy: str
    restarts: int
    period_s: float
    auto_shutdown: str
    on_exceed: str
    counts: dict[str, int]
    children: list[ChildRow]


class Stopped(TypedDict):
    """``state`` of the slot. ``kept``: it stays, and can be started again; else it goes with its process."""

    address: str
    state: str
    kept: bool


class Started(TypedDict):
    """``state`` of the slot."""

    address: str
    pid: int
    state: str


class Removed(TypedDict):
    """``removed``: how many slots went."""

    address: str
    removed: int


class Signalled(TypedDict):
    """``pid``: the one that the signal went to, 0 for none; ``node``: the peer it runs on, if not this one."""

    address: str
    pid: int
    signal: str
    node: NotRequired[str]


class Cancelled(TypedDict):
    """The ``turn`` that was ended."""

    address: str
    turn: str


class Processes(Noun):
    """Processes of this node."""

    ps = Operation(
        "GET",
        "/processes",
        Listing,
        list[ProcessRow],
        "One row a process, parents before children.",
        after=lambda row: str(row["address"]),
    )
    inspect = Operation(
        "GET", "/process", OfTarget, Inspected, "All about one process: its spec, turn, mail and sessions."
    )
    children = Operation(
        "GET",
        "/children",
        ChildrenOf,
        Children,
        "The children of a process as its supervisor has them, their specs and counts, and its flags.",
    )
    stop = Operation(
        "POST",
        "/stop",
        OfTarget,
        Stopped,
        "Stop a child through its supervisor. It stays stopped until it is started.",
        recorded="stop",
    )
    start = Operation(
        "POST",
        "/start",
        OfTarget,
        Started,
        "Start a stopped or parked child.",
        recorded="start",
        takes_s=START_S,
    )
    remove = Operation(
        "POST",
        "/remove",
        Removal,
        Removed,
        "Remove a stopped or parked child for good; its name is free again.",
        recorded="remove",
        takes_s=REMOVE_S,
    )
    kill = Operation(
        "POST",
        "/kill",
        Kill,
        Signalled,
        "Send an exit signal. What follows is up to the supervisor and the restart type.",
        recorded="kill",
    )
    cancel = Operation(
        "POST",
        "/cancel",
        OfTarget,
        Cancelled,
        "End the current turn of a process; the process lives on.",
        recorded="cancel",
    )
    logs = Operation(
        "GET", "/logs", LogLines, list[dict[str, Any]], "The last log lines of a process, oldest first."
    )
