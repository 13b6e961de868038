"""The ledger: everything that must survive, in one order, with one group commit.

Theory of operation. :meth:`Ledger.commit` runs on the event loop and does all that costs per record
(encoding, commitment, hash link, tree); from then on the records have their place for good. The writer takes
whatever has gathered, signs the head over it and writes it as one frame with one sync. So many callers share a
sync, and what is durable makes everything before it durable. That is done at the end of the loop's present round
when somebody waits for a commit, by the loop itself while the disk is quick and by a thread otherwise, and at the
latest 40 ms after the oldest commit that nobody waits for. A signer thread adds the ML-DSA-65 line to the newest head.

When the disk refuses, nothing that has a place loses it: the frame is tried again until it can be written.
Until then everyone who waits gets :class:`~chain.errors.LedgerUnavailable` (their records may still become
durable), new commits are refused, and :attr:`Ledger.read_only` says why. When the disk is full, space that was
set aside (:mod:`chain.journal.reserve`) takes what has a place already, and an entry that says so.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from chain.aio import AioDisk
from chain.disk import Disk
from chain.entry.draft import PREVIOUS, Draft, StateChange, is_durable
from chain.entry.entry import SALT_BYTES
from chain.entry.record import EntryRecord, Record, encode_head_record
from chain.errors import EntryError, LedgerUnavailable, RotationError
from chain.journal.group import Group
from chain.journal.journal import SEGMENT_BYTES, Journal
from chain.journal.reserve import RESERVE_BYTES, Reserve
from chain.journal.sequencer import COUNTERS, Batch, Written
from chain.journal.signer import Signer
from chain.journal.ticket import Ticket
from chain.journal.writer import RETRY_S, Roll, Writer
from chain.keys.keys import Keys
from chain.keys.rotation import KIND, follow, vkeys_text
from chain.ledger.loop_calls import LoopCalls
from chain.merkle.head import parse_head
from chain.merkle.tree import consistency_path
from chain.notes.note import parse
from chain.notes.slots import HeadSlots
from chain.state.binding import Unbound
from chain.state.history import journal_items
from chain.state.kept_snapshot import KeptSnapshot
from chain.state.recovery import Recovery, recover, remove_segments
from chain.tiles.erasure import erase_bodies
from chain.tiles.publisher import PUBLISH_S, Publisher
from chain.tiles.tile_store import TileStore

__all__ = ["PREVIOUS", "Draft", "Group", "Ledger", "StateChange", "Ticket", "Written"]

LAZY_S = 0.04
LAZY_MARGIN_S = 0.005
RANDOM_BYTES = 4096
HEAD_RECORD_S = 1.0
ROOM_BYTES = 8 * 2**20
MAX_PENDING_BYTES = 64 * 2**20
WRITE_NOW_BYTES = 64 * 2**10
PUBLISH_PATIENCE_S = 0.5
RESERVE_FILE = "reserve"


def _settle(rolled: asyncio.Future[int], group: int, why: str) -> None:
    if rolled.done():
        return
    if why:
        rolled.set_exception(LedgerUnavailable(why))
    else:
        rolled.set_result(group)


class Replayed:
    """Hands on what recovery reads: to the publisher what it has not published, and everything to the node."""

    def __init__(self, publisher: Publisher, replay: Callable[[Record], None]) -> None:
        self._publisher = publisher
        self._replay = replay

    def __call__(self, record: Record) -> None:
        if isinstance(record, EntryRecord) and record.entry.seq >= self._publisher.size:
            self._publisher.take((record.leaf, record.leaf_hash, record.salt, record.body_bytes))
        self._replay(record)


class Ledger:
    """One node's ledger, open for writing. Methods are for the event loop's thread alone.

    keys: those that sign the newest durable head. full_note: the newest head with both signature lines, empty when
    there is none yet. recovery: what :meth:`open` found.
    """

    def __init__(
        self,
        journal: Journal,
        slots: HeadSlots,
        publisher: Publisher,
        recovery: Recovery,
        place: tuple[Path, Disk],
        now_us: Callable[[], int],
        retry_s: float,
        reserve: Reserve,
        calls: LoopCalls,
    ) -> None:
        self.recovery = recovery
        self.published_size = publisher.size
        self._fault: str | None = None
        self._full: str | None = None
        self.keys = keys = recovery.keys
        self.full_note = recovery.full.note if recovery.full else b""
        self._sequencer = recovery.sequencer
        self._sequencer.forgotten = max(0, max(self._sequencer.counts, default=0) - COUNTERS)
        self._now_us = now_us
        self._provisional = recovery.note
        self._size = self._sequencer.tree.size
        self._nodes = tuple(self._sequencer.tree.nodes)
        self._callbacks: list[Callable[[Group], None]] = []
        self._fault_callbacks: list[Callable[[str, str | None], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = calls
        self._pending: deque[Ticket] = deque()
        self._unwritten: deque[Ticket] = deque()
        self._unwritten_bytes = 0
        self._held_up: deque[Callable[[], None]] = deque()
        self._wake_due = False
        self._woken = False  # since the newest commit; the writer takes all there is
        self._timer_due = False
        self._gathers_since = 0.0
        self._random, self._random_at = b"", 0
        self._closed: str | None = None
        self._stopped: str | None = None
        self._publisher = publisher
        self._publishing: list[tuple[int, asyncio.Future[None]]] = []
        self._journal = journal
        self._data, self._disk = place
        self._snapshot = KeptSnapshot(self._data / "snapshot", self._disk, recovery.snapshot)
        self._head_recorded_at = float("-inf")
        self._reserve = reserve
        self._writer: Writer[Ticket] = Writer(
            journal,
            keys,
            self._pending,
            self._group_written,
            partial(self._calls.post, self._failed),
            partial(self._calls.post, self._space),
            self._reserve,
            retry_s,
        )
        self._signer = Signer(
            keys,
            slots,
            partial(self._calls.post, self._signed),
            self._writer.refuse,
            partial(self._calls.post, partial(self._tell_fault, "heads")),
        )

    @classmethod
    def open(
        cls,
        data_dir: Path,
        keys: Keys,
        *,
        others: Sequence[Keys] = (),
        now_us: Callable[[], int],
        replay: Callable[[Record], None],
        restore: Callable[[bytes], None] = lambda state: None,
        disk: Disk | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        retry_s: float = RETRY_S,
        publish_s: float = PUBLISH_S,
        reserve_bytes: int = RESERVE_BYTES,
        accept: bool = False,
        agree: Callable[[tuple[Unbound, ...]], None] = lambda unbound: None,
    ) -> Ledger:
        """Recover the ledger of ``data_dir``: the state of the newest snapshot goes to ``restore``, then every
        record of the journal behind it to ``replay``, in order.

        ``others``: keys beside ``keys`` that may be the ones in force (:func:`chain.keys.key_change.load_candidates`);
        the journal decides. ``reserve_bytes``: set aside for the moment when the disk is full. ``accept``: take over
        state that the keys have not signed; :attr:`recovery` says what, and whoever asked for it records that before
        anything else, then calls :meth:`sign_snapshot`. ``agree`` is asked when all has been read, with what was taken
        over so: when it raises, journal, snapshot and what is published stay as they are. Then a torn tail
        is cut off; :attr:`recovery` says how much. Raises UnboundState, DamageError, ForeignDataError, KeyFileError,
        OSError, and what ``agree`` raises.
        """
        disk = disk or AioDisk()
        reserve = Reserve(data_dir / RESERVE_FILE, disk, reserve_bytes)
        reserve.need()
        for name in ("journal", "heads"):
            disk.make_directory(data_dir / name)
        slots = HeadSlots(data_dir / "heads", disk)
        calls = LoopCalls()
        handed: list[Ledger] = []
        publisher = Publisher(
            data_dir / "ledger",
            disk,
            partial(journal_items, data_dir, disk),
            lambda size: calls.post(handed[0]._published, size),
            publish_s,
        )
        recovery = recover(
            data_dir, slots, (keys, *others), disk, Replayed(publisher, replay), restore, accept=accept
        )
        agree(recovery.unbound)
        if recovery.snapshot is not None:
            disk.sync_directory(data_dir / "snapshot")  # whoever placed it may have been killed before
            remove_segments(data_dir / "journal", recovery.snapshot[0], disk)
        publisher.vkeys(vkeys_text(recovery.keys.pairs))
        journal = Journal(
            data_dir / "journal", disk, keys.origin, recovery.position, segment_bytes=segment_bytes
        )
        ledger = cls(journal, slots, publisher, recovery, (data_dir, disk), now_us, retry_s, reserve, calls)
        handed.append(ledger)
        return ledger

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start writing; callbacks and waiters run on ``loop``."""
        self._loop = loop
        self._calls.start(loop)
        self._writer.start(self._size, self._nodes, self._provisional)
        unsigned = self._provisional if self._head_size(self.full_note) < self._size else b""
        self._signer.start(self._size, self._nodes, unsigned)
        if self.full_note:
            self._publisher.signed(self.full_note)
        self._publisher.start(partial(self._calls.post, partial(self._tell_fault, "published")))
        if self._pending:
            self._wake_soon()

    @property
    def read_only(self) -> str | None:
        """Why it cannot be written now, or None."""
        return self._fault or self._full

    @property
    def refusal(self) -> str | None:
        """Why :meth:`commit` takes nothing now, or None."""
        if self._unwritten_bytes > MAX_PENDING_BYTES:
            return f"{self._unwritten_bytes} bytes wait for the disk, limit {MAX_PENDING_BYTES}"
        return self.read_only or self._closed

    @property
    def last_time_us(self) -> int:
        """The time of the newest entry, 0 when there is none."""
        return self._sequencer.last_time_us

    @property
    def counters(self) -> int:
        """For how many processes the number of their next entry is held."""
        return len(self._sequencer.counts)

    def forget_counters(self, in_use: Collection[int]) -> None:
        """Hold no counter any more of a PID that is long past and not ``in_use``."""
        self._sequencer.forget(in_use)

    def now_us(self) -> int:
        """The time that an entry would get now, microseconds since 1970."""
        return max(self._now_us(), self._sequencer.last_time_us)

    @property
    def faults(self) -> dict[str, str]:
        """What does not work now, by the part of the ledger: ``journal``, ``heads``, ``published``; and why."""
        parts = {"journal": self.read_only, "heads": self.head_fault, "published": self.publish_fault}
        return {part: why for part, why in parts.items() if why is not None}

    @property
    def next_seq(self) -> int:
        """The seq that the next entry will get."""
        return self._sequencer.tree.size

    @property
    def size(self) -> int:
        """How many entries are durable."""
        return self._size

    @property
    def head_note(self) -> bytes:
        """The newest head over durable entries: full where it is so already, provisional otherwise."""
        return self.full_note if self.full_note.startswith(self._provisional) else self._provisional

    @property
    def full_size(self) -> int:
        """How many entries the newest full head covers."""
        return self._head_size(self.full_note)

    @property
    def head_fault(self) -> str | None:
        """Why full heads cannot be stored now, or None."""
        return self._signer.fault

    @property
    def publish_fault(self) -> str | None:
        """Why the ledger cannot be published now, or None."""
        return self._publisher.fault

    @property
    def sealed_bytes(self) -> int:
        """Bytes in the journal's segments before the present one."""
        return sum(self._disk.size(self._data / "journal" / name) for name in self._journal.sealed())

    def on_group(self, callback: Callable[[Group], None]) -> None:
        """Have ``callback`` called on the loop for each group that is durable, before those who waited go on."""
        self._callbacks.append(callback)

    def commit(
        self, records: Sequence[Draft | StateChange], *, durable: bool = False, keys: Keys | None = None
    ) -> Ticket:
        """Give ``records`` their place, as one unit. The write starts at once when the kind of one of them says so
        (:mod:`chain.entry.kinds`), or with ``durable``; wait with the ticket. ``keys`` is for :meth:`rotate` alone.

        Raises LedgerUnavailable, EntryError, BodyTooLarge; then nothing has been written and nothing will be.
        """
        why = self.refusal
        if why is not None:
            raise LedgerUnavailable(why)
        return self._take(records, durable or any(map(is_durable, records)), keys)

    def _take(
        self, records: Sequence[Draft | StateChange], durable: bool, keys: Keys | None = None
    ) -> Ticket:
        batch = self._sequencer.take(records, self._now_us(), self._salts(SALT_BYTES * len(records)))
        return self._push(batch, durable, keys)

    def _salts(self, size: int) -> bytes:
        """Random bytes, each given out once. Many are fetched at a time: each fetch hands over the interpreter."""
        if len(self._random) - self._random_at < size:
            self._random, self._random_at = os.urandom(size + RANDOM_BYTES), 0
        at, self._random_at = self._random_at, self._random_at + size
        return self._random[at : self._random_at]

    async def rotate(self, new: Keys, body: Mapping[str, Any]) -> Ticket:
        """Hand over to ``new`` with an entry ``key.rotated`` of ``body`` (:mod:`chain.keys.rotation`), in a group to
        itself. The head over it, and every later one, is signed by ``new``; once the ticket is durable,
        :attr:`keys` are these. Waits until all before it is published, so that what is published never lacks more
        than one change of keys.

        Raises what :meth:`commit` and :meth:`publish` raise, and then nothing has happened.
        """
        await self.publish()
        if any(ticket.keys is not None for ticket in self._unwritten):
            raise LedgerUnavailable("the keys are being changed already; wait for it")
        try:
            pair = follow(self.keys.pair, self.keys.origin, len(self.keys.pairs), body)
        except RotationError as error:
            raise EntryError(str(error)) from error
        if new.pairs != (*self.keys.pairs, pair):
            raise EntryError("the new keys are not those that the body names, behind the keys before them")
        async with self._snapshot.lock:
            await self._snapshot.sign((self.keys, new))
            return self.commit([Draft(KIND, dict(body))], durable=True, keys=new)

    @property
    def segment(self) -> tuple[int, bytes]:
        """The first group of the journal's present segment, and the checksum of the frame before it."""
        return self._journal.began

    @property
    def snapshot_digest(self) -> bytes:
        """The digest of the snapshot that the node stands behind; empty when there is none."""
        return self._snapshot.digest

    async def place_snapshot(self, group: int, digest: bytes) -> None:
        """Sign the snapshot of everything before ``group`` that was written beside the present one and has that digest,
        and put it in its place. Raises LedgerUnavailable when it cannot be written.
        """
        async with self._snapshot.lock:
            await self._snapshot.place(group, digest, self._signers())

    async def sign_snapshot(self) -> None:
        """Sign the snapshot that was found at the start: a person has accepted it. Raises LedgerUnavailable."""
        async with self._snapshot.lock:
            await self._snapshot.sign(self._signers())

    def _signers(self) -> tuple[Keys, ...]:
        """Those in force, and those that a change of keys under way will bring."""
        return (self.keys, *(ticket.keys for ticket in self._unwritten if ticket.keys is not None))

    def _push(self, batch: Batch, durable: bool, keys: Keys | None = None) -> Ticket:
        ticket = Ticket(self._wait_for, batch, keys)
        self._unwritten.append(ticket)
        self._unwritten_bytes += batch.bytes
        if not self._pending and self._loop is not None:
            self._gathers_since = self._loop.time()
        self._pending.append(ticket)
        self._woken = False
        if durable:
            self._wake_soon()
        elif not self._timer_due and self._loop is not None:
            self._timer_due = True
            self._loop.call_later(LAZY_S, self._lazy_wake)
        return ticket

    def _wake_soon(self) -> None:
        """Have it written when the loop's present round is over, so that the round's commits share a sync."""
        if not self._wake_due and self._loop is not None:
            self._wake_due = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Write what has gathered here and now, unless something else is on its way to the disk or it is much."""
        self._wake_due = False
        self._woken = True
        if len(self._pending) < len(self._unwritten) or self._unwritten_bytes > WRITE_NOW_BYTES:
            self._writer.wake()
            return
        written = self._writer.write_now()
        if written is not None:
            self._hand_on(*written)
            self._written(*written)

    def _lazy_wake(self) -> None:
        """Wake the writer for what nobody waits for; what has come since the last group may wait a while longer."""
        self._timer_due = False
        if not self._pending or self._loop is None:
            return
        left_s = self._gathers_since + LAZY_S - self._loop.time()
        if left_s > LAZY_MARGIN_S:
            self._timer_due = True
            self._loop.call_later(left_s, self._lazy_wake)
        else:
            self._wake()

    async def _wait_for(self, ticket: Ticket) -> Group:
        why = self._fault or self._stopped
        if why is not None or self._loop is None:
            raise LedgerUnavailable(why or "the ledger has not been started")
        future: asyncio.Future[Group] = self._loop.create_future()
        ticket.waiter(future)
        if not self._woken:
            self._wake_soon()
        return await future

    async def barrier(self) -> None:
        """Wait until everything committed so far is on the disk. Raises LedgerUnavailable."""
        if self._unwritten:
            await self._unwritten[-1].durable()

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` at once, or, while much waits for a disk that is only slow, when less does: so whoever makes
        records is held up, and what waits is bounded.
        """
        if self._unwritten_bytes <= ROOM_BYTES or self._fault is not None:
            go_on()
        else:
            self._held_up.append(go_on)

    def _let_on(self) -> None:
        while self._held_up and (self._unwritten_bytes <= ROOM_BYTES or self._fault is not None):
            self._held_up.popleft()()

    async def publish(self) -> None:
        """Have everything that is durable now published. Raises LedgerUnavailable when that fails."""
        await self.barrier()
        await self._until_published(self._size, hurry=True)

    async def consistency(self, size1: int, size2: int) -> list[bytes]:
        """The proof that the first ``size1`` entries are the beginning of the first ``size2``.

        A full head must cover them; waits until the published ledger holds them. Raises ValueError,
        LedgerUnavailable, TileError, OSError.
        """
        if not 0 <= size1 <= size2 <= self.full_size:
            raise ValueError(
                f"no proof from {size1} to {size2}: {self.full_size} entries are under a full head"
            )
        await self._until_published(size2, hurry=False)
        return await asyncio.to_thread(
            lambda: consistency_path(TileStore(self._data / "ledger", self._disk).node, size1, size2)
        )

    async def _until_published(self, size: int, hurry: bool) -> None:
        if self._loop is None or self.published_size >= size:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._publishing.append((size, done))
        if hurry and self.full_size >= size:
            self._publisher.signed(self.full_note, hurry=True)
        while not done.done():
            await asyncio.wait([done], timeout=PUBLISH_PATIENCE_S)
            why = self._stopped or self._fault or self.publish_fault or self.head_fault
            if why is not None and not done.done():
                self._publishing = [waiting for waiting in self._publishing if waiting[1] is not done]
                raise LedgerUnavailable(why)

    async def roll(self) -> int:
        """Begin a new segment of the journal; its first group. Raises LedgerUnavailable."""
        if self._loop is None:
            raise LedgerUnavailable("the ledger has not been started")
        rolled: asyncio.Future[int] = self._loop.create_future()

        def done(group: int, why: str) -> None:
            self._calls.post(lambda _: _settle(rolled, group, why), None)

        self._writer.roll(Roll(done))
        return await rolled

    async def drop_before(self, group: int) -> int:
        """Remove the journal's segments that begin before ``group``; how many.

        Raises LedgerUnavailable unless the snapshot covers them and all their entries are published.
        """
        try:
            return await asyncio.to_thread(self._drop_before, group)
        except OSError as error:
            raise LedgerUnavailable(f"segments of the journal cannot be removed: {error}") from error

    def _drop_before(self, group: int) -> int:
        snapshot = self._snapshot.read()
        if snapshot is None or snapshot.group < group or self._publisher.size < snapshot.seq:
            raise LedgerUnavailable(
                f"segments before group {group} are still needed: the snapshot covers those before "
                f"{snapshot.group if snapshot else 0}, {self._publisher.size} entries are published"
            )
        return remove_segments(self._data / "journal", group, self._disk)

    async def erase_bodies(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Take the bodies of ``ranges`` (first and last entry of each) out of the published ledger; how many there
        were. They must be published, and no longer in the journal. Raises TileError, OSError.
        """
        work = partial(erase_bodies, self._data / "ledger", self._disk, ranges)
        return await asyncio.to_thread(self._publisher.alone, work)

    def _published(self, size: int) -> None:
        self.published_size = size
        for wanted, done in self._publishing:
            if wanted <= size and not done.done():
                done.set_result(None)
        self._publishing = [waiting for waiting in self._publishing if not waiting[1].done()]

    def _group_written(self, group: Group, taken: list[Ticket]) -> None:
        """On the writer's thread."""
        self._hand_on(group, taken)
        self._calls.post(partial(self._written, group), taken)

    def _hand_on(self, group: Group, taken: list[Ticket]) -> None:
        """To the publisher and the signer, who have no part in what waits for the disk."""
        keys = taken[0].keys
        if keys is not None:
            self._publisher.vkeys(vkeys_text(keys.pairs))  # before any head that these have signed
        if group.entries:
            self._publisher.offer(group.entries)
            self._signer.offer(group, keys)

    def _written(self, group: Group, taken: list[Ticket]) -> None:
        if self._fault is not None:
            self._fault = None
            self._tell_fault("journal", None)
        self._size = group.size
        self._provisional = group.note
        if taken[0].keys is not None:
            self.keys = taken[0].keys
        for ticket in taken:
            self._unwritten.popleft()
            self._unwritten_bytes -= ticket.batch.bytes
        for ticket in taken:
            ticket.written(group)
        for callback in self._callbacks:
            try:
                callback(group)
            except Exception as error:  # the others are told all the same
                self._report("a callback of the ledger failed", error)
        self._let_on()

    def _report(self, what: str, error: Exception) -> None:
        assert self._loop is not None
        self._loop.call_exception_handler({"message": what, "exception": error})

    def on_fault(self, callback: Callable[[str, str | None], None]) -> None:
        """Have ``callback(part, why)`` called on the loop for each fault as in :attr:`faults`, None when it is over."""
        self._fault_callbacks.append(callback)

    def _tell_fault(self, part: str, why: str | None) -> None:
        for callback in self._fault_callbacks:
            callback(part, why)

    def _failed(self, why: str) -> None:
        if self._fault != why:
            self._tell_fault("journal", why)
        self._fault = why
        for ticket in self._unwritten:
            ticket.failed(why)
        self._let_on()

    def _space(self, why: str) -> None:
        """The disk is full (``why``), or is no longer, and an entry says so."""
        if bool(why) == bool(self._full):
            return
        self._full = (
            f"the disk is full: {why}; make room on it, and the node goes on by itself" if why else None
        )
        if self._closed is None:
            draft = Draft("node.disk_full", {"why": why}) if why else Draft("node.disk_free", {})
            self._take([draft], durable=True)
        self._tell_fault("journal", self._full)

    def _signed(self, note: bytes) -> None:
        assert self._loop is not None
        self.full_note = note
        self._publisher.signed(note, hurry=bool(self._publishing))
        now = self._loop.time()
        if self._closed is None and self.read_only is None and now - self._head_recorded_at >= HEAD_RECORD_S:
            self._head_recorded_at = now
            self._record_head(closing=False)

    def _record_head(self, *, closing: bool) -> Ticket:
        record = encode_head_record(self.full_note, closing)
        tree = self._sequencer.tree
        return self._push(Batch([record], [], tree.size, tree.nodes.copy(), len(record)), durable=closing)

    @staticmethod
    def _head_size(note: bytes) -> int:
        return parse_head(parse(note).text).size if note else 0

    async def close(self) -> None:
        """Stop cleanly: write everything, sign the last full head, store it in a slot, publish it, and write it as the
        journal's last record.

        Raises LedgerUnavailable when that was not possible; the ledger is closed all the same. A second call
        does nothing.
        """
        if self._closed is not None:
            return
        self._closed = "the ledger is closed"
        try:
            if self._loop is not None:
                await self._finish()
        finally:
            await asyncio.to_thread(self._signer.stop)
            await asyncio.to_thread(self._publisher.stop)
            await asyncio.to_thread(self._writer.stop)
            self._stopped = self._closed
            for ticket in self._unwritten:
                ticket.failed(self._closed)

    async def _finish(self) -> None:
        await self.barrier()
        await asyncio.to_thread(self._signer.stop)
        if self._signer.fault or self.full_size < self._size:
            raise LedgerUnavailable(
                self._signer.fault or "the last head was not signed: its thread has stopped"
            )
        await asyncio.to_thread(self._publisher.stop)
        if self.publish_fault is not None:
            raise LedgerUnavailable(self.publish_fault)
        if self._size:
            await self._record_head(closing=True).durable()
