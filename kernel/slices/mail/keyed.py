"""What people and processes have sent under a key: who sends the same again under the same key is answered, and nothing
is sent.

Known are the keys of the last day, of these the newest :data:`MOST_KEYS`, at most half of them of processes: no agent
has a person's key forgotten. Where processes have more, the oldest key goes of who has most, so none has those of
others forgotten. All of it follows from the journal alone. Of the
key and of what was asked only digests are kept: what a person wrote is in entries, which can be erased.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.mailboxes import message_id

KEPT_S = 86_400
MOST_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Keyed:
    """The message that was sent under a ``key``; ``request``: digest of what was asked. ``status``: as what its turn
    ended, or ``dead``; empty while it is not answered. ``turn``: that turn, when it is one of this
    node. ``by``: the process that sent it, empty for a person.
    """

    key: str
    request: str
    id: str
    to: str
    time_us: int
    status: str = ""
    turn: str = ""
    by: str = ""

    @property
    def seq(self) -> int:
        """The entry that accepted it."""
        return int(self.id[1:])


class KeyedMessages(Table[str, Keyed]):
    """By the digest of the key, oldest first. Format 1 knew those of people alone."""

    NAME = "keyed"
    FORMAT = 2
    MIGRATIONS = {0: lambda rows: [], 1: lambda rows: [[*each, ""] for each in as_rows(rows)]}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(OrderedDict())
        self._key_of: dict[str, str] = {}
        self._of_processes: dict[str, None] = {}
        self._of: dict[str, dict[str, None]] = {}  # the same by process
        self._sizes: Counter[int] = Counter()  # how many processes have so many

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.keyed": self._keyed,
            "message.dead": lambda told: self._end(told.body["id"], "dead"),
            "message.cancelled": lambda told: self._end(told.body["id"], "cancelled"),
            "message.replied": lambda told: self._end(told.body["id"], told.body.get("status", "ok")),
            "message.unanswered": lambda told: self._end(told.body["id"], "unanswered"),
            "turn.steered": self._steered,
            "turn.ended": self._turn_ended,
            "process.slot": self._slot,
        }

    def known(self, key: str, now_us: int) -> Keyed | None:
        """What was sent under the key of this digest, unless that is forgotten by ``now_us``."""
        found = self.get(key)
        return None if found is None or _is_old(found, now_us) else found

    def _keyed(self, told: Told) -> None:
        body = told.body
        self._take(body["key"])
        keyed = Keyed(body["key"], body["request"], body["id"], body["to"], told.time_us)
        self._hold(replace(keyed, by=body.get("by", ""), status=body.get("status", "")))
        while len(self._of_processes) > MOST_KEYS // 2:
            self._take(self._of_who_has_most())
        while len(self) > MOST_KEYS or _is_old(next(iter(self.values())), told.time_us):
            self._take(next(iter(self)))

    def _of_who_has_most(self) -> str:
        """The oldest key of those processes that have more than any other."""
        most = max(self._sizes)
        return next(key for key in self._of_processes if len(self._of[self._kept[key].by]) == most)

    def _resized(self, size: int, by: int) -> None:
        self._sizes[size] += by
        if not self._sizes[size]:
            del self._sizes[size]

    def _hold(self, keyed: Keyed) -> None:
        self._kept[keyed.key] = keyed
        self._key_of[keyed.id] = keyed.key
        if keyed.by:
            self._of_processes[keyed.key] = None
            own = self._of.setdefault(keyed.by, {})
            own[keyed.key] = None
            self._resized(len(own), 1)
            if len(own) > 1:
                self._resized(len(own) - 1, -1)

    def _take(self, key: str) -> None:
        keyed = self._kept.pop(key, None)
        self._of_processes.pop(key, None)
        if keyed is None:
            return
        if self._key_of.get(keyed.id) == key:
            del self._key_of[keyed.id]
        if keyed.by:
            own = self._of[keyed.by]
            self._resized(len(own), -1)
            del own[key]
            if own:
                self._resized(len(own), 1)
            else:
                del self._of[keyed.by]

    def _slot(self, told: Told) -> None:
        """Nothing is left of a process that is removed: another one of its name has not sent anything yet."""
        if told.body["state"] == "removed":
            for key in list(self._of.get(told.body["address"], ())):
                self._take(key)

    def _steered(self, told: Told) -> None:
        for ident in told.body["messages"]:
            self._end(ident, "steered", told.body["turn"])

    def _turn_ended(self, told: Told) -> None:
        if event_of(TURN_EVENTS, "turn.ended", told.body) is TurnEvent.END:
            turn = told.body["turn"]
            self._end(message_id(turn), told.body["status"], turn)

    def _end(self, ident: str, status: str, turn: str = "") -> None:
        key = self._key_of.get(ident)
        if key is not None:
            self._kept[key] = replace(self._kept[key], status=status, turn=turn)

    def rows(self) -> Any:
        return [row(keyed) for keyed in self.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(Keyed, each))


def _is_old(keyed: Keyed, now_us: int) -> bool:
    return keyed.time_us < now_us - KEPT_S * 1_000_000
