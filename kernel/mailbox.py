"""A mailbox: what an address has accepted and not yet handled.

    Mailbox(max_messages, max_bytes, max_signals)
    push(id, item, size_bytes, lane="normal")    MailboxFull; Conflict when the id is in it already
    peek() -> item | None    pop() -> item | None    remove(id) -> item | None
    drain() -> list[item]    len(box)    iter(box)    id in box    box.size_bytes

Two lanes. ``signal`` is for what the node itself has to say (cancel, exit): it overtakes, and has room of
its own, so that a full mailbox cannot keep it out. Within a lane order is that of acceptance, which keeps
order per sender.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Literal, TypeVar

from kernel.errors import Conflict, MailboxFull

Lane = Literal["signal", "normal"]
T = TypeVar("T")


class Mailbox(Generic[T]):
    """Bounded. ``size_bytes`` counts the normal lane; signals are bounded by their number."""

    def __init__(self, max_messages: int, max_bytes: int, max_signals: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._max_signals = max_signals
        self._signals: dict[str, T] = {}
        self._normal: dict[str, tuple[T, int]] = {}
        self.size_bytes = 0

    def push(self, id: str, item: T, size_bytes: int, lane: Lane = "normal") -> None:
        """Take ``item`` in at the end of its lane."""
        if id in self:
            raise Conflict(f"message {id} is in this mailbox already")
        if lane == "signal":
            if len(self._signals) >= self._max_signals:
                raise MailboxFull(f"mailbox holds {len(self._signals)} signals, limit {self._max_signals}")
            self._signals[id] = item
            return
        if len(self._normal) >= self._max_messages:
            raise MailboxFull(
                f"mailbox holds {len(self._normal)} messages, limit {self._max_messages}: try again later"
            )
        if self.size_bytes + size_bytes > self._max_bytes:
            raise MailboxFull(
                f"mailbox holds {self.size_bytes} bytes and the message has {size_bytes}, "
                f"limit {self._max_bytes}: try again later"
            )
        self._normal[id] = (item, size_bytes)
        self.size_bytes += size_bytes

    def peek(self) -> T | None:
        """The next to be handled, left in its place."""
        return next(iter(self), None)

    def pop(self) -> T | None:
        """The next to be handled, taken out."""
        for lane in (self._signals, self._normal):
            for ident in lane:
                return self.remove(ident)
        return None

    def remove(self, id: str) -> T | None:
        """Take out the message ``id``, wherever it stands; None when it is not here."""
        if id in self._signals:
            return self._signals.pop(id)
        if id not in self._normal:
            return None
        item, size_bytes = self._normal.pop(id)
        self.size_bytes -= size_bytes
        return item

    def drain(self) -> list[T]:
        """Take out everything, in order of delivery."""
        items = list(self)
        self._signals.clear()
        self._normal.clear()
        self.size_bytes = 0
        return items

    def __iter__(self) -> Iterator[T]:
        yield from self._signals.values()
        for item, _ in self._normal.values():
            yield item

    def __contains__(self, id: str) -> bool:
        return id in self._signals or id in self._normal

    def __len__(self) -> int:
        return len(self._signals) + len(self._normal)
