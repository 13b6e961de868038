"""Slots and live processes as people and peers see them, a few at a time: a node may have 20,000.

The table can change between two slices: what is gone by then is left out, and what came behind them is there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any

from kernel.model.address import ROOT
from kernel.model.states import ProcessState, SlotState
from kernel.pace import give_way
from kernel.process.live import LiveProcess, LiveTable
from kernel.slices.tree.slots import Slot
from kernel.state.state import State

SLICE_ROWS = 64
_MOST_PARKED = 16


class Listing:
    """What ``ps`` and the adverts show."""

    def __init__(self, state: State, live: LiveTable, now_s: Callable[[], float]) -> None:
        self._state = state
        self._live = live
        self._now_s = now_s

    def __len__(self) -> int:
        return len(self._state.slots)

    async def rows(self, after: str = "", limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """All of them, parents before children, those of one parent by name; or the first ``limit`` of those behind the
        address ``after``, where that is or would be. The loop goes on in between.
        """
        left = len(self) if limit is None else limit
        behind = after or ROOT
        while found := self._state.slots.following(behind, min(SLICE_ROWS, left)):
            for slot in found:
                yield self.row(slot)
            behind = found[-1].address
            left -= len(found) if limit is not None else 0
            await give_way()

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

    def parked(self) -> list[str]:
        """Which slots wait for a person, in words, the first of them."""
        slots = (slot for slot in self._state.slots.values() if slot.state == SlotState.PARKED)
        return [
            f"{slot.address} is parked ({slot.why}) and waits for a person: weftos inspect {slot.address} says how it "
            f"ended, weftos start {slot.address} starts it again, weftos rm {slot.address} removes it"
            for slot in islice(slots, _MOST_PARKED)
        ]

    def children(self, address: str, after: int, limit: int) -> list[Slot]:
        """Slots below ``address`` as they were made: the first, or those that were made after the entry ``after``."""
        slots = self._state.slots.children(address)
        first = bisect_right(slots, after, key=lambda slot: slot.spawned_seq)
        return slots[first : first + limit]

    def row(self, slot: Slot) -> dict[str, Any]:
        """One of them."""
        process = self._live.at(slot.address)
        worker = slot.spec.type == "worker"
        return {
            "pid": process.pid if process else slot.pid,
            "address": slot.address,
            "name": slot.spec.name,
            "type": slot.spec.type,
            "state": _state(slot, process),
            "slot": slot.state,
            "why": slot.why,
            "last_exit": slot.last_exit.text,
            "behaviour": slot.spec.behaviour if worker else "",
            "restarts": max(0, slot.restarts),
            "mailbox": len(self._state.mail.get(slot.address, ())),
            "uptime_s": round(self._now_s() - process.started_s, 3) if process else 0.0,
            "isolation": slot.isolation if worker else "",
            "felled": slot.felled,
            "children": self._state.slots.child_count(slot.address),
            "turn": process.turn if process else "",
            **({"session": slot.spec.session} if slot.spec.session else {}),
        }


def _state(slot: Slot, process: LiveProcess | None) -> str:
    """One that is suspended by a person runs on until its turn is over."""
    if process is None:
        return "exited"
    idle = process.state is ProcessState.RUNNING and not process.turn
    return str(ProcessState.SUSPENDED if slot.suspended and idle else process.state)
