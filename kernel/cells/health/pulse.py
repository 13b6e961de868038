"""Whether a cell is to be declared dead: decisions only, no clock and no I/O.

A cell is asked again and again whether it is there. How long it has been silent is counted in the node's own looks, of
which none counts for much more than it should: a node that was itself held up, with the answer already at its door,
takes no cell for stuck.

Many processes that each compute for a moment keep a cell from answering for as long as all of them together. So it
counts how long the same one has been found holding it; of a cell that is silent for several times that long, though it
is always another, nobody is to blame.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kernel.cells.cell_table import CellLimits

LOOKS_WITHIN_A_HANG = 10
HANGS_TOGETHER = 6
"""So many times as long as one may hold a cell, all that are in it may keep it from answering."""
FLOOD_PART = 2
"""Such a part of the memory that a cell may have, taken between two looks, was taken by who runs at the second."""


class Blame(Enum):
    """Who has taken a cell down, as far as can be seen: whoever is found ``RUNNING``, else the one that is alone at
    work; that one ``ALONE``, whoever runs; or ``NOBODY``.
    """

    RUNNING = auto()
    ALONE = auto()
    NOBODY = auto()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look finds. ``silent_s``: since it was asked, as far as that counts, None when it has answered.
    ``held_s``: of that, since it was found held by whoever holds it now. ``starting``: that one is just being
    constructed. ``memory_bytes``: what it has of its own, 0 when unknown; ``grown_bytes``: since the look before.
    """

    silent_s: float | None
    held_s: float = 0.0
    starting: bool = False
    memory_bytes: int = 0
    grown_bytes: int = 0


def look_s(limits: CellLimits) -> float:
    """How much time is between two looks."""
    return limits.hang_s / LOOKS_WITHIN_A_HANG


def counted_s(limits: CellLimits, passed_s: float) -> float:
    """How much of the time since the last look counts as silence."""
    return min(passed_s, 1.5 * look_s(limits))


def stuck(limits: CellLimits, seen: Seen) -> str:
    """Why whoever holds a cell is taken to be stuck; empty when not. Who is constructed has the time that a start may
    take, which is judged elsewhere.
    """
    allowed_s = _allowed_s(limits, seen)
    if seen.silent_s is None or seen.held_s < allowed_s:
        return ""
    return f"it did not answer for {allowed_s:g} s"


def crowded(limits: CellLimits, seen: Seen) -> str:
    """Why a cell has not answered for too long, though it was held by one after the other; empty when it has."""
    allowed_s = HANGS_TOGETHER * _allowed_s(limits, seen)
    if seen.silent_s is None or seen.silent_s < allowed_s:
        return ""
    return f"it did not answer for {allowed_s:g} s, held by one after the other"


def _allowed_s(limits: CellLimits, seen: Seen) -> float:
    return limits.hold_s if seen.starting else limits.hang_s


def swollen(limits: CellLimits, seen: Seen) -> str:
    """Why a cell has too much memory; empty when it has not."""
    if not limits.memory_bytes or seen.memory_bytes <= limits.memory_bytes:
        return ""
    return f"it held {seen.memory_bytes >> 20} MiB of memory, limit {limits.memory_bytes >> 20}"


def filled_by(limits: CellLimits, seen: Seen) -> Blame:
    """Who has filled a cell that has too much memory. Where many are at work, who runs at the moment of a look has not
    filled it by that: it has when two looks in a row find it holding the cell, or much has come since the look before.
    """
    flood = FLOOD_PART * seen.grown_bytes >= limits.memory_bytes
    return Blame.RUNNING if seen.held_s > 0 or flood else Blame.ALONE
