"""Slots and live processes as people and peers see them, a few at a time: a node may have 20,000.

The table can change between two slices; a slot that is gone by then is left out.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any

from kernel.model.address import ROOT
from kernel.process.live import LiveTable
from kernel.slices.slots import Slot
from kernel.state.state import State

SLICE_ROWS = 100
SORTED_AT_ONCE = 1_000
_ADDRESS = attrgetter("address")


class _End:
    """No more slots here."""


_END = _End()


class Listing:
    """What ``ps`` and the adverts show."""

    def __init__(self, state: State, live: LiveTable, now_s: Callable[[], float]) -> None:
        self._state = state
        self._live = live
        self._now_s = now_s

    def __len__(self) -> int:
        return len(self._state.slots)

    async def rows(self) -> AsyncIterator[dict[str, Any]]:
        """All of them, parents before children, those of one parent by name. Lets the loop go on in between."""
        number = 0
        for slot in self._walk():
            if slot is not None:
                number += 1
                yield self.row(slot)
            if slot is None or number % SLICE_ROWS == 0:
                await asyncio.sleep(0)

    def first(self, limit: int) -> Iterator[tuple[int, str, str, str, str]]:
        """pid, address, name, state, behaviour of the ``limit`` slots that were spawned first."""
        for slot in list(islice(self._state.slots.values(), limit)):
            process = self._live.at(slot.address)
            yield (
                process.pid if process else slot.pid,
                slot.address,
                slot.spec.name,
                str(process.state) if process else "exited",
                slot.spec.behaviour if slot.spec.type == "worker" else "",
            )

    def row(self, slot: Slot) -> dict[str, Any]:
        """One of them."""
        process = self._live.at(slot.address)
        worker = slot.spec.type == "worker"
        return {
            "pid": process.pid if process else slot.pid,
            "address": slot.address,
            "name": slot.spec.name,
            "type": slot.spec.type,
            "state": str(process.state) if process else "exited",
            "slot": slot.state,
            "why": slot.why,
            "last_exit": slot.last_exit,
            "behaviour": slot.spec.behaviour if worker else "",
            "restarts": max(0, slot.restarts),
            "mailbox": len(self._state.mail.get(slot.address, ())),
            "uptime_s": round(self._now_s() - process.started_s, 3) if process else 0.0,
            "isolation": slot.spec.isolation if worker else "",
            "children": len(self._state.slots.children(slot.address)),
            "turn": process.turn if process else "",
        }

    def _walk(self) -> Iterator[Slot | None]:
        """Slots in their order; None where a slice of work was done for the next."""
        above = [_in_order(self._state.slots.children(ROOT))]
        while above:
            slot = next(above[-1], _END)
            if slot is None:
                yield None
            elif isinstance(slot, _End):
                above.pop()
            elif (present := self._state.slots.get(slot.address)) is not None:
                yield present
                if below := self._state.slots.children(slot.address):
                    above.append(_in_order(below))


def _in_order(slots: list[Slot]) -> Iterator[Slot | None]:
    """``slots`` by address, sorted a slice at a time: None after each but the last."""
    runs = []
    for first in range(0, len(slots), SORTED_AT_ONCE):
        if first:
            yield None
        runs.append(sorted(slots[first : first + SORTED_AT_ONCE], key=_ADDRESS))
    yield from runs[0] if len(runs) == 1 else heapq.merge(*runs, key=_ADDRESS)
