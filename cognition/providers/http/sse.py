"""Server-sent events, as much of them as model servers use: the ``data`` of each event.

Bytes in, events out. Other fields and comments are skipped; lines end in LF or CRLF. What one event may hold
is bounded, and so is the work: a line that arrives byte by byte is joined once.
"""

from __future__ import annotations

from collections.abc import Iterator

from cognition.errors import ProviderError


class SseDecoder:
    """Feed bytes, iterate the ``data`` of complete events.

    Raises :class:`ProviderError` over ``event_bytes``.
    """

    def __init__(self, event_bytes: int) -> None:
        self._limit = event_bytes
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._hold(piece)
            line = b"".join(self._line).removesuffix(b"\r")
            self._line.clear()
            if line:
                self._take(line)
            elif self._data:
                yield self._pop()
        self._hold(rest)

    def pending(self) -> bytes:
        """What the end of the stream left open: some servers leave out the last blank line."""
        if self._line:
            self._take(b"".join(self._line).removesuffix(b"\r"))
            self._line.clear()
        return self._pop()

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._held += len(piece)
        if self._held > self._limit:
            raise ProviderError(f"the model server sent one event of more than {self._limit} bytes")

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(line) + 1
        self._held = self._data_bytes

    def _pop(self) -> bytes:
        data = b"\n".join(self._data)
        self._data.clear()
        self._data_bytes = self._held = 0
        return data
