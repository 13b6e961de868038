"""Writes a record and applies it: the only way the node's durable state changes while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chain.errors import ChainError, LedgerUnavailable
from chain.keys import Keys
from chain.ledger import Draft, Ledger, StateChange, Ticket
from chain.reader import EntryRecord, Record, StateRecord
from kernel.errors import Invalid, Unavailable
from kernel.record_forms import Change, check_change, check_entry
from kernel.state import State

RETRY_S = 0.5


class Recorder:
    """Ledger and state, kept in step."""

    def __init__(self, ledger: Ledger, state: State) -> None:
        self.ledger = ledger
        self.state = state
        self._backlog: list[Draft | StateChange | Callable[[], None]] = []

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        """Write ``records`` as one unit and apply them. With ``durable``, ``await ticket.durable()`` for the disk.

        Raises what :meth:`Ledger.commit` raises, and EntryError for what could not be applied; then nothing was
        written or applied.
        """
        changes = [_checked(record) for record in records]
        ticket = self.ledger.commit(records, durable=durable)
        written = iter(ticket.entries)
        for record, change in zip(records, changes, strict=True):
            if change is not None:
                self.state.apply_read(change)
            elif isinstance(record, Draft):
                entry = next(written).entry
                self.state.apply_checked(entry.kind, record.body, entry.seq, entry.time_us, entry.trace)
        return ticket

    async def rotate(self, new: Keys, body: Mapping[str, Any]) -> Ticket:
        """As :meth:`Ledger.rotate`: have ``new`` sign from an entry with ``body`` on."""
        ticket = await self.ledger.rotate(new, body)
        for written in ticket.entries:
            entry = written.entry
            self.state.apply_entry(entry.kind, dict(body), entry.seq, entry.time_us, entry.trace)
        return ticket

    def commit_later(
        self, records: Sequence[Draft | StateChange], written: Callable[[], None] | None = None
    ) -> None:
        """Write what has happened already and cannot be refused (an exit, a start): now, or when the disk takes it;
        then call ``written``.

        What waits is kept in order; a record that comes while others wait goes behind them.
        """
        self._backlog.extend(records)
        if written is not None:
            self._backlog.append(written)
        self._drain()

    def _drain(self) -> None:
        while self._backlog:
            first = self._backlog[0]
            if not isinstance(first, Draft | StateChange):
                del self._backlog[0]
                first()
                continue
            try:
                self.commit([first])
            except LedgerUnavailable:
                asyncio.get_running_loop().call_later(RETRY_S, self._drain)
                return
            del self._backlog[0]


def _checked(record: Draft | StateChange) -> Change | None:
    """What a state record changes; nothing for an entry. Raises EntryError for what a replay could not take."""
    if isinstance(record, StateChange):
        return check_change(record.table, record.key, record.value)
    check_entry(record.kind, record.body)
    return None


@contextlib.contextmanager
def ledger_errors() -> Iterator[None]:
    """The ledger's refusals as the kernel's."""
    try:
        yield
    except LedgerUnavailable as error:
        raise Unavailable(str(error)) from error
    except ChainError as error:
        raise Invalid(str(error)) from error


def replay_into(state: State, record: Record) -> None:
    """The recovery side of the same reducer."""
    if isinstance(record, EntryRecord):
        entry = record.entry
        body = None if record.erased else record.body
        state.apply_entry(entry.kind, body, entry.seq, entry.time_us, entry.trace)
    elif isinstance(record, StateRecord):
        state.apply_change(record.table, record.key, record.value)
