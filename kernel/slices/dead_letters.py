"""Dead letters: accepted messages that could not be delivered, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.in_transit import InTransit
from kernel.slices.mailboxes import Mail, Mailboxes, of_one_kind


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An accepted message that could not be delivered."""

    mail: Mail
    why: str
    seq: int
    time_us: int


class DeadLetters(Table[str, DeadLetter]):
    """By the id of the message. ``bytes``: what they hold. Format 1 knew one kind of messages."""

    NAME = "dead"
    FORMAT = 2
    MIGRATIONS = {1: lambda rows: [[of_one_kind(mail), *rest] for mail, *rest in as_rows(rows)]}  # noqa: RUF012

    def __init__(self, mail: Mailboxes, in_transit: InTransit) -> None:
        super().__init__()
        self._mail, self._in_transit = mail, in_transit
        self.bytes = 0

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.dead": self._dead,
            "message.replayed": lambda told: self._take(told.body["id"]),
            "message.dropped": lambda told: self._take(told.body["id"]),
        }

    def _dead(self, told: Told) -> None:
        ident = told.body["id"]
        mail = self._mail.find(ident) or self._in_transit.find(ident)
        if mail is not None:
            self._hold(DeadLetter(mail, told.body["why"], told.seq, told.time_us))

    def _hold(self, letter: DeadLetter) -> None:
        self._take(letter.mail.id)
        self._kept[letter.mail.id] = letter
        self.bytes += letter.mail.size_bytes

    def _take(self, ident: str) -> None:
        letter = self._kept.pop(ident, None)
        if letter is not None:
            self.bytes -= letter.mail.size_bytes

    def rows(self) -> Any:
        return [row(letter) for letter in self._kept.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(DeadLetter, each))
