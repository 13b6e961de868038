"""The ledger on a disk in memory, on the loop, in one thread: it numbers, encodes, groups, refuses and loses as
:class:`chain.ledger.ledger.Ledger` does, by the same sequencer, journal, groups and tickets.

What it leaves out is signatures, heads, tiles and the snapshot's file. A group is on the disk before anybody is told,
and a crash may come in between; one that a sync refused may be on the disk all the same.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chain.entry.draft import Draft, StateChange
from chain.entry.entry import SALT_BYTES, decode_body, decode_entry
from chain.entry.reader import EntryRecord, JournalReader, Record, replay_group
from chain.entry.record import RawEntry, StateRecord, decode_payload, encode_payload
from chain.errors import LedgerUnavailable
from chain.journal.group import Group, take_group
from chain.journal.journal import Journal
from chain.journal.sequencer import Sequencer
from chain.journal.ticket import Ticket
from chain.ledger.waking import LAZY_S
from chain.merkle.merkle import leaf_hash
from tests.chain.twins.memory_disk import MemoryDisk

JOURNAL = Path("/journal")
ORIGIN = "simulated"
RETRY_S = 0.1
ROOM_BYTES = 64 * 2**10  # much less than the real one's, so that callers are held up now and then
EPOCH_US = 1_800_000_000_000_000


@dataclass
class Weather:
    """How the disk is: it refuses until a time of the loop, and takes that long for a sync."""

    chance: Random
    refuses_until_s: float = 0.0
    slow_until_s: float = 0.0

    def sync_s(self, now_s: float) -> float:
        if now_s < self.slow_until_s:
            return self.chance.uniform(0.05, 1.5)
        return self.chance.choice((0.0, 0.0002, 0.0002, 0.001, 0.02))

    def fault(self, now_s: float) -> str:
        """The operation that fails now; empty: none."""
        return self.chance.choice(("write", "sync")) if now_s < self.refuses_until_s else ""


@dataclass
class Fuse:
    """What goes off at the ``count``-th moment of a ``kind``: commit, before (a group is written), after it was."""

    kind: str = ""
    count: int = 0

    def burn(self, kind: str) -> bool:
        if kind != self.kind:
            return False
        self.count -= 1
        return self.count <= 0


@dataclass
class Kept:
    """What is on the disk, by what is looked up: the entries, each with its body, in order."""

    entries: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def add(self, entry: Any, body: dict[str, Any]) -> None:
        self.entries.append((entry, body))


class SimulatedLedger:
    """Open on ``disk``: what is there goes to ``replay``, so many entries are ``replayed``. ``crash`` is called when
    the fuse goes off.
    """

    keys = None
    full_size, full_note = 0, b""  # there are no heads

    def __init__(
        self,
        disk: MemoryDisk,
        loop: asyncio.AbstractEventLoop,
        weather: Weather,
        salts: Random,
        replay: Callable[[Record], None],
        crash: Callable[[], None],
    ) -> None:
        self.disk, self._loop, self._weather, self._salts, self._crash = disk, loop, weather, salts, crash
        self.kept, self.fuse = Kept(), Fuse()
        self.ambush: Callable[[], object] | None = None  # when a turn next asks another node
        self.look: Callable[[], None] = lambda: None  # before each commit: what a crash could leave
        self._sequencer = Sequencer(ORIGIN)
        reader = JournalReader(JOURNAL, disk)
        for group in reader.groups():
            for record in replay_group(group, replay):
                if isinstance(record, EntryRecord):
                    self._sequencer.follow(record.entry, record.leaf_hash)
                    self.kept.add(record.entry, record.body)
        self.replayed = len(self.kept.entries)
        self._journal = Journal(JOURNAL, disk, ORIGIN, reader.position)
        self._written_tree = self._sequencer.tree.copy()
        self._pending: deque[Ticket] = deque()
        self.unwritten: deque[Ticket] = deque()
        self._unwritten_bytes = 0
        self._held_up: deque[Callable[[], None]] = deque()
        self._groups: list[Callable[[Any], None]] = []
        self._faults: list[Callable[[str, str | None], None]] = []
        self._fault: str | None = None
        self._closed: str | None = None
        self.stored = 0  # of those that are unwritten as far as anybody was told
        self._busy = self._wake_due = self._timer_due = False

    # -- as the ledger's -------------------------------------------------------------------------------------------

    def on_group(self, callback: Callable[[Any], None]) -> None:
        self._groups.append(callback)

    def on_fault(self, callback: Callable[[str, str | None], None]) -> None:
        self._faults.append(callback)

    @property
    def read_only(self) -> str | None:
        return self._fault

    @property
    def refusal(self) -> str | None:
        return self._fault or self._closed

    @property
    def next_seq(self) -> int:
        return self._sequencer.tree.size

    def now_us(self) -> int:
        return max(EPOCH_US + int(self._loop.time() * 1e6), self._sequencer.last_time_us)

    @property
    def counters(self) -> int:
        return len(self._sequencer.counts)

    def forget_counters(self, in_use: Collection[int]) -> None:
        self._sequencer.forget(in_use)

    @property
    def newest(self) -> Ticket | None:
        return self.unwritten[-1] if self.unwritten else None

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        if self.fuse.burn("commit"):
            self._crash()
        self.look()
        why = self.refusal
        if why is not None:
            raise LedgerUnavailable(why)
        salts = self._salts.randbytes(SALT_BYTES * len(records))
        ticket = Ticket(self._wait_for, self._sequencer.take(records, self.now_us(), salts))
        self.unwritten.append(ticket)
        self._pending.append(ticket)
        self._unwritten_bytes += ticket.batch.bytes
        ambush = self.ambush
        if ambush is not None and any(
            isinstance(record, Draft) and record.kind == "message.sent" and record.body["reply_to"]
            for record in records
        ):
            self.ambush = None
            self._loop.call_soon(ambush)
        if durable:
            self._wake_soon()
        elif not self._timer_due:
            self._timer_due = True
            self._loop.call_later(LAZY_S, self._lazy_wake)
        return ticket

    async def barrier(self) -> None:
        if self.unwritten:
            await self.unwritten[-1].durable()

    def when_room(self, go_on: Callable[[], None]) -> None:
        if self._unwritten_bytes <= ROOM_BYTES or self._fault is not None:
            go_on()
        else:
            self._held_up.append(go_on)

    # -- the writer ------------------------------------------------------------------------------------------------

    def _wake_soon(self) -> None:
        if not self._wake_due:
            self._wake_due = True
            self._loop.call_soon(self._wake)

    def _lazy_wake(self) -> None:
        self._timer_due = False
        if self._pending:
            self._wake_soon()

    def _wake(self) -> None:
        self._wake_due = False
        if not self._busy and self._pending:
            self._busy = True
            taken = take_group(self._pending)
            self._loop.call_later(self._weather.sync_s(self._loop.time()), self._append, taken)

    def _append(self, taken: list[Ticket]) -> None:
        fault = self._weather.fault(self._loop.time())
        if fault:
            self.disk.torn = self._weather.chance.randrange(200)
            self.disk.fail(fault, errno.ENOSPC)
        if self.fuse.burn("before"):
            self._crash()
        payload = encode_payload([record for ticket in taken for record in ticket.batch.records], None)
        try:
            number = self._journal.append(payload, lambda statement: bytes(64))
        except OSError as error:
            self._failed(f"the journal cannot be written: {error}")
            self._loop.call_later(RETRY_S, self._append, taken)
            return
        self.stored = len(taken)
        entries = tuple(written for ticket in taken for written in ticket.batch.entries)
        hashes = tuple(written.leaf_hash for written in entries)
        first, before = self._written_tree.size, tuple(self._written_tree.nodes)
        self._written_tree.extend(hashes)
        for written in entries:
            self.kept.add(written.entry, decode_body(written.body))
        if self.fuse.burn("after"):
            self._crash()
        group = Group(number, first, self._written_tree.size, b"", hashes, before, entries)
        self._loop.call_later(self._weather.chance.choice((0.0, 0.0, 0.0001)), self._written, group, taken)

    def _written(self, group: Group, taken: list[Ticket]) -> None:
        if self._fault is not None:
            self._fault = None
            self._tell(None)
        self.stored = 0
        for ticket in taken:
            self.unwritten.popleft()
            self._unwritten_bytes -= ticket.batch.bytes
        for ticket in taken:
            ticket.written(group)
        for callback in self._groups:
            callback(group)
        self._busy = False
        self._let_on()
        self._wake()

    def _failed(self, why: str) -> None:
        if self._fault != why:
            self._tell(why)
        self._fault = why
        for ticket in self.unwritten:
            ticket.failed(why)
        self._let_on()

    def _tell(self, why: str | None) -> None:
        for callback in self._faults:
            callback("journal", why)

    def _let_on(self) -> None:
        while self._held_up and (self._unwritten_bytes <= ROOM_BYTES or self._fault is not None):
            self._held_up.popleft()()

    async def _wait_for(self, ticket: Ticket) -> Group:
        if self._fault is not None:
            raise LedgerUnavailable(self._fault)
        future: asyncio.Future[Group] = self._loop.create_future()
        ticket.waiter(future)
        self._wake_soon()
        return await future

    async def close(self) -> None:
        """Write what there is. Raises LedgerUnavailable when that is not possible."""
        self._closed = "the ledger is closed"
        await self.barrier()

    # -- to look at ------------------------------------------------------------------------------------------------

    def replay(self, take: Callable[[Record], None]) -> None:
        """Every record that has a place, on the disk or on its way there, as a reader of the journal would have it."""
        reader = JournalReader(JOURNAL, self.disk.crash())
        for group in reader.groups():
            for record in group.records:
                take(record)
        for ticket in list(self.unwritten)[self.stored :]:
            for raw in decode_payload(encode_payload(ticket.batch.records, None))[0]:
                take(_read(raw))


def _read(raw: Any) -> Record:
    if isinstance(raw, RawEntry):
        entry = decode_entry(raw.leaf)
        return EntryRecord(entry, raw.leaf, leaf_hash(raw.leaf), raw.salt, raw.body, 0, "", 0)
    assert isinstance(raw, StateRecord)
    return raw
