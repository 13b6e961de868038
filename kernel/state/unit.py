"""One unit of what is to be written, and what is said when it is."""

from __future__ import annotations

from chain.entry.draft import Draft, StateChange
from kernel.errors import StateError
from kernel.signals import Signal


class Unit:
    """Records that become durable together or not at all, in order.

    One that :meth:`Recorder.unit` makes knows which numbers its entries will have: then nothing else may be written
    before it is, and :meth:`Recorder.commit` holds it to that.
    """

    __slots__ = ("_next_seq", "first_seq", "records", "written")

    def __init__(self, first_seq: int | None = None) -> None:
        self.first_seq = self._next_seq = first_seq
        self.records: list[Draft | StateChange] = []
        self.written: list[Signal] = []

    @property
    def next_seq(self) -> int:
        """The number that the next entry added here will have. Raises StateError when this unit does not know."""
        if self._next_seq is None:
            raise StateError("this unit may wait, and its entries have no numbers yet: please report it")
        return self._next_seq

    def add(self, *records: Draft | StateChange) -> None:
        self.records += records
        if self._next_seq is not None:
            self._next_seq += [*map(type, records)].count(Draft)

    def say(self, signal: Signal) -> None:
        """Have ``signal`` said once this is written."""
        self.written.append(signal)
