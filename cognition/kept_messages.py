"""The messages that the gateway was told, encoded, so that a conversation that goes on need only say what is new.

By their digest, which the node makes: what is in several conversations is held once. Those that were asked with longest
ago go when all together take more than a bound; who needs one of them again must say it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from cognition.errors import CognitionError
from cognition.providers.wire import EncodedMessage

DIGEST_BYTES = 32
KEPT_BYTES = 64 * 2**20
_EACH_BYTES = 1024
"""What a message takes beside its bytes, about."""


class KeptMessages:
    """``bytes``: what they take in memory, about."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, EncodedMessage] = OrderedDict()
        self.bytes = 0

    def messages(
        self, digests: bytes, said: Iterable[tuple[int, dict[str, Any]]]
    ) -> tuple[EncodedMessage, ...] | None:
        """The messages with these digests, of which those at some places are said. None: one is not here.

        Those that are said are kept in any case.
        """
        places = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
        for place, message in said:
            if not 0 <= place < len(places):
                raise CognitionError(f"ask: message {place} of {len(places)}")
            self._keep(places[place], message)
        lost = False
        for digest in places:
            if digest in self._kept:
                self._kept.move_to_end(digest)
            else:
                lost = True
        found = () if lost else tuple(self._kept[digest] for digest in places)
        self._let_go()
        return None if lost else found

    def _keep(self, digest: bytes, message: dict[str, Any]) -> None:
        if digest not in self._kept:
            kept = self._kept[digest] = EncodedMessage(message)
            self.bytes += _size(kept)

    def _let_go(self) -> None:
        while self.bytes > self._most_bytes:
            self.bytes -= _size(self._kept.popitem(last=False)[1])

    def forget(self) -> None:
        """Nothing is kept any more: some of it is to be erased."""
        self._kept.clear()
        self.bytes = 0


def _size(message: EncodedMessage) -> int:
    return message.size + _EACH_BYTES
