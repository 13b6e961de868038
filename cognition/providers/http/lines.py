"""Lines of a stream, as servers send them that put one JSON object on each. Bytes in, lines out; each is bounded."""

from __future__ import annotations

from collections.abc import Iterator

from cognition.errors import ProviderError


class LineDecoder:
    """Feed bytes, iterate complete lines that are not empty. Raises :class:`ProviderError` over ``line_bytes``."""

    def __init__(self, line_bytes: int) -> None:
        self._limit = line_bytes
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._hold(piece)
            line = self.pending()
            if line:
                yield line
        self._hold(rest)

    def pending(self) -> bytes:
        """What the end of the stream left open."""
        line = b"".join(self._pieces).strip()
        self._pieces.clear()
        self._held = 0
        return line

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._held += len(piece)
        if self._held > self._limit:
            raise ProviderError(f"the model server sent one line of more than {self._limit} bytes")
