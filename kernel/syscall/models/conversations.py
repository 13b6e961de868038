"""Messages as the node knows them, and what each session asked last.

A request may have megabytes, and the loop has other things to do: :class:`ReadMessages` stops after each slice of work,
so that its caller can let the rest of the loop go first.

In terms of what a session asked last its next question can be told, by its cell and in the ledger. Only digests and
sizes are kept, within a bound; the sessions that asked longest ago are forgotten, and say all of it again. So does one
of which something was erased.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.cell.conversation import DIGEST_BYTES, Pieces, has_text_keys, list_hash, parts
from kernel.errors import Invalid
from kernel.values import canonical

SLICE_BYTES = 64 * 1024
_MESSAGE_COST_BYTES = (
    256  # what a message costs beside its bytes, so that a thousand empty ones are several slices
)
REMEMBERED_SESSIONS = 5_000
REMEMBERED_BYTES = 16 * 2**20
MOST_LINKS = 256
"""So many entries at most tell a request; the next one says all of it, so that nobody has to read further back."""
Key = tuple[str, str]


class Messages:
    """What is known of a list of messages: ``digests``, one after the other, and ``sizes``, bytes of their canonical
    text.
    """

    __slots__ = ("digests", "sizes")

    def __init__(self, digests: bytes = b"", sizes: array[int] | None = None) -> None:
        self.digests = digests
        self.sizes = array("I") if sizes is None else sizes

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def hash(self) -> str:
        return list_hash(self.digests)

    @property
    def kept_bytes(self) -> int:
        """What it takes to keep this."""
        return len(self.digests) + self.sizes.itemsize * len(self.sizes)

    def digest(self, place: int) -> bytes:
        return self.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]

    def beginning(self, count: int, named: str) -> Messages | None:
        """Its first ``count`` messages, when they are those of that hash."""
        digests = self.digests[: count * DIGEST_BYTES]
        if not 0 < count <= len(self) or list_hash(digests) != named:
            return None
        return self if count == len(self) else Messages(digests, self.sizes[:count])

    def put_together(self, pieces: Pieces, said: Messages) -> Messages:
        """The list that the pieces make of this one and of what is said."""
        sizes = array("I")
        for part in parts(pieces, self.sizes, said.sizes):
            sizes += part
        return Messages(b"".join(parts(pieces, self.digests, said.digests, DIGEST_BYTES)), sizes)


NO_MESSAGES = Messages()


class ReadMessages:
    """``known`` is made when all are read. ``take`` is given the canonical text of each, which is not kept here."""

    def __init__(self, take: Callable[[str], None] = lambda text: None) -> None:
        self._take = take
        self.known = NO_MESSAGES

    def read(self, messages: Sequence[Any]) -> Iterator[None]:
        """Do the work; a stop after each slice. Raises :class:`Invalid` for what is no JSON."""
        digests, sizes, done = bytearray(), array("I"), 0
        for message in messages:
            text = canonical(message)
            if not has_text_keys(message):
                raise Invalid("a key in a message is no text")
            data = text.encode()
            self._take(text)
            digests += hashlib.sha256(data).digest()
            sizes.append(len(data))
            done += len(data) + _MESSAGE_COST_BYTES
            if done >= SLICE_BYTES:
                done = 0
                yield
        self.known = Messages(bytes(digests), sizes)


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
        self._sessions: dict[str, set[str]] = {}
        self.bytes = 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self._asked)

    def last(self, key: Key) -> Asked:
        return self._asked.get(key, NOTHING)

    def remember(self, key: Key, asked: Asked) -> None:
        self.forget(key)
        self._asked[key] = asked
        self._sessions.setdefault(key[0], set()).add(key[1])
        self.bytes += asked.messages.kept_bytes
        while len(self._asked) > REMEMBERED_SESSIONS or self.bytes > REMEMBERED_BYTES:
            self.forget(next(iter(self._asked)))

    def heard(self, key: Key, messages: Messages) -> None:
        """A question that was recorded before: its cell may go on from it."""
        if len(messages) and self.last(key).messages.beginning(len(messages), messages.hash) is None:
            self.remember(key, Asked(messages))

    def forget(self, key: Key) -> None:
        asked = self._asked.pop(key, None)
        if asked is None:
            return
        self.bytes -= asked.messages.kept_bytes
        sessions = self._sessions[key[0]]
        sessions.discard(key[1])
        if not sessions:
            del self._sessions[key[0]]

    def forget_all(self, address: str) -> None:
        """The process there was removed: another one of its name begins anew."""
        for session in list(self._sessions.get(address, ())):
            self.forget((address, session))
