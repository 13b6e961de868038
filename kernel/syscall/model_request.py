"""The messages that a call says, read one by one: canonical text, digest and size of each.

A request may have megabytes, and the loop has other things to do: :func:`read_messages` stops after each slice of work,
so that its caller can let the rest of the loop go first. Pure.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from kernel.cell.conversation import DIGEST_BYTES, Pieces, list_hash, parts
from kernel.values import call_hash, canonical

SLICE_BYTES = 64 * 1024
_MESSAGE_COST_BYTES = (
    256  # what a message costs beside its bytes, so that a thousand empty ones are several slices
)


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
    """``texts``: the canonical text of each; ``known`` is made when all are read."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.known = NO_MESSAGES

    def read(self, messages: Sequence[Any]) -> Iterator[None]:
        """Do the work; a stop after each slice. Raises :class:`Invalid` for what is no JSON."""
        digests, sizes, done = bytearray(), array("I"), 0
        for message in messages:
            text = canonical(message)
            data = text.encode()
            self.texts.append(text)
            digests += hashlib.sha256(data).digest()
            sizes.append(len(data))
            done += len(data) + _MESSAGE_COST_BYTES
            if done >= SLICE_BYTES:
                done = 0
                yield
        self.known = Messages(bytes(digests), sizes)


def request_text(messages: Messages, rest: str) -> str:
    """The canonical text of a request, in which a hash stands for its messages. ``rest``: that of all but them."""
    return f'{{"messages":"{messages.hash}",{rest[1:]}'


def request_bytes(messages: Messages, rest: str) -> int:
    """Bytes of the canonical text of a whole request."""
    between = max(0, len(messages) - 1)
    return len('{"messages":[') + sum(messages.sizes) + between + len("],") + len(rest.encode()) - 1


def former_call_hash(texts: Sequence[str], rest: str) -> str:
    """The hash by which builds before conversations by reference knew the call: that of the text of all messages."""
    return call_hash("model", '{"messages":[' + ",".join(texts) + "]," + rest[1:])
