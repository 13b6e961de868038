"""Which cell a process goes to: decisions only, no clock and no I/O.

A *shared* process joins a cell of its own trust domain that has room; a *dedicated* one has a cell to itself.
One spare cell, given to nobody yet, is kept warm, so that most placements do not wait for a cell to start. A
dedicated cell is closed with its process; of shared cells that have become empty a few are kept for their
domain.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernel.abi import OPEN_CALLS
from kernel.model.makers import OPERATOR, MadeBy, is_peer
from kernel.operations.spawning import Isolation


@dataclass(frozen=True, slots=True)
class CellLimits:
    """Limits of a node's cells. Durations in seconds, sizes in bytes, all others counts.

    A behaviour that computes for longer than ``hang_s`` without awaiting anything loses its cell. ``lease_s`` and
    ``beat_s`` are of cells on other machines (:mod:`kernel.cell.link.lease`). What agents and peers make
    takes all ``cells`` but ``operator_cells`` (at most half of them) and no more, whatever the operator's takes; one
    peer's takes at most ``peer_cells``. So what had its cells has them again, in whichever order it comes.
    """

    processes_per_cell: int = 512
    cells: int = 200
    operator_cells: int = 20
    peer_cells: int = 50
    idle_cells: int = 2
    parallel_starts: int = 4
    hello_s: float = 5.0
    connect_s: float = 30.0
    wait_s: float = 60.0
    start_s: float = 10.0
    confirm_s: float = 1.0
    hang_s: float = 30.0
    lease_s: float = 5.0
    beat_s: float = 1.0
    open_calls: int = OPEN_CALLS
    visitors: int = 256
    visitors_per_address: int = 64
    hello_frame_bytes: int = 4096
    detail_chars: int = 1000
    log_chars: int = 8192


@dataclass(slots=True)
class CellOccupants:
    """Who is in one cell. ``isolation`` and ``domain`` are None while it is the spare; ``taken_for``: who made the
    process that came when it was empty.
    """

    isolation: Isolation | None = None
    domain: str | None = None
    taken_for: MadeBy = OPERATOR
    pids: set[int] = field(default_factory=set)


class CellTable:
    """The cells of a node and who sits in them."""

    def __init__(self, limits: CellLimits) -> None:
        self._limits = limits
        self._cells: dict[str, CellOccupants] = {}
        self._open: dict[str, dict[str, None]] = {}  # domain -> shared cells with room, oldest first
        self._idle: dict[str, None] = {}  # empty shared cells, the one empty for longest first
        self._next = 1

    def __getitem__(self, cell: str) -> CellOccupants:
        return self._cells[cell]

    def place(
        self, pid: int, isolation: Isolation, domain: str, made_by: MadeBy = OPERATOR
    ) -> tuple[str | None, list[str]]:
        """The cell for a process, and the cells to start now. None when as many cells are taken as may be by those who
        made it.
        """
        cell = next(iter(self._open.get(domain, ())), None) if isolation == "shared" else None
        if cell is None and self.refusal(made_by):
            return None, []
        if cell is None:
            cell = self._spare()
        started: list[str] = []
        if cell is None:
            cell = self._create()
            started.append(cell)
        occupants = self._cells[cell]
        occupants.isolation, occupants.domain = isolation, domain
        if not occupants.pids:
            occupants.taken_for = made_by
        occupants.pids.add(pid)
        self._sort(cell)
        return cell, started + self.spare()

    def refusal(self, made_by: MadeBy) -> str:
        """Why no further cell is taken for a process made by these; empty when one may be."""
        cells, share = self._limits.cells, self._limits.peer_cells
        theirs = cells - min(self._limits.operator_cells, cells // 2)
        if self._taken() >= cells:
            return f"there are {cells} cells, the limit"
        if made_by != OPERATOR and self._taken_by_others() >= theirs:
            return f"there are {theirs} cells, the limit for what agents and peers make"
        if is_peer(made_by) and self._taken_for(made_by) >= share:
            return f"{share} cells are taken for {made_by}, the limit for one peer"
        return ""

    def _taken_for(self, made_by: MadeBy) -> int:
        return sum(
            bool(occupants.pids) and occupants.taken_for == made_by for occupants in self._cells.values()
        )

    def _taken_by_others(self) -> int:
        """Those that are not the operator's, also such as are empty and kept."""
        return sum(
            occupants.domain is not None and occupants.taken_for != OPERATOR
            for occupants in self._cells.values()
        )

    def _taken(self) -> int:
        return len(self._cells) - (self._spare() is not None)

    def spare(self) -> list[str]:
        """The cells to start so that a spare is there."""
        if self._spare() is not None or len(self._cells) >= self._limits.cells:
            return []
        return [self._create()]

    def release(self, cell: str, pid: int) -> list[str]:
        """The process has left; returns the cells to close."""
        occupants = self._cells.get(cell)
        if occupants is None or pid not in occupants.pids:
            return []
        occupants.pids.discard(pid)
        if occupants.isolation == "dedicated" and not occupants.pids:
            return [cell]
        self._sort(cell)
        surplus = len(self._idle) - self._limits.idle_cells
        return list(self._idle)[: max(0, surplus)]

    def remove(self, cell: str) -> None:
        """The cell is gone."""
        occupants = self._cells.pop(cell, None)
        self._idle.pop(cell, None)
        if occupants is not None and occupants.domain is not None:
            self._open.get(occupants.domain, {}).pop(cell, None)
            self._forget_domain(occupants.domain)

    def _spare(self) -> str | None:
        # The spare is the newest cell but for the few started after it, so the search from the end is short.
        return next((cell for cell in reversed(self._cells) if self._cells[cell].domain is None), None)

    def _create(self) -> str:
        cell = f"c{self._next}"
        self._next += 1
        self._cells[cell] = CellOccupants()
        return cell

    def _sort(self, cell: str) -> None:
        occupants = self._cells[cell]
        if occupants.isolation != "shared" or occupants.domain is None:
            return
        if occupants.pids:
            self._idle.pop(cell, None)
        else:
            self._idle[cell] = None
        rooms = self._open.setdefault(occupants.domain, {})
        if len(occupants.pids) < self._limits.processes_per_cell:
            rooms.setdefault(cell)
        else:
            rooms.pop(cell, None)
            self._forget_domain(occupants.domain)

    def _forget_domain(self, domain: str) -> None:
        if domain in self._open and not self._open[domain]:
            del self._open[domain]
