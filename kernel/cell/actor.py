"""A cell of the Ray engine: an actor whose one long call does not return while the node is there."""

from __future__ import annotations

from typing import Any

from kernel.cell.lifeline import die_with_parent
from kernel.cell.shell import run_cell


class CellActor:
    """Made an actor by the placer. It gets its token as an argument and gives nothing back: the link says it
    all.
    """

    def ready(self) -> None:
        """Answers when the actor is there."""

    def join(self, dial: dict[str, Any], token: str, boot: int) -> None:
        die_with_parent()
        run_cell(dial, token, boot)
