"""Writes a record and applies it: the only way the node's durable state changes while it runs.

While the ledger refuses, whoever has to write waits here, all of them for one timer: units of records that cannot be
refused any more (:meth:`Recorder.must`), in order, and before them nothing is written; and work that is to be done
again (:meth:`Recorder.until_writable`). A unit that can *never* be written is no reason for the others to wait: it
is left out, and an entry, the log and the status say so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from chain.entry.reader import EntryRecord, Record, StateRecord
from chain.errors import ChainError, LedgerUnavailable
from chain.journal.group import Group
from chain.keys.keys import Keys
from chain.ledger.ledger import Draft, Ledger, StateChange, Ticket
from kernel.errors import Invalid, StateError, Unavailable
from kernel.signals import Signal, Signals
from kernel.state.record_forms import Change, check_change, check_draft
from kernel.state.state import State
from kernel.state.unit import Unit
from kernel.values import clean

RETRY_S = 0.5
CALLS_PER_STEP = 100
UNRECORDED = "node.unrecorded"


@dataclass(frozen=True, slots=True)
class Unrecorded(Signal):
    """A unit of records of those ``kinds`` can never be written."""

    kinds: str
    why: str


class Recorder:
    """Ledger and state, kept in step. ``signals`` is where it says what units have to say once they are written."""

    def __init__(self, ledger: Ledger, state: State, signals: Signals) -> None:
        self._signals = signals
        self.ledger = ledger
        self.state = state
        self.unrecorded = 0
        self._backlog: deque[Unit] = deque()
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        ledger.on_group(lambda group: self._hurry())
        ledger.on_fault(lambda part, why: None if why else self._hurry())

    def unit(self) -> Unit:
        """A unit that knows which numbers its entries will have: nothing else may be written before it is."""
        return Unit(self.ledger.next_seq)

    def commit(self, records: Unit | Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        """Write ``records`` as one unit, apply them, and tell what they have to say. It goes to the disk at once when
        the kind of one of them says so, or with ``durable``; ``await ticket.durable()`` for that.

        Raises what :meth:`Ledger.commit` raises, EntryError for what could not be applied, and StateError for a unit
        that something else was written before; then nothing was written or applied.
        """
        if self._backlog:
            raise self._behind_others()
        if not isinstance(records, Unit):
            return self._commit(records, durable)
        if records.first_seq not in (None, self.ledger.next_seq):
            raise StateError(
                f"entries numbered from {records.first_seq} on cannot be written as {self.ledger.next_seq}: a fault in "
                "weftos, please report it"
            )
        ticket = self._commit(records.records, durable)
        self._signals.tell(*records.written)
        return ticket

    def _commit(self, records: Sequence[Draft | StateChange], durable: bool) -> Ticket:
        changes = [_checked(record) for record in records]
        ticket = self.ledger.commit(records, durable=durable)
        written, apply = iter(ticket.entries), self.state.apply_checked
        for record, change in zip(records, changes, strict=True):
            if change is not None:
                self.state.apply_read(change)
            elif type(record) is Draft:
                entry = next(written).entry
                apply(record.kind, record.body, entry.seq, entry.time_us, entry.trace, entry.pid)
        return ticket

    def check_writable(self) -> None:
        """For who does something before its records are committed. Raises LedgerUnavailable where that would now."""
        if self._backlog:
            raise self._behind_others()
        if (why := self.ledger.refusal) is not None:
            raise LedgerUnavailable(why)

    async def rotate(self, new: Keys, body: Mapping[str, Any]) -> Ticket:
        """As :meth:`Ledger.rotate`: have ``new`` sign from an entry with ``body`` on."""
        ticket = await self.ledger.rotate(new, body)
        for written in ticket.entries:
            entry = written.entry
            self.state.apply_entry(entry.kind, dict(body), entry.seq, entry.time_us, entry.trace, entry.pid)
        return ticket

    def must(self, unit: Unit | Sequence[Draft | StateChange]) -> None:
        """Write what has happened already and cannot be refused (an exit, a start): now, or when the disk takes it;
        what it has to say is said in the loop's next round, and never when it can never be written.

        What waits is kept in order; a unit that comes while others wait goes behind them. Raises StateError for one
        that knows its numbers: they are others when it has waited.
        """
        if not isinstance(unit, Unit):
            records, unit = unit, Unit()
            unit.add(*records)
        if unit.first_seq is not None:
            raise StateError("a unit with numbers cannot wait: a fault in weftos, please report it")
        self._backlog.append(unit)
        if len(self._backlog) == 1:
            self._drain()

    @property
    def is_behind(self) -> bool:
        """Whether something that has happened is not written yet."""
        return bool(self._backlog)

    async def barrier(self) -> None:
        """Wait until everything that has happened so far is on the disk. Raises LedgerUnavailable."""
        await self.ledger.barrier()
        if self._backlog:
            raise self._behind_others()

    def _behind_others(self) -> LedgerUnavailable:
        why = self.ledger.refusal
        return LedgerUnavailable(
            f"{len(self._backlog)} units of records wait for the disk{f': {why}' if why else ''}"
        )

    def until_writable(self, key: Hashable, call: Callable[[], None]) -> None:
        """Make ``call`` now, or again each time the ledger takes records, as long as that raises LedgerUnavailable; in
        the place of one with the same ``key``.
        """
        try:
            call()
        except LedgerUnavailable:
            self.when_writable(key, lambda: self.until_writable(key, call))

    async def committed(
        self,
        records: Sequence[Draft | StateChange],
        *,
        durable: bool = False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Ticket | None:
        """Commit as soon as the ledger takes it, however long it refuses; None when it is not ``wanted`` any more.
        Nothing else runs in between when it takes it at once.
        """
        while wanted():
            with contextlib.suppress(LedgerUnavailable):
                return self.commit(records, durable=durable)
            await self.writable()
        return None

    async def on_disk(self, ticket: Ticket) -> Group:
        """Wait until a ticket is durable, however long the disk refuses."""
        while True:
            with contextlib.suppress(LedgerUnavailable):
                return await ticket.durable()
            await self.writable()

    def when_writable(self, key: Hashable, call: Callable[[], None]) -> None:
        """Have ``call`` made once, on the loop, when the ledger takes records again and all that had happened before is
        written; in the place of one with the same ``key``. It is to be asked for again when it is refused again.
        """
        self._waiting[key] = call
        self._wait()

    def not_any_more(self, key: Hashable) -> None:
        """Nobody wants it done any more."""
        self._waiting.pop(key, None)

    async def writable(self) -> None:
        """Wait until the ledger takes records again, as far as can be told."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_writable(future, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            self.not_any_more(future)

    @property
    def waiting(self) -> int:
        """Units and pieces of work that wait for the ledger."""
        return len(self._backlog) + len(self._waiting)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)

    def _hurry(self) -> None:
        """The disk takes records again: whoever waits goes on before anybody new comes."""
        if self._timer is not None:
            self._try_again()

    def _try_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.ledger.refusal is not None:
            self._wait()
            return
        self._drain()
        if not self._backlog:  # else all of them would be refused, and some wait for what is in it
            self._go_on()

    def _go_on(self) -> None:
        """Let a few go on; the rest of the loop goes first, and whoever is refused again waits for the timer."""
        loop = asyncio.get_running_loop()
        for key in list(islice(self._waiting, CALLS_PER_STEP)):
            loop.call_soon(self._waiting.pop(key))
        if self._waiting and self._timer is None:
            self._timer = loop.call_later(0, self._try_again)

    def _drain(self) -> None:
        while self._backlog:
            unit = self._backlog[0]
            try:
                self._commit(unit.records, False)
            except LedgerUnavailable:
                self._wait()
                return
            except Exception as error:
                self._backlog.popleft()
                self._leave_out(unit, error)
                continue
            self._backlog.popleft()
            for signal in unit.written:
                asyncio.get_running_loop().call_soon(self._signals.say, signal)

    def _leave_out(self, unit: Unit, error: Exception) -> None:
        kinds = ", ".join(dict.fromkeys(_kind(record) for record in unit.records))[:200]
        why = clean(f"{type(error).__name__}: {error}")[:500]
        self.unrecorded += 1
        self._signals.say(Unrecorded(kinds, why))
        if kinds != UNRECORDED:
            said = Unit()
            said.add(Draft(UNRECORDED, {"kinds": kinds, "why": why}))
            self._backlog.appendleft(said)


def _kind(record: Draft | StateChange) -> str:
    return f"state {record.table}" if isinstance(record, StateChange) else record.kind


def _checked(record: Draft | StateChange) -> Change | None:
    """What a state record changes; nothing for an entry. Raises EntryError for an entry that is not of its kind, or
    that a replay could not take.
    """
    if type(record) is Draft:
        check_draft(record.kind, record.body)
        return None
    assert isinstance(record, StateChange)
    return check_change(record.table, record.key, record.value)


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
        state.apply_entry(entry.kind, body, entry.seq, entry.time_us, entry.trace, entry.pid)
    elif isinstance(record, StateRecord):
        state.apply_change(record.table, record.key, record.value)
