"""What people may ask of turns that diverged: which are parked, and to go on in one of three ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.state.recorder import ledger_errors
from kernel.turn.divergence import Divergences

Command = Callable[..., tuple[int, bytes]]


class DivergenceControl:
    """The part of the control facade that is about parked turns."""

    def __init__(self, divergences: Divergences, command: Command) -> None:
        self._divergences = divergences
        self._command = command

    async def list(self) -> list[dict[str, Any]]:
        """Every parked turn: ``id``, ``address``, ``message``, ``ordinal``, ``recorded`` and ``asked``."""
        return self._divergences.rows()

    async def decide(self, op: Mapping[str, object], id: str, decision: str) -> dict[str, Any]:
        """``decision``: again, accept or dead. Raises NotFound, Refused, Unavailable."""
        self._command(op, "decide", id=id, decision=decision)
        with ledger_errors():
            address = await self._divergences.decide(id, decision, f"operator:{op['uid']}")
        return {"id": id, "address": address, "decision": decision}
