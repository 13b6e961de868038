"""What became of the messages of this ledger, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_list, as_number
from kernel.slice import Handler, Slice, Told
from kernel.slices.dead_letters import DeadLetters
from kernel.slices.in_transit import InTransit
from kernel.slices.mailboxes import Mailboxes, message_id

BY_BOUND, BY_POLICY = "bound", "policy"


class Tally(Slice):
    """Accepted = acknowledged + dead + dropped + in flight.

    A message to another node counts here too: accepted when it is sent, acknowledged when that node has taken it (and
    counts it as accepted in its own tally). So a message that crosses counts once on each side.

    ``archived``: of the dropped, those that had to make room; their texts are in the ledger. Format 1 did not tell
    these from the others.

    It hears an entry before those do that keep the message: it counts what is there.
    """

    NAME = "tally"
    FORMAT = 2
    MIGRATIONS = {1: lambda rows: [*as_list(rows), 0]}  # noqa: RUF012

    def __init__(self, mail: Mailboxes, in_transit: InTransit, dead: DeadLetters) -> None:
        self._mail, self._in_transit, self._letters = mail, in_transit, dead
        self.accepted = 0
        self.acknowledged = 0
        self.dead = 0
        self.dropped = 0
        self.archived = 0

    def __repr__(self) -> str:
        counts = f"accepted={self.accepted}, acknowledged={self.acknowledged}, dead={self.dead}"
        return f"Tally({counts}, dropped={self.dropped})"

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.accepted": self._accepted,
            "message.sent": self._accepted,
            "message.acknowledged": self._acknowledged,
            "message.dead": self._dead,
            "message.dropped": self._dropped,
            "message.cancelled": self._cancelled,
            "turn.steered": self._steered,
            "turn.ended": self._turn_ended,
        }

    def _accepted(self, told: Told) -> None:
        self.accepted += 1

    def _acknowledged(self, told: Told) -> None:
        self.acknowledged += self._in_transit.find(told.body["id"]) is not None

    def _steered(self, told: Told) -> None:
        self.acknowledged += sum(self._mail.find(ident) is not None for ident in told.body["messages"])

    def _turn_ended(self, told: Told) -> None:
        if event_of(TURN_EVENTS, "turn.ended", told.body) is TurnEvent.END:
            self.acknowledged += self._mail.find(message_id(told.body["turn"])) is not None

    def _dead(self, told: Told) -> None:
        ident = told.body["id"]
        self.dead += (self._mail.find(ident) or self._in_transit.find(ident)) is not None

    def _dropped(self, told: Told) -> None:
        if told.body["id"] in self._letters:
            self.dead -= 1
            self.dropped += 1
            self.archived += told.body.get("by") == BY_BOUND

    def _cancelled(self, told: Told) -> None:
        self.dropped += self._mail.find(told.body["id"]) is not None

    @property
    def in_flight(self) -> int:
        """Messages accepted and not yet acknowledged, dead or dropped."""
        return self._mail.messages + len(self._in_transit)

    def rows(self) -> Any:
        return [self.accepted, self.acknowledged, self.dead, self.dropped, self.archived]

    def restore(self, rows: Any) -> None:
        counts = map(as_number, as_list(rows))
        self.accepted, self.acknowledged, self.dead, self.dropped, self.archived = counts
