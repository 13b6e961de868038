"""What the node hands to its operations beside the kernel: what it is, and what reaches out of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernel.errors import Unavailable
from kernel.memory.memory import Ask
from kernel.operations.keys import Rotated
from kernel.operations.node import Reloaded, Setting, TraceState
from kernel.toolbox.protected import ProtectedPaths
from kernel.upkeep.erasure import Plan, Selection
from kernel.upkeep.loop_lag import LoopLag
from kernel.upkeep.reconciliation import Repair


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the node is. ``way_fault``: who else could put something in the place of what is at a path, in words, empty
    when nobody could; raises OSError.
    """

    name: str
    origin: str
    version: str
    engine: str
    data: Path
    runtime: Path
    providers: frozenset[str]
    protected: ProtectedPaths
    way_fault: Callable[[Path], str]


RotateKeys = Callable[[str], Awaitable[Rotated]]


async def no_rotation(reason: str) -> Rotated:
    """For a node that keeps its keys."""
    raise Unavailable("the keys of this node cannot be changed")


async def nothing_differs() -> list[Repair]:
    """For a node that has nothing to compare with."""
    return []


def no_traces() -> TraceState:
    """For a node whose traces go nowhere."""
    return {"export": "none", "exported": 0, "waiting": 0, "dropped": 0, "fault": ""}


ReloadConfig = Callable[[Callable[..., object]], Awaitable[Reloaded]]
"""It is given what records that it is about to be done, and with which keys. Raises Invalid."""


async def no_reload(record: Callable[..., object]) -> Reloaded:
    """For a node that has no file."""
    raise Unavailable("the configuration of this node cannot be read again")


class LogTail(Protocol):
    """What is logged from when it was opened. Called in threads, one at a time."""

    def read(self) -> list[dict[str, Any]]:
        """What is new. Raises OSError."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Erasures:
    """What does the rest. ``plan`` reads the ledger (raises KernelError); ``begun()`` says there is something to do;
    ``progress()`` says of what is under way which step it is at, and why it does not go on.
    """

    plan: Callable[[Selection], Awaitable[Plan]]
    begun: Callable[[], None]
    progress: Callable[[], dict[str, str]]


@dataclass(frozen=True, slots=True)
class NodeServices:
    """What the operations may have done outside the kernel. ``shutdown(why)`` begins a clean stop."""

    config_view: Callable[[], list[Setting]]
    read_logs: Callable[[str, int], list[dict[str, Any]]]
    follow_logs: Callable[[str], LogTail]
    archive: Ask
    shutdown: Callable[[str], None]
    loop_lag: LoopLag
    erasures: Erasures
    rotate: RotateKeys = no_rotation
    reload: ReloadConfig = no_reload
    clock_ahead_s: Callable[[], float] = lambda: 0.0
    check: Callable[[], Awaitable[list[Repair]]] = nothing_differs
    traces: Callable[[], TraceState] = no_traces
