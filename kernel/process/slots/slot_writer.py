"""What becomes of slots, as it is written: their state, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.errors import Unavailable
from kernel.model.states import SHUTDOWN
from kernel.process.effects import Effects
from kernel.process.process_signals import SlotGoing, SlotGone
from kernel.process.starts import Starts
from kernel.signals import Signals
from kernel.slices.tree.slots import Slot
from kernel.state.documents import draft_forgetting
from kernel.state.recorder import Recorder
from kernel.supervision.reducer import SlotState

CELLS_TO_FELL = 2
"""Shared cells that a process takes down before it is isolated."""

FORGOTTEN_AT_ONCE = 100
"""So many documents of a slot that goes: the node has other work in between."""


class SlotWriter:
    """The records of the tree's slots. The disk may have yet to take them."""

    def __init__(self, recorder: Recorder, effects: Effects, starts: Starts, signals: Signals) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._effects = effects
        self._starts = starts
        self._signals = signals
        # All by the entry that made the slot.
        self._meant: dict[int, SlotState] = {}
        self._felled: dict[int, int] = {}
        self._leaving: set[int] = set()

    def meant(self, slot: Slot) -> SlotState:
        """What a slot is meant to be: its supervisor may end and begin anew before the disk has taken that."""
        return self._meant.get(slot.spawned_seq) or SlotState(slot.state)

    def is_leaving(self, slot: Slot) -> bool:
        """Whether it goes once all that is of it is gone."""
        return slot.spawned_seq in self._leaving

    def change(self, slot: Slot, state: SlotState, why: str, cause: int = -1) -> None:
        """A slot is meant to be in that state. ``cause``: the entry of who asked for it, if anybody did."""
        self.change_all([slot], state, why, cause)

    def change_all(self, slots: Sequence[Slot], state: SlotState, why: str, cause: int = -1) -> None:
        """All of these are, in one unit of records."""
        if not slots:
            return
        self._recorder.must([_change(slot, state, why, cause) for slot in slots])
        for slot in slots:
            if slot.state == state:
                self._recorded(slot)
            else:
                self._meant[slot.spawned_seq] = state
                self._recorder.when_writable(("meant", slot.spawned_seq), partial(self._recorded, slot))

    def foresee(self, slots: Sequence[Slot], *, stops: bool) -> None:
        """Whether what runs at these, and has begun to end, will leave them stopped: in one unit of records."""
        if slots:
            self._recorder.must([_ending(slot, stops) for slot in slots])

    def settle(self) -> None:
        """At a boot: the ends that the last one had foreseen have come with its own."""
        self.change_all(
            [slot for slot in self._state.slots.values() if slot.ending], SlotState.STOPPED, SHUTDOWN
        )

    def felled(self, address: str, pid: int, cell: str, reason: str, *, live: bool) -> None:
        """What is ``live`` at ``address``, or was until now, has taken down the cell that it shared. For what was
        removed nobody is to blame who has its name now.
        """
        slot = self._state.slots.get(address)
        if slot is None or not (live or slot.last_exit.pid == pid):
            return
        times = max(slot.felled, self._felled.get(slot.spawned_seq, 0)) + 1
        body = {"address": address, "pid": pid, "cell": cell, "reason": reason, "times": times}
        body["isolated"] = times >= CELLS_TO_FELL
        self._recorder.must([Draft("process.felled", body, pid, str(pid), b"", slot.spawned_seq)])
        if slot.felled < times:
            self._felled[slot.spawned_seq] = times
            self._recorder.when_writable(("felled", slot.spawned_seq), lambda: self._counted(slot))

    def _counted(self, slot: Slot) -> None:
        """The disk has how many cells it has taken down."""
        self._felled.pop(slot.spawned_seq, None)

    def is_isolated(self, slot: Slot) -> bool:
        """Whether it is in no cell with any that is not, whatever its spec says."""
        return slot.isolated or self._felled.get(slot.spawned_seq, 0) >= CELLS_TO_FELL

    def _recorded(self, slot: Slot) -> None:
        """The disk has what the slot is meant to be."""
        self._meant.pop(slot.spawned_seq, None)

    def forget_tree(self, address: str, why: str) -> None:
        """Leaves first, so that what is kept is a tree at any moment."""
        for below in reversed(list(self._state.slots.tree(address))):
            self.forget(below, why if below == address else f"{address} was removed")

    def forget(self, address: str, why: str) -> None:
        """Remove a slot after all that is of it, its mail, what is below it and what it wrote for itself into memory:
        while that takes time, or the disk takes none of it, the slot waits, and so nothing is ever left of an address
        that is no more.
        """
        slot = self._state.slots.get(address)
        if slot is None:
            return
        self._leaving.add(slot.spawned_seq)
        self._starts.failed(address, f"{address} was removed: {why}")
        self._signals.say(SlotGoing(slot, why))

    async def gone(self, slots: Iterable[Slot]) -> None:
        """Wait until these, which are to go, are gone. Raises Unavailable when the node stops, LedgerUnavailable."""
        for slot in slots:
            while self._state.slots.get(slot.address) is slot:
                if self._effects.closed:
                    raise Unavailable("the node is stopping")
                if self._recorder.waiting:
                    raise LedgerUnavailable(f"{slot.address} goes as soon as the disk takes that")
                await asyncio.sleep(0)

    def going(self, going: SlotGoing) -> None:
        """What a slot that is to go had in its mailbox is dying: it goes when all that is of it has gone."""
        slot, address, why = going.slot, going.slot.address, going.why
        if self._state.slots.get(address) is not slot:
            return
        if self._state.mail.get(address) or self._state.slots.child_count(address) or self._remembers(slot):
            if self._recorder.waiting:
                self._recorder.when_writable(("forget", address), lambda: self._forget_later(slot, why))
            else:
                self._effects.later(0.0, lambda: self._forget_later(slot, why))
            return
        body = {"address": address, "state": "removed", "why": why[:200]}
        self._recorder.must([Draft("process.slot", body, 0, "", b"", slot.spawned_seq)])
        if address in self._state.slots:  # the disk has yet to take it
            self._recorder.when_writable(("forget", address), lambda: self._forgotten(slot))
        else:
            self._forgotten(slot)

    def _remembers(self, slot: Slot) -> bool:
        """Forget some of what it wrote for itself, which is not for another process of its name; whether there is more,
        or the disk has yet to take it.
        """
        documents = self._state.documents
        own = documents.written_for_itself(slot.address, FORGOTTEN_AT_ONCE)
        if own and not self._recorder.waiting:
            drafts = (draft_forgetting(ident, "node", b"", slot.spawned_seq) for ident in own)
            self._recorder.must([record for both in drafts for record in both])
        return bool(documents.written_for_itself(slot.address, 1))

    def _forgotten(self, slot: Slot) -> None:
        self._leaving.discard(slot.spawned_seq)
        self._signals.say(SlotGone(slot))

    def _forget_later(self, slot: Slot, why: str) -> None:
        if self._state.slots.get(slot.address) is slot:  # else it has gone meanwhile, and this is another
            self.forget(slot.address, why)


def _ending(slot: Slot, stops: bool) -> Draft:
    return Draft("process.ending", {"address": slot.address, "stops": stops}, 0, "", b"", slot.spawned_seq)


def _change(slot: Slot, state: SlotState, why: str, cause: int) -> Draft:
    body = {"address": slot.address, "state": str(state), "why": why[:200]}
    return Draft("process.slot", body, 0, "", b"", cause if cause >= 0 else slot.spawned_seq)
