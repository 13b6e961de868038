"""Operations on processes that are there: look at them, start, stop, signal and remove them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from kernel.operations.mailboxes import Mailbox, MailboxInForce
from kernel.operations.operation import MAX_ROWS, START_S, Limit, Noun, OfTarget, Operation, Stream, Why
from kernel.operations.rights.budgets import AccountLine
from kernel.operations.spawning import AutoShutdown, OnLogical, Restart, ShutdownS, TurnS

Signal = Literal["term", "kill"]
MAX_ID_CHARS = 64
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
class Reasoned(OfTarget):
    """``why``: what the record of it is to say, and what the process that comes after is told of the last one's end."""

    _: KW_ONLY
    why: Why = ""


@dataclass(frozen=True, slots=True)
class Kill(Reasoned):
    """``term`` lets it end its turn in order, ``kill`` does not."""

    _: KW_ONLY
    signal: Signal = "term"


@dataclass(frozen=True, slots=True)
class ChangeRequest(OfTarget):
    """What is to be another, None for what stays: of a child ``restart``, ``shutdown_s``, ``on_logical``, whether it is
    ``significant``, ``turn_timeout_s`` (from its next turn on) and ``mailbox`` (from the next message on); of a
    supervisor ``intensity`` [restarts, seconds], ``strategy`` and ``auto_shutdown``; of one that makes its children of
    a template ``child_restart``, ``child_shutdown_s``, ``on_logical``, ``turn_timeout_s`` and ``mailbox`` of those it
    makes from then on. The words are those of a spawn.
    """

    _: KW_ONLY
    restart: Restart | None = None
    shutdown_s: ShutdownS | None = None
    significant: bool | None = None
    on_logical: OnLogical | None = None
    intensity: tuple[int, float] | None = None
    strategy: Annotated[str, Limit(min_length=1, max_length=64)] | None = None
    auto_shutdown: AutoShutdown | None = None
    turn_timeout_s: TurnS | None = None
    mailbox: Mailbox | None = None
    child_restart: Restart | None = None
    child_shutdown_s: ShutdownS | None = None

    @property
    def wanted(self) -> dict[str, Any]:
        """The fields that are given."""
        given = ((item.name, getattr(self, item.name)) for item in fields(self) if item.name != "target")
        return {name: value for name, value in given if value is not None}


@dataclass(frozen=True, slots=True)
class Cancel(OfTarget):
    """``message``: the id of the one that is meant; without it, what the process handles now, or would handle next."""

    _: KW_ONLY
    message: Annotated[str, Limit(max_length=MAX_ID_CHARS)] = ""
    why: Why = ""


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


class CodeRow(TypedDict):
    """A line that is being carried out; ``source`` empty where it is not known."""

    file: str
    line: int
    function: str
    source: str


class StackRow(TypedDict):
    """Where a task stands, or a thread: what calls, the newest call last."""

    name: str
    calls: list[CodeRow]


class ProcessStacks(TypedDict):
    """``stuck``: the loop of its cell did not go round for a second. Then ``stacks`` are those of the cell's threads,
    else of the process's tasks; and ``running`` is the PID that holds the loop, 0 when nobody knows. ``more`` are left
    out.
    """

    address: str
    pid: int
    cell: str
    stuck: bool
    running: int
    stacks: list[StackRow]
    more: int


class Wait(TypedDict):
    """What a process waits for: ``kind`` (message, model, provider_slot, tool, worker, reply, node, disk, person,
    child, parent, sibling, back_off, cell) and of whom; ``waited_s`` None: nobody knows how long; ``left_s`` None: as
    long as it takes.
    """

    kind: str
    of: str
    waited_s: float | None
    left_s: float | None


class Slot(TypedDict):
    """A process, or the slot of one. ``type``: worker, supervisor or helper. ``why`` and ``last_exit`` are said of
    slots that can be restarted, and how many shared cells it has taken down (``felled``): after the second it is
    ``dedicated``, whatever was said at its spawn, or shares with such ones alone where there are many. ``session``: the
    chat whose messages it handles, of what is one's session."""

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
    felled: NotRequired[int]
    session: NotRequired[str]


class ProcessRow(Slot):
    """``turn``: the one it is in, empty for none. ``waiting`` None: for nothing."""

    turn: NotRequired[str]
    waiting: NotRequired[Wait | None]


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
    children, where it is a supervisor; ``waiting`` None: it waits for nothing; ``budget``: the
    accounts that what it uses comes out of."""

    waiting: Wait | None
    spec: dict[str, Any]
    tools: list[str]
    spawned_seq: int
    turn: OpenTurn | None
    mail: list[MailRow]
    sessions: dict[str, int]
    supervision: dict[str, int] | None
    budget: list[AccountLine]
    turn_timeout_s: float | None
    mailbox_limits: MailboxInForce | None


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
    """``restarts`` it allows in ``period_s``, so many are ``counted`` now (where it parks: of the child with most);
    ``on_exceed``: with one too many it ends (shutdown), or parks the child. ``counts``: OTP's count_children.
    ``running``: it runs, and does not just end.
    """

    address: str
    running: bool
    strategy: str
    restarts: int
    period_s: float
    counted: int
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


class Changed(TypedDict):
    """``changed``: the names of the fields that are others now, none when all were so already."""

    address: str
    changed: list[str]


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


class Suspended(TypedDict):
    """``suspended``: it begins no turn; one that is open goes on."""

    address: str
    suspended: bool


class Cancelled(TypedDict):
    """What has ended: the ``message``, and its ``turn``, empty when it had not begun; ``others``: so many messages that
    it had led others to ask. ``node``: the peer that it was on, if not this one.
    """

    address: str
    turn: str
    message: str
    others: int
    node: NotRequired[str]


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
        Reasoned,
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
    change = Operation(
        "POST",
        "/change",
        ChangeRequest,
        Changed,
        "Change a child's spec or a supervisor's flags, all that is said or nothing; no process is touched.",
        recorded="change",
    )
    unpark = Operation(
        "POST",
        "/unpark",
        OfTarget,
        Started,
        "Start a parked child; refused for any other.",
        recorded="unpark",
        takes_s=START_S,
    )
    restart = Operation(
        "POST",
        "/restart",
        Reasoned,
        Started,
        "End what runs in order and start it again with its mail, which counts against no intensity.",
        recorded="restart",
        takes_s=START_S,
    )
    suspend = Operation(
        "POST",
        "/suspend",
        Reasoned,
        Suspended,
        "Have a process begin no turn until it is resumed, after a restart and a boot too. Its messages wait.",
        recorded="suspend",
    )
    resume = Operation(
        "POST",
        "/resume",
        Reasoned,
        Suspended,
        "Have a suspended process go on.",
        recorded="resume",
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
        Cancel,
        Cancelled,
        "End what a process handles, or is about to, with all that this has asked of others; the process lives on.",
        recorded="cancel",
    )
    stack = Operation(
        "GET",
        "/stack",
        OfTarget,
        ProcessStacks,
        "Where the tasks of a process stand just now, without the value of any variable.",
    )
    logs = Operation(
        "GET", "/logs", LogLines, list[dict[str, Any]], "The last log lines of a process, oldest first."
    )
    follow = Stream(
        "GET",
        "/logs/follow",
        LogLines,
        dict[str, Any],
        "The last log lines of a process, then each new one as it is written, until the reader leaves.",
    )
