"""What processes remember of their conversations, within limits for each of them and for all together.

A function of the journal alone, so that a replay comes to the same: of one session the oldest turns go first, and of
all sessions the one that was added to longest ago, whole. One whose turn is open stays: that turn, when it is resumed,
must be handed what it was handed before.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from kernel.model.rows import as_bytes, as_list, as_number, as_rows, as_text
from kernel.slice import Handler, Keeper, Table, Told

Key = tuple[str, str]
"""An address and the name of a session."""


@dataclass(slots=True)
class Kept:
    """What is kept of one turn: its records, and the bytes that they take. ``digests`` and ``sizes`` of the records are
    made when a question to a model refers to them; before that ``sizes`` is None.
    """

    records: list[dict[str, Any]]
    size: int
    digests: bytes = b""
    sizes: array[int] | None = None


class Session:
    """What an address remembers of one conversation: the newest turns, whole, within a count and a size."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._turns: deque[Kept] = deque()
        self.records = 0
        self.bytes = 0

    def add(self, records: list[dict[str, Any]], size: int) -> None:
        """Add one turn's records and forget the oldest turns beyond the limits; the newest stays in any case."""
        self._turns.append(Kept(records, size))
        self.records += len(records)
        self.bytes += size
        while len(self._turns) > 1 and (self.records > self._max_records or self.bytes > self._max_bytes):
            old = self._turns.popleft()
            self.records -= len(old.records)
            self.bytes -= old.size

    def history(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        return [record for turn in self._turns for record in turn.records]

    def turns(self) -> list[Kept]:
        """What is kept of each turn, oldest first."""
        return list(self._turns)


class Sessions(Table[Key, Session]):
    """All of them, the one that was added to longest ago first. ``bytes``: of all their records, as they are kept.

    ``evicted``: how many had to go since the node started, what it read from its journal included. ``addresses`` are
    those of the slots, ``in_use`` says which sessions have an open turn.
    """

    NAME = "sessions"

    def __init__(
        self,
        of_one: tuple[int, int],
        most: int,
        most_bytes: int,
        addresses: Container[str],
        in_use: Callable[[Key], bool],
    ) -> None:
        self._of_one = of_one
        self._most = most
        self._most_bytes = most_bytes
        self._addresses = addresses
        self._in_use = in_use
        self._sessions: OrderedDict[Key, Session] = OrderedDict()
        super().__init__(self._sessions)
        self._of: dict[str, dict[str, Session]] = {}
        self.bytes = 0
        self.evicted = 0

    def hears(self) -> Mapping[str, Handler]:
        return {"process.slot": self._slot}

    def keeps(self) -> Mapping[str, Keeper]:
        return {"session": self._recorded}

    def _slot(self, told: Told) -> None:
        """Another process of its name does not inherit the conversations of one that was removed."""
        if told.body["state"] == "removed" and told.body["address"] in self._addresses:
            self.forget_all(told.body["address"])

    def _recorded(self, key: Key, turn: tuple[list[dict[str, Any]], int] | None) -> None:
        if turn is None:
            self._forget(key)
        else:
            self.add(key, *turn)

    def add(self, key: Key, records: list[dict[str, Any]], size: int) -> None:
        """Add one turn's records to a session, and let go what is beyond the limits and not in use; this one stays in
        any case.
        """
        self._hold(key, records, size)
        if self._fits():
            return
        for other in list(self._sessions):
            if other == key or self._fits():
                return
            if not self._in_use(other):
                self._forget(other)
                self.evicted += 1

    def _hold(self, key: Key, records: list[dict[str, Any]], size: int) -> None:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(*self._of_one)
        self._sessions.move_to_end(key)
        of = self._of.setdefault(key[0], {})
        of.pop(key[1], None)
        of[key[1]] = session
        before = session.bytes
        session.add(records, size)
        self.bytes += session.bytes - before

    def _fits(self) -> bool:
        return len(self._sessions) <= self._most and self.bytes <= self._most_bytes

    def _forget(self, key: Key) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self.bytes -= session.bytes
        of = self._of[key[0]]
        del of[key[1]]
        if not of:
            del self._of[key[0]]

    def of(self, address: str) -> Mapping[str, Session]:
        """Those of one address by name, the one that was added to longest ago first."""
        return self._of.get(address, {})

    def forget_all(self, address: str) -> None:
        """Nothing is remembered by the process at ``address``."""
        for name in list(self.of(address)):
            self._forget((address, name))

    def rows(self) -> Any:
        return [[*key, _packed(session)] for key, session in self._sessions.items()]

    def restore(self, rows: Any) -> None:
        for address, name, turns in as_rows(rows):
            key = as_text(address), as_text(name)
            for records, size in as_rows(turns):
                self._hold(key, as_list(msgpack.unpackb(as_bytes(records))), as_number(size))


def _packed(session: Session) -> list[list[Any]]:
    """Packed one by one: what a behaviour remembers may be nested as deep as msgpack goes."""
    return [[msgpack.packb(turn.records), turn.size] for turn in session.turns()]
