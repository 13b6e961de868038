"""What is true of the node as a whole: how often it has booted and under which configuration, what a person has taken
over, and which erasures are under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.model.rows import as_bytes, as_list, as_number, as_rows, as_text
from kernel.slice import Handler, Keeper, Slice, Told

CONFIGURED = ("configuration", "peers")  # digests in node.booted


class Boots(Slice):
    """``configured``: digests of what decides and is no state, at the newest boot. ``accepted``: entries that state may
    contradict. ``erasing``: by the seq of its entry, the ranges that an erasure has still to take out of files.
    """

    NAME = "boots"

    def __init__(self) -> None:
        self.count = 0
        self.configured: dict[str, str] = {}
        self.accepted: set[int] = set()
        self.erasing: dict[str, bytes] = {}

    def hears(self) -> Mapping[str, Handler]:
        return {"node.booted": self._booted, "state.accepted": self._accepted}

    def keeps(self) -> Mapping[str, Keeper]:
        return {"erasing": self._erasing}

    def _booted(self, told: Told) -> None:
        self.count += 1
        self.configured = {name: str(told.body[name]) for name in CONFIGURED if name in told.body}

    def _accepted(self, told: Told) -> None:
        self.accepted.update(told.body["contradicted"])

    def _erasing(self, key: str, ranges: bytes | None) -> None:
        if ranges is None:
            self.erasing.pop(key, None)
        else:
            self.erasing[key] = ranges

    def rows(self) -> Any:
        pairs = [list(item) for item in self.configured.items()]
        return [self.count, pairs, sorted(self.accepted), [list(item) for item in self.erasing.items()]]

    def restore(self, rows: Any) -> None:
        count, configured, accepted, erasing = as_list(rows)
        self.count = as_number(count)
        self.configured = {as_text(name): as_text(digest) for name, digest in as_rows(configured)}
        self.accepted = set(map(as_number, as_list(accepted)))
        self.erasing = {as_text(key): as_bytes(ranges) for key, ranges in as_rows(erasing)}
