"""Who has subscribed to what. A subscription belongs to an address: it stays over restarts and stops, and ends when it
is taken back, or the slot is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from kernel.model.rows import as_rows, made, row
from kernel.operations.messages import Overflow
from kernel.slice import Handler, Table, Told
from kernel.slices.mail.topic_names import patterns_of
from kernel.slices.tree.slots import Slots

OVERFLOWS = BACK_PRESSURE, DEAD_LETTER, DROP_OLDEST = get_args(Overflow)
"""What becomes of a publication for whom there is no room: it is refused, for all; it is a dead letter; or, of a
telemetry topic alone, the oldest one that waits there is dropped."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """``overflow`` is one of :data:`OVERFLOWS`; ``seq``: the entry that made it."""

    address: str
    pattern: str
    overflow: str
    seq: int


class Subscriptions(Table[str, dict[str, Subscription]]):
    """By pattern and address; ``in_order``: by the entries that made them."""

    NAME = "subscriptions"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self._tree = slots
        self._of: dict[str, dict[str, None]] = {}
        self.in_order: dict[int, Subscription] = {}

    def of(self, address: str) -> list[str]:
        """The patterns of an address, oldest first."""
        return list(self._of.get(address, ()))

    def to(self, topic: str) -> list[Subscription]:
        """Who is to have what is published there, each once, by the pattern that is closest."""
        found: dict[str, Subscription] = {}
        for pattern in patterns_of(topic):
            for address, one in self.get(pattern, {}).items():
                found.setdefault(address, one)
        return list(found.values())

    def hears(self) -> Mapping[str, Handler]:
        return {
            "topic.subscribed": self._subscribed,
            "topic.unsubscribed": lambda told: self._take(told.body["address"], told.body["pattern"]),
            "process.slot": self._slot,
        }

    def _subscribed(self, told: Told) -> None:
        body = told.body
        if body["address"] in self._tree:
            self._hold(Subscription(body["address"], body["pattern"], body["overflow"], told.seq))

    def _hold(self, one: Subscription) -> None:
        self._take(one.address, one.pattern)
        self._kept.setdefault(one.pattern, {})[one.address] = one
        self._of.setdefault(one.address, {})[one.pattern] = None
        self.in_order[one.seq] = one

    def _take(self, address: str, pattern: str) -> None:
        subscribers = self.get(pattern, {})
        one = subscribers.pop(address, None)
        if one is not None:
            del self.in_order[one.seq]
            self._of[address].pop(pattern)
            if not subscribers:
                del self._kept[pattern]
            if not self._of[address]:
                del self._of[address]

    def _slot(self, told: Told) -> None:
        if self._of and told.body["state"] == "removed":
            for address in self._tree.tree(told.body["address"]):
                for pattern in self.of(address):
                    self._take(address, pattern)

    def rows(self) -> Any:
        return [row(one) for one in self.in_order.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(Subscription, each))
