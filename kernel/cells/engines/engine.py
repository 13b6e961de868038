"""What an engine of cells is: something that starts and kills processes which then dial the node's socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kernel.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Census:
    """``cells``: those it has. ``strays``: what else bears the node's name, by names that ``kill_cell`` takes."""

    cells: tuple[str, ...]
    strays: tuple[str, ...] = ()


class EngineError(Unavailable):
    """The engine, or a cell of it, cannot be started."""


OnExit = Callable[[str, str, int], None]
"""Takes a cell that is gone, why, and all the processor time in ms that it has used, 0 when that is not known."""


class Engine(Protocol):
    """``local`` or ``ray``. Cells decides, an engine does.

    ``open`` may be called again after ``on_lost``. ``on_lost(why)``: the engine is gone, and its cells with
    it. ``on_exit(cell, why, used_ms)``: a cell is gone; of one that has dialled the link tells first.
    """

    @property
    def name(self) -> str: ...

    async def open(self, on_lost: Callable[[str], None], on_exit: OnExit) -> None:
        """Raises :class:`EngineError`."""

    async def start_cell(self, cell: str, token: str) -> None:
        """Returns when the start is under way. Raises :class:`EngineError`."""

    def kill_cell(self, cell: str) -> None: ...

    def look(self) -> None:
        """Hear at once what there is to hear of the engine: a cell that has ended may have ended with it."""

    async def census(self) -> Census | None:
        """What is there in this node's name; None when it does not say."""

    async def close(self) -> None: ...

    def info(self) -> dict[str, Any]: ...
