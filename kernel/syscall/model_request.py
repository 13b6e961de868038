"""The canonical text of a model request and its hashes, made message by message.

A request may have megabytes, and the loop has other things to do: :meth:`RequestText.steps` stops after each slice of
work, so that its caller can let the rest of the loop go first. The text is that of :func:`kernel.values.canonical`
over the whole request; nothing is encoded twice. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from kernel.errors import Invalid
from kernel.values import canonical

SLICE_BYTES = 64 * 1024
_MESSAGE_COST_BYTES = (
    256  # what a message costs beside its bytes, so that a thousand empty ones are several slices
)
DIGEST_BYTES = 32


class RequestText:
    """``messages``: the canonical text of each. ``digests``: the SHA-256 of each, one after the other."""

    def __init__(self, request: dict[str, Any], limit_bytes: int) -> None:
        self.messages: list[str] = []
        self.digests = bytearray()
        self.size_bytes = 0
        self._request = request
        self._limit_bytes = limit_bytes
        self._whole = hashlib.sha256()
        self._call = hashlib.sha256(b"model\0")

    def steps(self) -> Iterator[None]:
        """Do the work; a stop after each slice. Raises :class:`Invalid`, for what is no JSON and what is too long."""
        rest = canonical({key: value for key, value in self._request.items() if key != "messages"})
        self._add(b'{"messages":[')
        done = 0
        for number, message in enumerate(self._request["messages"]):
            text = canonical(message)
            data = text.encode()
            self._add(b"," + data if number else data)
            self.messages.append(text)
            self.digests += hashlib.sha256(data).digest()
            done += len(data) + _MESSAGE_COST_BYTES
            if done >= SLICE_BYTES:
                done = 0
                yield
        self._add(b"]," + rest.encode()[1:])  # "messages" comes first of the keys

    def _add(self, data: bytes) -> None:
        self.size_bytes += len(data)
        if self.size_bytes > self._limit_bytes:
            raise Invalid(f"model request of {self.size_bytes} bytes or more, limit {self._limit_bytes}")
        self._whole.update(data)
        self._call.update(data)

    @property
    def request_hash(self) -> str:
        """SHA-256 of the text, hex."""
        return self._whole.hexdigest()

    @property
    def call_hash(self) -> str:
        """:func:`kernel.values.call_hash` of the text."""
        return self._call.hexdigest()


def common_messages(known: bytes, digests: bytes) -> int:
    """With how many messages two requests begin alike."""
    whole = min(len(known), len(digests))
    if known[:whole] == digests[:whole]:
        return whole // DIGEST_BYTES
    count = 0
    while known[count : count + DIGEST_BYTES] == digests[count : count + DIGEST_BYTES]:
        count += DIGEST_BYTES
    return count // DIGEST_BYTES
