"""What processes remember of their conversations, within limits for each of them and for all together.

Of one session the oldest turns go first, and of all sessions the one that was added to longest ago, whole. One whose
turn is open stays: that turn, when it is resumed, must be handed what it was handed before. What goes is in the journal
(:mod:`kernel.turn.histories`), so that a replay decides nothing, whatever the limits are by then. Earlier versions did
not write it: what they wrote is held to the limits of this boot, as they did.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
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
    """What an address remembers of one conversation: the newest turns, whole. There may be many with one turn each."""

    __slots__ = ("_turns", "bytes", "records")

    def __init__(self) -> None:
        self._turns: tuple[Kept, ...] = ()
        self.records = 0
        self.bytes = 0

    def turns_with(self, records: int, size: int, limits: tuple[int, int]) -> int:
        """How many turns are within ``limits`` (records and bytes) when one that has so much is added, it included."""
        turns = 1
        for turn in reversed(self._turns):
            records += len(turn.records)
            size += turn.size
            if records > limits[0] or size > limits[1]:
                break
            turns += 1
        return turns

    def add(self, records: list[dict[str, Any]], size: int, turns: int) -> None:
        """Add one turn's records, and forget the oldest so that there are no more than ``turns`` turns."""
        kept = (*self._turns, Kept(records, size))
        gone = max(0, len(kept) - turns)
        self._turns = kept[gone:]
        self.records += len(records) - sum(len(old.records) for old in kept[:gone])
        self.bytes += size - sum(old.size for old in kept[:gone])

    def history(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        return [record for turn in self._turns for record in turn.records]

    def turns(self) -> list[Kept]:
        """What is kept of each turn, oldest first."""
        return list(self._turns)


class Sessions(Table[Key, Session]):
    """All of them, the one that was added to longest ago first. ``bytes``: of all their records, as they are kept.

    ``of_one``, ``most`` and ``most_bytes`` are the limits for what earlier versions wrote. ``addresses`` are those of
    the slots, ``in_use`` says which sessions have an open turn.
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

    def hears(self) -> Mapping[str, Handler]:
        return {"process.slot": self._slot}

    def keeps(self) -> Mapping[str, Keeper]:
        return {"session": self._recorded}

    def _slot(self, told: Told) -> None:
        """Another process of its name does not inherit the conversations of one that was removed."""
        if told.body["state"] == "removed" and told.body["address"] in self._addresses:
            self.forget_all(told.body["address"])

    def _recorded(self, key: Key, turn: tuple[list[dict[str, Any]], int, int | None] | None) -> None:
        if turn is None:
            self._forget(key)
            return
        records, size, turns = turn
        if turns is not None:
            self._hold(key, records, size, turns)
            return
        self._hold(key, records, size, self.turns_with(key, len(records), size, self._of_one))
        for other in list(self.beyond(self._most, self._most_bytes)):
            self._forget(other)

    def turns_with(self, key: Key, records: int, size: int, limits: tuple[int, int]) -> int:
        """As :meth:`Session.turns_with`, also of one that is not there yet."""
        return self._sessions.get(key, Session()).turns_with(records, size, limits)

    def beyond(self, most: int, most_bytes: int) -> Iterator[Key]:
        """Which have to go that no more than so many, with so many bytes, are left: none that is in use, and not the
        one that was added to last.
        """
        count, held = len(self._sessions), self.bytes
        for key, session in islice(self._sessions.items(), count - 1 if count else 0):
            if count <= most and held <= most_bytes:
                return
            if not self._in_use(key):
                count -= 1
                held -= session.bytes
                yield key

    def _hold(self, key: Key, records: list[dict[str, Any]], size: int, turns: int) -> None:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session()
        self._sessions.move_to_end(key)
        of = self._of.setdefault(key[0], {})
        of.pop(key[1], None)
        of[key[1]] = session
        before = session.bytes
        session.add(records, size, turns)
        self.bytes += session.bytes - before

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
            for number, (records, size) in enumerate(as_rows(turns), 1):
                self._hold(key, as_list(msgpack.unpackb(as_bytes(records))), as_number(size), number)


def _packed(session: Session) -> list[list[Any]]:
    """Packed one by one: what a behaviour remembers may be nested as deep as msgpack goes."""
    return [[msgpack.packb(turn.records), turn.size] for turn in session.turns()]
