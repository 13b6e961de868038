"""When messages of those whose rate is limited were accepted, and their words on the model of a chat, within the last
hour.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from kernel.model.rows import as_number, as_rows, as_text
from kernel.slice import Handler, Table, Told

HOUR_US = 3600 * 1_000_000
MOST_SENDERS = 20_000
"""So many are counted one by one, beside those that the configuration knows."""


class Rates(Table[str, "array[int]"]):
    """By name, the times in microseconds, oldest first; some may be over an hour old. The entry says whom
    it counts for. Eight bytes are kept of each, where its entry takes hundreds.
    """

    NAME = "rates"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self) -> None:
        self._heard: OrderedDict[str, array[int]] = OrderedDict()  # who was heard longest ago stands first
        super().__init__(self._heard)

    def hears(self) -> Mapping[str, Handler]:
        return {"message.accepted": self._accepted, "session.preferred": self._accepted}

    def _accepted(self, told: Told) -> None:
        name = told.body.get("rate", "")
        if not name:
            return
        times = self._heard.setdefault(name, array("q"))
        times.append(told.time_us)
        self._heard.move_to_end(name)
        old = bisect_right(times, told.time_us - HOUR_US)
        if 2 * old > len(times):
            del times[:old]
        while (oldest := next(iter(self._heard))) != name and self._heard[oldest][
            -1
        ] <= told.time_us - HOUR_US:
            del self._heard[oldest]

    def rows(self) -> Any:
        return [[name, *times] for name, times in self._heard.items()]

    def restore(self, rows: Any) -> None:
        for name, *given in as_rows(rows):
            times = self._heard[as_text(name)] = array("q", map(as_number, given))
            if not times or list(times) != sorted(times):
                raise ValueError(f"the times of {name!r:.80} are none, or in no order")
