"""Addresses that trap exits: what ends those that they are linked with is told to them, and does not end them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.calls import forgotten
from kernel.slices.tree.slots import DOWN, Slots
from kernel.slices.turns import Turn, Turns

GOES = (*DOWN, "removed")


@dataclass(frozen=True, slots=True)
class Trap:
    """``sender``, ``session``, ``trace`` and ``rights`` are those of the ``turn`` that asked for it: for whom, and with
    which tools, each end is handled.
    """

    address: str
    seq: int
    turn: str
    sender: str
    session: str
    trace: bytes
    rights: frozenset[str] | None


class Traps(Table[str, Trap]):
    """By address. A trap is one of the address as its mailbox is, and goes when the slot, or one above it, is down."""

    NAME = "traps"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, slots: Slots, turns: Turns) -> None:
        super().__init__()
        self._tree, self._turns = slots, turns

    def hears(self) -> Mapping[str, Handler]:
        return {"monitor.traps": self._set, "process.slot": self._slot, "turn.decided": self._decided}

    def _set(self, told: Told) -> None:
        turn: Turn | None = self._turns.get(told.body["turn"])
        if turn is None:
            return
        if not told.body["on"]:
            self._kept.pop(turn.address, None)
        elif self._tree.down(turn.address) is None:
            rights = frozenset(told.body["rights"])
            self._kept[turn.address] = Trap(
                turn.address, told.seq, turn.id, turn.mail.sender, turn.mail.session, told.trace, rights
            )

    def _slot(self, told: Told) -> None:
        if self._kept and told.body["state"] in GOES:
            for address in self._tree.tree(told.body["address"]):
                self._kept.pop(address, None)

    def _decided(self, told: Told) -> None:
        """What a turn asked is forgotten: its next delivery says anew whether it traps."""
        ident, event = told.body["turn"], event_of(TURN_EVENTS, "turn.decided", told.body)
        if event is TurnEvent.ACCEPT and self._turns.after(ident, event):
            turn = self._turns[ident]
            if any(call.op == "trap_exits" for call in forgotten(turn, told.body["ordinal"])):
                self._kept.pop(turn.address, None)

    def rows(self) -> Any:
        return [row(trap) for trap in self._kept.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            trap = made(Trap, each)
            self._kept[trap.address] = trap
