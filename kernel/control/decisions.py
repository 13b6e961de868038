"""What people may ask of what waits for them: tool calls in doubt, and turns that diverged."""

from __future__ import annotations

from itertools import islice
from typing import cast

from kernel.control.asked import Asked
from kernel.control.processes import SHOWN_CHARS
from kernel.errors import NotFound
from kernel.kernel import Kernel
from kernel.operations.decisions import (
    Decide,
    Decided,
    Divergence,
    Divergences,
    Doubt,
    Doubts,
    OfDoubt,
    Resolve,
    Resolved,
)
from kernel.operations.operation import Handler, Page
from kernel.slices.calls import OpenIntent
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
            Doubts.show.by(self.doubt),
            Doubts.resolve.by(self.resolve),
            Divergences.list.by(self.divergences),
            Divergences.decide.by(self.decide),
        )

    async def doubts(self, asked: Asked, request: Page) -> list[Doubt]:
        found = (doubt for doubt in self._state.doubts() if doubt.call.intent_seq > request.after)
        rows = (self._row(doubt) for doubt in islice(found, request.limit))
        return [{**row, "arguments": row["arguments"][:SHOWN_CHARS]} for row in rows]

    async def doubt(self, asked: Asked, request: OfDoubt) -> Doubt:
        """Raises NotFound."""
        doubt = self._state.intents.get(request.id)
        if doubt is None or not doubt.call.doubt:
            raise NotFound(f"no call {request.id} is in doubt; weftos doubts list shows them")
        return self._row(doubt)

    def _row(self, doubt: OpenIntent) -> Doubt:
        return {
            "id": doubt.id,
            "tool": doubt.call.name,
            "arguments": doubt.call.arguments,
            "address": doubt.address,
            "turn": doubt.turn,
            "turn_open": doubt.turn in self._state.turns,
            "attempt": doubt.call.attempt,
            "intent_seq": doubt.call.intent_seq,
            "effect_id": doubt.call.effect_id,
            "probe": doubt.call.probed,
        }

    async def resolve(self, asked: Asked, request: Resolve) -> Resolved:
        self._tool_calls.doubts.check(request.id, request.resolution)
        asked.record(id=request.id, resolution=request.resolution)
        with ledger_errors():
            tool = await self._tool_calls.resolve(request.id, request.resolution, asked.by)
        return {"id": request.id, "tool": tool, "resolution": request.resolution}

    async def divergences(self, asked: Asked, request: Page) -> list[Divergence]:
        return cast(list[Divergence], self._divergences.rows(request.after, request.limit))

    async def decide(self, asked: Asked, request: Decide) -> Decided:
        """Raises NotFound, Refused, Unavailable."""
        self._divergences.check(request.id, request.decision)
        asked.record(id=request.id, decision=request.decision)
        with ledger_errors():
            address = await self._divergences.decide(request.id, request.decision, asked.by)
        return {"id": request.id, "address": address, "decision": request.decision}
