"""What came of each message from outside: how many processes agents made, and how many messages they sent.

A function of the journal, so that a restart forgets nothing of it; of the newest traces alone, which bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

REMEMBERED_TRACES = 10_000


class Traces:
    """Counts by trace; the one that was added to longest ago goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def processes(self, trace: bytes) -> int:
        return self._kept.get(trace, (0, 0))[0]

    def messages(self, trace: bytes) -> int:
        return self._kept.get(trace, (0, 0))[1]

    def add(self, trace: bytes, processes: int = 0, messages: int = 0) -> None:
        """So many more came of it."""
        had = self._kept.pop(trace, (0, 0))
        self._kept[trace] = had[0] + processes, had[1] + messages
        if len(self._kept) > REMEMBERED_TRACES:
            self._kept.popitem(last=False)

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        """Each trace, its processes and its messages, the one that was added to longest ago first."""
        return ((trace, *counts) for trace, counts in self._kept.items())
