"""What the kernel tells its cells, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kernel.abi import LastExit, TurnResult
from kernel.cell.protocol import Arguments
from kernel.model.makers import OPERATOR, MadeBy
from kernel.model.states import CRASH
from kernel.operations.spawning import Isolation
from kernel.signals import Signal

Seating = Isolation | Literal["isolated"]
"""How it shares its cell; who is isolated is in none with any that is not."""


@dataclass(slots=True)
class Placement:
    """A process to run. ``domain`` is its trust domain: shared processes share a cell only within one. Treat as frozen;
    it is not, because one is made for each start.
    """

    pid: int
    address: str
    name: str
    behaviour: str
    import_string: str
    domain: str
    isolation: Seating = "shared"
    made_by: MadeBy = OPERATOR
    python_path: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    last_exit: LastExit | None = None
    check_replay: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process lives: the name of its cell, the operating system's id of the process that this is, and whether
    it may share it. Empty, 0 and None without one.
    """

    cell: str = ""
    os_pid: int = 0
    isolation: Isolation | None = None


@dataclass(slots=True)
class CellCall:
    """A syscall as the cell made it. ``op``: tool, model, monitor, demonitor, or the name of a value. Rounds
    and indexes rise within a turn.

    ``args`` are of the shape that belongs to it. ``cost_bytes``: what it costs whoever holds it.
    """

    turn: str
    round: int
    index: int
    op: str
    args: Arguments
    cost_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as ``ps`` shows it; ``os_pid`` 0 while it starts, ``isolation`` None for the spare."""

    cell: str
    os_pid: int
    pids: tuple[int, ...]
    isolation: Isolation | None
    domain: str | None


@dataclass(frozen=True, slots=True)
class WarmCells:
    """Spare cells: how many there are, how many are ``wanted`` now, and at ``most``."""

    spare: int
    wanted: int
    most: int


# What happens in the cells. A process ends by exactly one of StartFailed, Refused, Crashed, Left and CellLost, or by
# the node's own ``stop``, after which nothing more is heard of it. Nothing is said from inside a call to
# ``Cells.place``.


@dataclass(frozen=True, slots=True)
class CellStarted(Signal):
    """These processes run, in ``cell``."""

    pids: tuple[int, ...]
    cell: str


@dataclass(frozen=True, slots=True)
class CellStartFailed(Signal):
    """The process never ran; ``why`` begins with ``timeout`` when it took too long."""

    pid: int
    why: str

    @property
    def reason(self) -> str:
        """As exits have it."""
        return "timeout" if self.why.startswith("timeout") else "crash"


@dataclass(frozen=True, slots=True)
class CellRefused(Signal):
    """The process never ran, for there was no cell left for it."""

    pid: int
    why: str


@dataclass(frozen=True, slots=True)
class CellAsked(Signal):
    """A syscall."""

    pid: int
    call: CellCall


@dataclass(frozen=True, slots=True)
class TurnDone(Signal):
    """The behaviour returned."""

    pid: int
    turn: str
    result: TurnResult


@dataclass(frozen=True, slots=True)
class TurnDiffers(Signal):
    """Gone through once more, the turn differed at the syscall ``ordinal``, or at its ``end``: ``first`` was asked, and
    ``then``, in words.
    """

    pid: int
    turn: str
    ordinal: str
    first: str
    then: str


@dataclass(frozen=True, slots=True)
class CellCrashed(Signal):
    """The behaviour raised, or broke a rule; ``turn`` was open. ``beside``: in an earlier one, which had ended."""

    pid: int
    turn: str | None
    detail: str
    beside: bool = False


@dataclass(frozen=True, slots=True)
class CellLeft(Signal):
    """The behaviour left by itself: ``normal`` (SystemExit), or for a logical reason (LogicalExit), of which ``detail``
    says more. Its turn, if one is open, goes with it. ``beside``: it did so in an earlier one, which had ended.
    """

    pid: int
    reason: str
    detail: str = ""
    beside: bool = False


@dataclass(frozen=True, slots=True)
class CellUsed(Signal):
    """A process that has a cell to itself has used so much processor time more, and holds so much memory, 0 when that
    is not known. ``last``: it has left that cell, and nothing more of it is told.
    """

    pid: int
    address: str
    cpu_ms: int
    memory_bytes: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class CellLogged(Signal):
    """What a process wrote into its log."""

    pid: int
    text: str


@dataclass(frozen=True, slots=True)
class CellLost(Signal):
    """A whole cell, also one that never came up, with those that waited for it. ``running_pid``, who is to blame, is 0
    or one of ``pids``, and exits for ``reason``. ``died``: it ran and died by itself; no when it went with the engine
    or never came, which is the doing of nothing that lived in it. ``felled_by``: the address and the PID of who has
    taken down a cell that it shared, also when that one had been dead to the node before.
    """

    cell: str
    running_pid: int
    pids: list[int]
    why: str
    died: bool = True
    reason: str = CRASH
    felled_by: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class EngineLost(Signal):
    """No cell can be started until ``Cells.open`` succeeds again; what is placed meanwhile waits."""

    why: str
