"""Which address each of the newest PIDs belonged to, and how many PIDs are reserved."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from kernel.model.rows import as_list, as_number, as_rows, as_text
from kernel.slice import Handler, Keeper, Table, Told

REMEMBERED_PIDS = 100_000
FORGOTTEN_AT_ONCE = 1_000
"""The oldest of a plain dict is found behind those that went before it: so many go, when there are so many too many."""


class PidTable(Table[int, str]):
    """Addresses by PID. ``reserved``: none from there on has been given out."""

    NAME = "pids"

    def __init__(self) -> None:
        self._newest: dict[int, str] = {}
        super().__init__(self._newest)
        self.reserved = 0

    def hears(self) -> Mapping[str, Handler]:
        return {"process.started": self._started}

    def keeps(self) -> Mapping[str, Keeper]:
        return {"pids": self._reserve}

    def _started(self, told: Told) -> None:
        self._newest[told.body["pid"]] = told.body["address"]
        if len(self._newest) >= REMEMBERED_PIDS + FORGOTTEN_AT_ONCE:
            for pid in list(islice(self._newest, FORGOTTEN_AT_ONCE)):
                del self._newest[pid]

    def _reserve(self, upto: int, value: None) -> None:
        self.reserved = upto

    def rows(self) -> Any:
        return [self.reserved, [list(pair) for pair in self._newest.items()]]

    def restore(self, rows: Any) -> None:
        reserved, newest = as_list(rows)
        self.reserved = as_number(reserved)
        for pid, address in as_rows(newest):
            self._newest[as_number(pid)] = as_text(address)
