"""Dead letters: accepted messages that could not be delivered, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.in_transit import InTransit
from kernel.slices.mailboxes import Mail, Mailboxes, of_one_kind, without_inbound, without_topic


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An accepted message that could not be delivered. ``reason``: why in one word, empty of one of an earlier version.
    ``replays``: how often it was sent again, last as the message ``replayed_as``.
    """

    mail: Mail
    why: str
    seq: int
    time_us: int
    reason: str = ""
    replays: int = 0
    replayed_as: str = ""


class DeadLetters(Table[str, DeadLetter]):
    """By the id of the message. ``bytes``: what they hold; ``unreplayed``: how many were never sent again. One that was
    stays, marked, until it is dropped.

    Format 1 knew one kind of messages, format 2 no topics, format 3 neither reasons nor marks, format 4
    not how messages came.
    """

    NAME = "dead"
    FORMAT = 5
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: [[of_one_kind(mail), *rest] for mail, *rest in as_rows(rows)],
        2: lambda rows: [[without_topic(mail), *rest] for mail, *rest in as_rows(rows)],
        3: lambda rows: [[*each, "", 0, ""] for each in as_rows(rows)],
        4: lambda rows: [[without_inbound(mail), *rest] for mail, *rest in as_rows(rows)],
    }

    def __init__(self, mail: Mailboxes, in_transit: InTransit) -> None:
        super().__init__()
        self._kept: dict[str, DeadLetter] = {}
        self._mail, self._in_transit = mail, in_transit
        self.bytes = 0
        self.unreplayed = 0

    @property
    def newest(self) -> str:
        """The id of the last one; empty when there is none."""
        return next(reversed(self._kept), "")

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.dead": self._dead,
            "message.replayed": self._replayed,
            "message.dropped": lambda told: self._take(told.body["id"]),
        }

    def _dead(self, told: Told) -> None:
        ident = told.body["id"]
        mail = self._mail.find(ident) or self._in_transit.find(ident)
        if mail is not None:
            reason = told.body.get("reason", "")
            self._hold(DeadLetter(mail, told.body["why"], told.seq, told.time_us, reason))

    def _replayed(self, told: Told) -> None:
        letter = self.get(told.body["id"])
        if letter is not None:
            self.unreplayed -= not letter.replays
            marked = replace(letter, replays=letter.replays + 1, replayed_as=told.body.get("as", ""))
            self._kept[letter.mail.id] = marked

    def _hold(self, letter: DeadLetter) -> None:
        self._take(letter.mail.id)
        self._kept[letter.mail.id] = letter
        self.bytes += letter.mail.size_bytes
        self.unreplayed += not letter.replays

    def _take(self, ident: str) -> None:
        letter = self._kept.pop(ident, None)
        if letter is not None:
            self.bytes -= letter.mail.size_bytes
            self.unreplayed -= not letter.replays

    def rows(self) -> Any:
        return [row(letter) for letter in self._kept.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(DeadLetter, each))
