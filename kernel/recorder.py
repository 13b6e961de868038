"""Writes a record and applies it: the only way the node's durable state changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from chain.ledger import Draft, Ledger, StateChange, Ticket
from chain.reader import EntryRecord, Record, StateRecord

from kernel.state import State


class Recorder:
    """Ledger and state, kept in step. Raises what :meth:`Ledger.commit` raises; then nothing was applied."""

    def __init__(self, ledger: Ledger, state: State) -> None:
        self.ledger = ledger
        self.state = state

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        """Write ``records`` as one unit and apply them. With ``durable``, ``await ticket.durable()`` for the disk."""
        ticket = self.ledger.commit(records, durable=durable)
        written = iter(ticket.entries)
        for record in records:
            if isinstance(record, StateChange):
                self.state.apply_change(record.table, record.key, record.value)
            else:
                entry = next(written).entry
                self.state.apply_entry(entry.kind, record.body, entry.seq, entry.time_us, entry.trace)
        return ticket


def replay_into(state: State, record: Record) -> None:
    """The recovery side of the same reducer."""
    if isinstance(record, EntryRecord):
        entry = record.entry
        state.apply_entry(entry.kind, record.body, entry.seq, entry.time_us, entry.trace)
    elif isinstance(record, StateRecord):
        state.apply_change(record.table, record.key, record.value)
