"""What processes remember of their conversations, within limits for each of them and for all together.

A function of the journal alone, so that a replay comes to the same: of one session the oldest turns go first, and of
all sessions the one that was added to longest ago, whole. One whose turn is open stays: that turn, when it is resumed,
must be handed what it was handed before.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Key = tuple[str, str]
"""An address and the name of a session."""


class Session:
    """What an address remembers of one conversation: the newest turns, whole, within a count and a size."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._turns: deque[tuple[list[dict[str, Any]], int]] = deque()
        self.records = 0
        self.bytes = 0

    def add(self, records: list[dict[str, Any]], size: int) -> None:
        """Add one turn's records and forget the oldest turns beyond the limits; the newest stays in any case."""
        self._turns.append((records, size))
        self.records += len(records)
        self.bytes += size
        while len(self._turns) > 1 and (self.records > self._max_records or self.bytes > self._max_bytes):
            old, old_size = self._turns.popleft()
            self.records -= len(old)
            self.bytes -= old_size

    def history(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        return [record for records, _ in self._turns for record in records]

    def turns(self) -> list[tuple[list[dict[str, Any]], int]]:
        """What is kept of each turn, and its size, oldest first."""
        return list(self._turns)


class Sessions(Mapping[Key, Session]):
    """All of them, the one that was added to longest ago first. ``bytes``: of all their records, as they are kept.

    ``evicted``: how many had to go since the node started, what it read from its journal included.
    """

    def __init__(self, of_one: tuple[int, int], most: int, most_bytes: int) -> None:
        self._of_one = of_one
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Key, Session] = OrderedDict()
        self._of: dict[str, set[str]] = {}
        self.bytes = 0
        self.evicted = 0

    def __getitem__(self, key: Key) -> Session:
        return self._kept[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def hold(self, key: Key, records: list[dict[str, Any]], size: int) -> None:
        """Add one turn's records to a session."""
        session = self._kept.get(key)
        if session is None:
            session = self._kept[key] = Session(*self._of_one)
            self._of.setdefault(key[0], set()).add(key[1])
        self._kept.move_to_end(key)
        before = session.bytes
        session.add(records, size)
        self.bytes += session.bytes - before

    def add(self, key: Key, records: list[dict[str, Any]], size: int, in_use: Callable[[Key], bool]) -> None:
        """As :meth:`hold`, and let go what is beyond the limits and not ``in_use``; this one stays in any case."""
        self.hold(key, records, size)
        if self._fits():
            return
        for other in list(self._kept):
            if other == key or self._fits():
                return
            if not in_use(other):
                self.forget(other)
                self.evicted += 1

    def _fits(self) -> bool:
        return len(self._kept) <= self._most and self.bytes <= self._most_bytes

    def forget(self, key: Key) -> None:
        """Nothing is remembered of it; one that is not there changes nothing."""
        session = self._kept.pop(key, None)
        if session is None:
            return
        self.bytes -= session.bytes
        names = self._of[key[0]]
        names.remove(key[1])
        if not names:
            del self._of[key[0]]

    def forget_all(self, address: str) -> None:
        """Nothing is remembered by the process at ``address``."""
        for name in list(self._of.get(address, ())):
            self.forget((address, name))
