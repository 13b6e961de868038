"""What each session asked last: in terms of what its next question can be told, by its cell and in the ledger.

Only digests and sizes are kept, within a bound; the sessions that asked longest ago are forgotten, and say all of it
again. So does one of which something was erased.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kernel.syscall.model_request import NO_MESSAGES, Messages

REMEMBERED_SESSIONS = 5_000
REMEMBERED_BYTES = 16 * 2**20
MOST_LINKS = 256
"""So many entries at most tell a request; the next one says all of it, so that nobody has to read further back."""
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """The newest question of a session. ``seq``: its entry, -1 when that need not hold all it should. ``links``: how
    many entries it is told in terms of.
    """

    messages: Messages
    seq: int = -1
    links: int = 0

    @property
    def on_record(self) -> Messages:
        """What the next entry can be told in terms of."""
        return self.messages if self.seq >= 0 and self.links < MOST_LINKS else NO_MESSAGES


NOTHING = Asked(NO_MESSAGES)


class Conversations:
    """By address and session."""

    def __init__(self) -> None:
        self._asked: OrderedDict[Key, Asked] = OrderedDict()
        self.bytes = 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self._asked)

    def last(self, key: Key) -> Asked:
        return self._asked.get(key, NOTHING)

    def remember(self, key: Key, asked: Asked) -> None:
        self.forget(key)
        self._asked[key] = asked
        self.bytes += asked.messages.kept_bytes
        while len(self._asked) > REMEMBERED_SESSIONS or self.bytes > REMEMBERED_BYTES:
            self.forget(next(iter(self._asked)))

    def heard(self, key: Key, messages: Messages) -> None:
        """A question that was recorded before: its cell may go on from it."""
        if len(messages) and self.last(key).messages.beginning(len(messages), messages.hash) is None:
            self.remember(key, Asked(messages))

    def forget(self, key: Key) -> None:
        self.bytes -= self._asked.pop(key, NOTHING).messages.kept_bytes
