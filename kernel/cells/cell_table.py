"""Which cell a process goes to: decisions only, no clock and no I/O.

A *shared* process joins a cell of its own trust domain that has room; a *dedicated* one has a cell to itself.
One spare cell, given to nobody yet, is kept warm, so that most placements do not wait for a cell to start, a second one
while the loss of a shared cell would part those in it (:mod:`kernel.cells.health.suspects`), and more while more are
asked for (:mod:`kernel.cells.warm_pool`). A dedicated cell is
closed with its process; of shared cells that have become empty a few are kept for their domain.

An *isolated* process, which has taken shared cells down, has one to itself while such ones hold few cells; beyond that
they share cells with each other, by domain, and never with anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernel.abi import OPEN_CALLS
from kernel.cells.cell_events import Seating
from kernel.model.makers import OPERATOR, MadeBy, is_peer
from kernel.operations.spawning import Isolation


@dataclass(frozen=True, slots=True)
class CellLimits:
    """Limits of a node's cells. Durations in seconds, sizes in bytes, all others counts.

    A behaviour that computes for longer than ``hang_s`` without awaiting anything loses its cell, and so does one whose
    cell has more than ``memory_bytes`` of its own (0: any). ``lease_s`` and ``beat_s`` are of cells on other machines
    (:mod:`kernel.cell.link.lease`). ``suspect_halves`` and ``suspect_s``: :mod:`kernel.cells.health.suspects`. What
    agents and peers make takes all ``cells`` but ``operator_cells`` (at most half of them) and no more, whatever the
    operator's takes; one peer's takes at most ``peer_cells``. So what had its cells has them again, in whichever order
    it comes. The isolated have cells to themselves until they hold ``isolated_cells`` (at most a quarter of all).
    ``warm_cells`` are spare at most for those that come together, within ``wave_s``, and ``warm_s`` after these did
    (:mod:`kernel.cells.warm_pool`).
    """

    processes_per_cell: int = 512
    cells: int = 200
    operator_cells: int = 20
    peer_cells: int = 50
    isolated_cells: int = 50
    idle_cells: int = 2
    warm_cells: int = 4
    warm_s: float = 60.0
    wave_s: float = 2.0
    parallel_starts: int = 4
    hello_s: float = 5.0
    connect_s: float = 30.0
    wait_s: float = 60.0
    start_s: float = 10.0
    confirm_s: float = 1.0
    hang_s: float = 5.0
    memory_bytes: int = 0
    suspect_halves: int = 16
    suspect_s: float = 600.0
    lease_s: float = 5.0
    beat_s: float = 1.0
    open_calls: int = OPEN_CALLS
    visitors: int = 256
    visitors_per_address: int = 64
    hello_frame_bytes: int = 4096
    detail_chars: int = 1000
    log_chars: int = 8192

    @property
    def hold_s(self) -> float:
        """How long a process may hold its cell at most: who is constructed has the time that a start may take."""
        return max(self.hang_s, self.start_s + self.confirm_s)


MOST_SPARE = 2
ISOLATED = "isolated"
Room = tuple[str, str]
"""A domain, and in it a half of suspects, ISOLATED for the isolated that share, or nothing."""


@dataclass(slots=True)
class CellOccupants:
    """Who is in one cell. ``isolation`` and ``domain`` are None while it is spare; ``half``: of which suspects it
    is, and of nobody else, or ISOLATED; ``isolated``: there are isolated ones in it, one or some; ``taken_for``: who
    made the process that came when it was empty.
    """

    isolation: Isolation | None = None
    domain: str | None = None
    half: str = ""
    isolated: bool = False
    taken_for: MadeBy = OPERATOR
    pids: set[int] = field(default_factory=set)

    @property
    def room(self) -> Room | None:
        """Whoever shares this may share the cell; None while it is spare."""
        return None if self.domain is None else (self.domain, self.half)


class CellTable:
    """The cells of a node and who sits in them."""

    def __init__(self, limits: CellLimits) -> None:
        self._limits = limits
        self._cells: dict[str, CellOccupants] = {}
        self._spares: dict[str, None] = {}  # oldest first
        self._open: dict[Room, dict[str, None]] = {}  # shared cells that have place, oldest first
        self._idle: dict[str, None] = {}  # empty shared cells, the one empty for longest first
        self._next = 1

    def __getitem__(self, cell: str) -> CellOccupants:
        return self._cells[cell]

    def place(
        self, pid: int, seating: Seating, domain: str, made_by: MadeBy = OPERATOR, half: str = ""
    ) -> tuple[str | None, list[str]]:
        """The cell for a process, and the cells to start now. None when as many cells are taken as may be by those who
        made it; then one of a ``half`` goes where all of its domain may. One that is isolated is as one that is
        dedicated, while there are cells for that.
        """
        isolated = seating == "isolated"
        isolation: Isolation = "dedicated" if seating != "shared" else "shared"
        if isolated and self._crowded(made_by):
            isolation, half = "shared", ISOLATED
        half = half if isolation == "shared" else ""
        cell = next(iter(self._open.get((domain, half), ())), None) if isolation == "shared" else None
        if cell is None and self.refusal(made_by):
            return self.place(pid, isolation, domain, made_by) if half and not isolated else (None, [])
        started: list[str] = []
        if cell is None and not self._spares:
            started.append(self._create())
        cell = cell or next(iter(self._spares))
        self._spares.pop(cell, None)
        occupants = self._cells[cell]
        occupants.isolation, occupants.domain, occupants.half = isolation, domain, half
        occupants.isolated = isolated
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

    def _crowded(self, made_by: MadeBy) -> bool:
        """Whether there is no further cell that an isolated process, made by these, could have to itself."""
        most = min(self._limits.isolated_cells, self._limits.cells // 4)
        held = sum(occupants.isolated for occupants in self._cells.values())
        return held >= most or bool(self.refusal(made_by))

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
        return len(self._cells) - len(self._spares)

    @property
    def spares(self) -> int:
        """Cells that are given to nobody, and those that start for that."""
        return len(self._spares)

    def spare(self, warm: int = 1) -> list[str]:
        """The cells to start so that as many are spare as the loss of one may need, and ``warm``."""
        if len(self._spares) >= max(MOST_SPARE, warm):
            return []
        missing = min(max(self.least, warm) - len(self._spares), self._limits.cells - len(self._cells))
        return [self._create() for _ in range(missing)]

    def surplus(self, warm: int) -> list[str]:
        """The spare cells to close, since no more than ``warm`` are wanted."""
        kept = max(self.least, warm)
        return list(self._spares)[kept:]

    @property
    def least(self) -> int:
        """As many as the loss of one cell may need."""
        cells = self._cells.values()
        return 1 + any(occupants.isolation == "shared" and len(occupants.pids) > 1 for occupants in cells)

    def release(self, cell: str, pid: int) -> list[str]:
        """The process has left; returns the cells to close."""
        occupants = self._cells.get(cell)
        if occupants is None or pid not in occupants.pids:
            return []
        occupants.pids.discard(pid)
        if (occupants.isolation == "dedicated" or occupants.half) and not occupants.pids:
            return [cell]
        self._sort(cell)
        surplus = len(self._idle) - self._limits.idle_cells
        return list(self._idle)[: max(0, surplus)]

    def clear(self, half: str) -> None:
        """The cells of these suspects are open to all of their domain."""
        for cell, occupants in self._cells.items():
            if occupants.half == half:
                self._close(cell)
                occupants.half = ""
                self._sort(cell)

    def remove(self, cell: str) -> None:
        """The cell is gone."""
        self._close(cell)
        self._cells.pop(cell, None)
        self._spares.pop(cell, None)
        self._idle.pop(cell, None)

    def _create(self) -> str:
        cell = f"c{self._next}"
        self._next += 1
        self._cells[cell] = CellOccupants()
        self._spares[cell] = None
        return cell

    def _sort(self, cell: str) -> None:
        occupants = self._cells[cell]
        if occupants.isolation != "shared" or occupants.domain is None:
            return
        if occupants.pids:
            self._idle.pop(cell, None)
        else:
            self._idle[cell] = None
        if len(occupants.pids) < self._limits.processes_per_cell:
            self._open.setdefault((occupants.domain, occupants.half), {}).setdefault(cell)
        else:
            self._close(cell)

    def _close(self, cell: str) -> None:
        """Nobody else comes in."""
        room = self._cells[cell].room if cell in self._cells else None
        if room is not None and room in self._open:
            self._open[room].pop(cell, None)
            if not self._open[room]:
                del self._open[room]
