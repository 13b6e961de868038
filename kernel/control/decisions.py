"""What people may ask of what waits for them: tool calls in doubt, and turns that diverged."""

from __future__ import annotations

from typing import cast

from kernel.control.asked import Asked
from kernel.kernel import Kernel
from kernel.operations.decisions import (
    Decide,
    Decided,
    Divergence,
    Divergences,
    Doubt,
    Doubts,
    Resolve,
    Resolved,
)
from kernel.operations.operation import Handler, Nothing
from kernel.state.recorder import ledger_errors


class DecisionControl:
    """Decisions of a person, each on the record."""

    def __init__(self, kernel: Kernel) -> None:
        self._state = kernel.state
        self._tool_calls = kernel.tool_calls
        self._divergences = kernel.divergences

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Doubts.list.by(self.doubts),
            Doubts.resolve.by(self.resolve),
            Divergences.list.by(self.divergences),
            Divergences.decide.by(self.decide),
        )

    async def doubts(self, asked: Asked, request: Nothing) -> list[Doubt]:
        return [
            {
                "id": doubt.id,
                "tool": doubt.call.name,
                "arguments": doubt.call.arguments,
                "address": doubt.address,
                "turn": doubt.turn,
                "turn_open": doubt.turn in self._state.turns,
                "attempt": doubt.call.attempt,
                "intent_seq": doubt.call.intent_seq,
            }
            for doubt in self._state.doubts()
        ]

    async def resolve(self, asked: Asked, request: Resolve) -> Resolved:
        asked.record(id=request.id, resolution=request.resolution)
        with ledger_errors():
            tool = await self._tool_calls.resolve(request.id, request.resolution, asked.by)
        return {"id": request.id, "tool": tool, "resolution": request.resolution}

    async def divergences(self, asked: Asked, request: Nothing) -> list[Divergence]:
        return cast(list[Divergence], self._divergences.rows())

    async def decide(self, asked: Asked, request: Decide) -> Decided:
        """Raises NotFound, Refused, Unavailable."""
        asked.record(id=request.id, decision=request.decision)
        with ledger_errors():
            address = await self._divergences.decide(request.id, request.decision, asked.by)
        return {"id": request.id, "address": address, "decision": request.decision}
