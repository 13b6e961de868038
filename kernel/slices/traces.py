"""What came of each message from outside: how many processes agents made, and how many messages they sent.

A function of the journal, so that a restart forgets nothing of it; of the newest traces alone, which bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from kernel.model.makers import AGENT
from kernel.model.rows import as_bytes, as_number, as_rows
from kernel.slice import Handler, Slice, Told

REMEMBERED_TRACES = 10_000


class Traces(Slice):
    """Counts by trace; the one that was added to longest ago goes first."""

    NAME = "traces"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def processes(self, trace: bytes) -> int:
        return self._kept.get(trace, (0, 0))[0]

    def messages(self, trace: bytes) -> int:
        return self._kept.get(trace, (0, 0))[1]

    def hears(self) -> Mapping[str, Handler]:
        return {
            "process.spawned": self._spawned,
            "message.accepted": self._arose,
            "message.sent": self._arose,
        }

    def _spawned(self, told: Told) -> None:
        if told.body.get("made_by") == AGENT:
            self._add(told.trace, 1, 0)

    def _arose(self, told: Told) -> None:
        """A message was written; when no person did, it came of another. An answer is the end of one that counts."""
        if told.body["rights"] is not None and not told.body.get("answers"):
            self._add(told.trace, 0, 1)

    def _add(self, trace: bytes, processes: int, messages: int) -> None:
        had = self._kept.pop(trace, (0, 0))
        self._kept[trace] = had[0] + processes, had[1] + messages
        if len(self._kept) > REMEMBERED_TRACES:
            self._kept.popitem(last=False)

    def rows(self) -> Any:
        return [[trace, *counts] for trace, counts in self._kept.items()]

    def restore(self, rows: Any) -> None:
        for trace, processes, messages in as_rows(rows):
            self._add(as_bytes(trace), as_number(processes), as_number(messages))
