"""The states of a process and of a child slot, as tables, and the reasons a process exits with.

A *process* is one incarnation (one PID). It is ``starting`` until its cell reports it, and at last
``exited``. A *slot* is the place of a child under its supervisor; it outlives its incarnations. Its state
is what the supervisor means to do with it: keep it running, bring it back (``restarting``: between an exit
and the next report of a start), wait for a person (``parked``), or leave it be (``stopped``). A removed
slot has no state: it is gone.

What is not in a table cannot happen; :func:`advance` raises StateError for it. The rules that choose the
slot's event are in kernel/supervision/reducer.py.

    advance(table, state, event) -> state
    PROCESS_TABLE: dict[ProcessState, dict[ProcessEvent, ProcessState]]
    SLOT_TABLE: dict[SlotState, dict[SlotEvent, SlotState]]
    EXIT_KINDS: dict[str, ExitKind]            every reason, and what kind of end it is
    exit_kind(reason: str) -> ExitKind         of shutdown:why too
    shutdown_because(why: str) -> str          "shutdown:why"
    is_reason(text: str) -> bool
    is_orderly(reason: str) -> bool            normal, shutdown, shutdown:why
    is_blameless(reason: str) -> bool          cell_lost: through no doing of its own
    is_logical(reason: str) -> bool            no_progress, refused, diverged, budget
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from kernel.abi import ExitKind
from kernel.errors import StateError


class ProcessState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    EXITED = "exited"


class ProcessEvent(StrEnum):
    STARTED = "started"  # the cell (or the node, for a supervisor) reports that it runs
    SUSPEND = "suspend"
    RESUME = "resume"
    STOP = "stop"  # an exit signal was sent; it may still finish
    EXIT = "exit"  # the node declares it dead


PROCESS_TABLE: dict[ProcessState, dict[ProcessEvent, ProcessState]] = {
    ProcessState.STARTING: {
        ProcessEvent.STARTED: ProcessState.RUNNING,
        ProcessEvent.STOP: ProcessState.STOPPING,
        ProcessEvent.EXIT: ProcessState.EXITED,
    },
    ProcessState.RUNNING: {
        ProcessEvent.SUSPEND: ProcessState.SUSPENDED,
        ProcessEvent.STOP: ProcessState.STOPPING,
        ProcessEvent.EXIT: ProcessState.EXITED,
    },
    ProcessState.SUSPENDED: {
        ProcessEvent.RESUME: ProcessState.RUNNING,
        ProcessEvent.STOP: ProcessState.STOPPING,
        ProcessEvent.EXIT: ProcessState.EXITED,
    },
    ProcessState.STOPPING: {
        ProcessEvent.STARTED: ProcessState.STOPPING,  # the report crossed the signal
        ProcessEvent.STOP: ProcessState.STOPPING,
        ProcessEvent.EXIT: ProcessState.EXITED,
    },
    ProcessState.EXITED: {},
}


class SlotState(StrEnum):
    RUNNING = "running"
    RESTARTING = "restarting"
    PARKED = "parked"
    STOPPED = "stopped"


class SlotEvent(StrEnum):
    STARTED = "started"  # the new incarnation runs
    FAILED = "failed"  # it ended or did not start, and its restart type brings it back
    EXCEEDED = "exceeded"  # as FAILED, but once too often: a person must look
    PARK = "park"  # it ended for a logical reason, and its spec has a person look
    ENDED = "ended"  # it ended and its spec leaves it, or a start that was asked for failed
    STOP = "stop"  # asked for
    START = "start"  # asked for


SLOT_TABLE: dict[SlotState, dict[SlotEvent, SlotState]] = {
    SlotState.RUNNING: {
        SlotEvent.STARTED: SlotState.RUNNING,
        SlotEvent.FAILED: SlotState.RESTARTING,
        SlotEvent.EXCEEDED: SlotState.PARKED,
        SlotEvent.PARK: SlotState.PARKED,
        SlotEvent.ENDED: SlotState.STOPPED,
        SlotEvent.STOP: SlotState.STOPPED,
    },
    SlotState.RESTARTING: {
        SlotEvent.STARTED: SlotState.RUNNING,
        SlotEvent.FAILED: SlotState.RESTARTING,
        SlotEvent.EXCEEDED: SlotState.PARKED,
        SlotEvent.ENDED: SlotState.STOPPED,
        SlotEvent.STOP: SlotState.STOPPED,
    },
    SlotState.PARKED: {
        SlotEvent.STOP: SlotState.STOPPED,
        SlotEvent.START: SlotState.RUNNING,
    },
    SlotState.STOPPED: {
        SlotEvent.STOP: SlotState.STOPPED,
        SlotEvent.START: SlotState.RUNNING,
    },
}

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


def advance(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> S:
    """The state after ``event``; StateError when the table does not have it."""
    try:
        return table[state][event]
    except KeyError:
        raise StateError(
            f"{event} cannot happen in state {state}: a fault in weftos, please report it"
        ) from None


NORMAL = "normal"
SHUTDOWN = "shutdown"
KILLED = "killed"
CRASH = "crash"
CELL_LOST = "cell_lost"
TIMEOUT = "timeout"
NO_PROGRESS = "no_progress"
REFUSED = "refused"
DIVERGED = "diverged"
BUDGET = "budget"

# What a monitor is told of an end that nobody saw. A process of a node exits so when a link has it end with that one.
NOCONNECTION = "noconnection"
NOPROC = "noproc"

EXIT_KINDS: Mapping[str, ExitKind] = {
    NORMAL: "orderly",
    SHUTDOWN: "orderly",
    # The same may go well the next time.
    CRASH: "technical",
    CELL_LOST: "technical",
    TIMEOUT: "technical",
    KILLED: "technical",
    NOCONNECTION: "technical",
    NOPROC: "technical",
    # The same words will bring the same again. Of the first two a behaviour says so itself (kernel.abi.LogicalExit).
    NO_PROGRESS: "logical",
    REFUSED: "logical",
    DIVERGED: "logical",
    BUDGET: "logical",
}
REASONS = frozenset(EXIT_KINDS)
_SHUTDOWN_BECAUSE = "shutdown:"


def shutdown_because(why: str) -> str:
    """An orderly end with a cause, Erlang's ``{shutdown, Term}``."""
    return _SHUTDOWN_BECAUSE + why


def is_reason(text: str) -> bool:
    """Whether ``text`` is a reason a process can exit with."""
    return text in REASONS or (text.startswith(_SHUTDOWN_BECAUSE) and len(text) > len(_SHUTDOWN_BECAUSE))


def exit_kind(reason: str) -> ExitKind:
    """Of a reason that this version does not know it is said that it is technical."""
    return EXIT_KINDS.get(SHUTDOWN if reason.startswith(_SHUTDOWN_BECAUSE) else reason, "technical")


def is_orderly(reason: str) -> bool:
    """Whether a transient child that exits so is left alone."""
    return exit_kind(reason) == "orderly"


def is_logical(reason: str) -> bool:
    """Whether the same words will bring the same end again."""
    return exit_kind(reason) == "logical"


def is_blameless(reason: str) -> bool:
    """Whether the process was lost with its cell, through no doing of its own."""
    return reason == CELL_LOST
