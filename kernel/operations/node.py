"""Operations on the node itself: how it is, what it wrote, how it is configured, and its end."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, TypedDict

from kernel.operations.operation import MAX_PID, MAX_ROWS, Limit, Nothing, Noun, Operation, Stream


@dataclass(frozen=True, slots=True)
class Log:
    """The newest ``limit`` entries: of a process (``pid``), of a ``kind``; None: of all."""

    _: KW_ONLY
    pid: Annotated[int, Limit(ge=0, le=MAX_PID)] | None = None
    kind: str | None = None
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] = 50


@dataclass(frozen=True, slots=True)
class Follow:
    """``follow``: go on with each new one."""

    _: KW_ONLY
    follow: bool = False


class MessageCounts(TypedDict):
    """accepted = acknowledged + dead + dropped + in_flight. ``archived``: of the dropped, those that made room."""

    accepted: int
    acknowledged: int
    dead: int
    dropped: int
    archived: int
    in_flight: int


class MoneyTotals(TypedDict):
    """Of all accounts of money together, as text in the unit of the node's prices: granted = spent + reserved + left.
    What one process does for another both have spent, so here it counts twice.
    """

    accounts: int
    granted: str
    spent: str
    reserved: str
    left: str


class LedgerState(TypedDict):
    """``provisional``: entries whose head has one signature; ``waiting``: records, and work that has to write some;
    ``unrecorded``: units that never can be."""

    size: int
    full_size: int
    provisional: int
    waiting: int
    unrecorded: int


class HelperRow(TypedDict):
    """A process of the node's own."""

    name: str
    pid: int
    os_pid: int
    state: str


class WarmRow(TypedDict):
    """Cells that are given to nobody yet: how many there are or start, how many are ``wanted``, by how many were asked
    for at once lately, and ``most`` that may be.
    """

    spare: int
    wanted: int
    most: int


class TraceState(TypedDict):
    """Where traces of turns go, and how many since the node began got there, are on their way, or were dropped."""

    export: str
    exported: int
    waiting: int
    dropped: int
    fault: str


class Status(TypedDict):
    """How the node is. ``read_only``: why it is, or None; ``faults`` in words; ``kept``: "N of LIMIT" by name;
    ``clock_ahead_s``: of the machine's clock, before the node's; ``loop_lag_p99_ms`` and ``loop_lag_max_ms`` of the
    last minute, ``loop_lag_longest_ms`` since the start."""

    name: str
    origin: str
    boot: str
    version: str
    engine: str
    uptime_s: float
    read_only: str | None
    processes: int
    cells: int
    warm_cells: WarmRow
    messages: MessageCounts
    doubts: int
    divergences: int
    money: MoneyTotals
    ledger: LedgerState
    faults: list[str]
    kept: dict[str, str | int]
    clock_ahead_s: float
    traces: TraceState
    helpers: list[HelperRow]
    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    loop_lag_longest_ms: float
    runtime: str
    data: str
    os_pid: int


class LogAnswer(TypedDict):
    """``rows`` of entries, newest last, and where they are from."""

    rows: list[dict[str, Any]]
    source: str


class Event(TypedDict):
    """A ledger entry, in short."""

    seq: int
    time_us: int
    pid: int
    kind: str
    subject: str
    cause: int


class Setting(TypedDict):
    """A setting in force, and where it comes from."""

    key: str
    value: Any
    origin: str


class Configuration(TypedDict):
    """Every setting; secrets never."""

    values: list[Setting]


class Reloaded(TypedDict):
    """The keys that have changed and act, and those that have changed and need a restart."""

    changed: list[str]
    needs_restart: list[str]


class Stopping(TypedDict):
    """True."""

    stopping: bool


class Difference(TypedDict):
    """``what``: ghost, orphan, orphan cell, lost cell or orphan process; ``why`` in words."""

    what: str
    of: str
    why: str


class Checked(TypedDict):
    """What the process table, the cells and the operating system do not agree about, in two looks."""

    differences: list[Difference]


class Node(Noun):
    """The node."""

    status = Operation("GET", "/status", Nothing, Status, "How the node is.")
    log = Operation(
        "GET",
        "/log",
        Log,
        LogAnswer,
        "Ledger entries from the archive; `unavailable` when that is not there.",
    )
    events = Stream(
        "GET",
        "/events",
        Follow,
        Event,
        "Recent ledger entries; with `follow` each new one as it is written, until the reader leaves.",
    )
    config = Operation("GET", "/config", Nothing, Configuration, "Every setting in force; secrets never.")
    reload = Operation(
        "POST",
        "/config/reload",
        Nothing,
        Reloaded,
        "Read the configuration again, and the files of keys, and take over what a running node can; with a fault in "
        "it nothing changes.",
        recorded="reload",
    )
    check = Operation(
        "GET",
        "/check",
        Nothing,
        Checked,
        "Look, twice, whether the process table, the cells and the operating system agree. Nothing is repaired.",
    )
    shutdown = Operation(
        "POST",
        "/shutdown",
        Nothing,
        Stopping,
        "Ask the node to stop. Answered when it has begun to.",
        recorded="down",
    )
