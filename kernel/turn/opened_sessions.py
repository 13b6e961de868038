"""Sessions that turns were handed while somebody wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernel.turn.turn_signals import SessionRead


class OpenedSessions:
    """Addresses and sessions, for whoever watches."""

    def __init__(self) -> None:
        self._watching: list[set[tuple[str, str]]] = []

    def read(self, read: SessionRead) -> None:
        for seen in self._watching:
            seen.add((read.address, read.session))

    @contextmanager
    def watch(self) -> Iterator[set[tuple[str, str]]]:
        """The sessions that are read from now on."""
        seen: set[tuple[str, str]] = set()
        self._watching.append(seen)
        try:
            yield seen
        finally:
            self._watching = [other for other in self._watching if other is not seen]
