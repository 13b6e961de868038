"""Until when messages are to be begun, and which of them is due first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

SPARE = 64


class Deadlines:
    """Times in microseconds of the ledger's clock, by the id of the message. All that it does costs the logarithm of
    how many there are.
    """

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # with some that are gone

    def __len__(self) -> int:
        return len(self._due)

    def add(self, ident: str, due_us: int) -> None:
        """The message of this id is to be begun by then."""
        self._due[ident] = due_us
        heappush(self._heap, (due_us, ident))

    def remove(self, ident: str) -> None:
        """It is begun, or gone; or never had one."""
        if self._due.pop(ident, None) is not None and len(self._heap) > 2 * len(self._due) + SPARE:
            self._heap = [(due_us, each) for each, due_us in self._due.items()]
            heapify(self._heap)

    def first(self) -> tuple[int, str] | None:
        """The one that is due first, with its time; None: there is none."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None
