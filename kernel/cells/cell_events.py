"""What the kernel tells its cells and hears from them: values and one protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from kernel.cells.cell_table import Isolation
from kernel.model.makers import OPERATOR, MadeBy


@dataclass(frozen=True, slots=True)
class Placement:
    """A process to run. ``domain`` is its trust domain: shared processes share a cell only within one."""

    pid: int
    address: str
    name: str
    behaviour: str
    import_string: str
    domain: str
    isolation: Isolation = "shared"
    made_by: MadeBy = OPERATOR
    python_path: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class CellCall:
    """A syscall as the cell made it. ``op``: tool, model, now, random. Rounds and indexes rise within a turn.

    ``args`` are checked in type: tool {name, arguments, id}: str; model {messages: list of dict, tools: list
    of str, provider, model: str}; now and random: empty. ``cost_bytes``: what
    it costs whoever holds it.
    """

    turn: str
    round: int
    index: int
    op: str
    args: dict[str, Any]
    cost_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as ``ps`` shows it; ``os_pid`` 0 while it starts, ``isolation`` None for the spare."""

    cell: str
    os_pid: int
    pids: tuple[int, ...]
    isolation: Isolation | None
    domain: str | None


class CellEvents(Protocol):
    """What happens in the cells, for the kernel. Called on the event loop; never from inside a call to
    Cells.place.

    A process ends by exactly one of start_failed, crashed, exited and cell_lost, or by the node's own
    ``stop``, after which nothing more is heard of it.
    """

    def started(self, pid: int) -> None: ...

    def start_failed(self, pid: int, why: str) -> None: ...

    def syscall(self, pid: int, call: CellCall) -> None: ...

    def turn_done(self, pid: int, turn: str, result: dict[str, Any]) -> None:
        """``result``: reply (str), remember (list of dict), status (ok or error)."""

    def crashed(self, pid: int, turn: str | None, detail: str) -> None: ...

    def exited(self, pid: int, reason: str) -> None:
        """The behaviour left by itself (SystemExit): reason ``normal``. Its turn, if one is open, goes with
        it.
        """

    def log(self, pid: int, text: str) -> None: ...

    def cell_lost(self, cell: str, running_pid: int, pids: list[int], why: str) -> None:
        """One event for a whole cell, also one that never came up, with those that waited for it. ``running_pid``
        is 0 or one of ``pids``.
        """

    def engine_lost(self, why: str) -> None:
        """No cell can be started until ``Cells.open_engine`` succeeds again; what is placed meanwhile waits."""
