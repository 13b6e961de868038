"""What does not agree: the process table, the cells, what runs them, and the processes of the operating system. Pure.

A process that nobody owns is an *orphan*, and is ended; a live process that is in no cell is a *ghost*, and exits. What
just starts or ends is neither for long, so a difference counts when two looks, one after the other, have found it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

What = Literal["ghost", "orphan", "orphan cell", "orphan process", "lost cell"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One look. ``table``: the PIDs of workers that the node takes for alive. ``cells``: who is in which, and
    ``connected`` those that have dialled in. ``engine``: the cells that the engine has, and ``strays`` what else bears
    the node's name there; None: it does not say. ``strangers``: processes of the operating system that bear the node's
    mark and were started by nothing that lives, each with the clock ticks of its start; None: nobody can say.
    """

    table: Collection[int]
    cells: Mapping[str, Collection[int]]
    connected: Collection[str]
    engine: Collection[str] | None = None
    strays: Collection[str] = ()
    strangers: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Repair:
    """``of`` is a PID, the name of a cell, or the id of an operating system's process; ``mark`` tells that one from the
    next of its number, and the cell that a PID is in.
    """

    what: What
    of: str
    mark: str = field(default="", compare=True)

    @property
    def text(self) -> str:
        """In words, as the ledger and ``weftos doctor`` have it."""
        return _WORDS[self.what].format(of=self.of, mark=self.mark)


_WORDS: Mapping[What, str] = {
    "ghost": "PID {of} is alive by the process table, and in no cell",
    "orphan": "PID {of} is in cell {mark}, and not in the process table",
    "orphan cell": "{of} runs in this node's name, and is none of its cells",
    "orphan process": "process {of} of the operating system bears this node's mark, and nobody alive has started it",
    "lost cell": "cell {of} is one of this node's, and the engine has none of that name",
}


def compare(seen: Seen) -> frozenset[Repair]:
    """Every difference."""
    return frozenset(_differences(seen))


def _differences(seen: Seen) -> Iterable[Repair]:
    table, hosted = set(seen.table), {pid for pids in seen.cells.values() for pid in pids}
    for pid in table - hosted:
        yield Repair("ghost", str(pid))
    for cell, pids in seen.cells.items():
        for pid in set(pids) - table:
            yield Repair("orphan", str(pid), cell)
    for cell in set(seen.engine or ()) - set(seen.cells) | set(seen.strays):
        yield Repair("orphan cell", cell)
    if seen.engine is not None:
        for cell in set(seen.connected) - set(seen.engine):
            yield Repair("lost cell", cell)
    for os_pid, ticks in (seen.strangers or {}).items():
        yield Repair("orphan process", str(os_pid), str(ticks))


def agreed(before: frozenset[Repair], now: frozenset[Repair]) -> list[Repair]:
    """What two looks have found, and is to be repaired."""
    return sorted(before & now)
