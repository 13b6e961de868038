"""Which model a chat wants, until it says otherwise: the last word of its ``/model``, kept by the address of its
session as long as that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.tree.slots import Slots


@dataclass(frozen=True, slots=True)
class Preference:
    """``provider`` and ``model`` as a message may ask for them; each may be empty. ``seq``: the entry that says so."""

    address: str
    provider: str
    model: str
    seq: int


class Preferences(Table[str, Preference]):
    """By the address of a session."""

    NAME = "preferences"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self._tree = slots

    def hears(self) -> Mapping[str, Handler]:
        return {"session.preferred": self._preferred, "process.slot": self._slot}

    def _preferred(self, told: Told) -> None:
        body = told.body
        if body["address"] not in self._tree:
            return
        if body["provider"] or body["model"]:
            one = Preference(body["address"], body["provider"], body["model"], told.seq)
            self._kept[one.address] = one
        else:
            self._kept.pop(body["address"], None)

    def _slot(self, told: Told) -> None:
        if self._kept and told.body["state"] == "removed":
            for address in self._tree.tree(told.body["address"]):
                self._kept.pop(address, None)

    def rows(self) -> Any:
        return [row(one) for one in self.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            one = made(Preference, each)
            self._kept[one.address] = one
