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
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.draft import PREVIOUS, Draft, StateChange, is_durable
from chain.entry.entry import SALT_BYTES
from chain.entry.record import encode_head_record
from chain.errors import EntryError, LedgerUnavailable, RotationError
from chain.in_thread import in_thread
from chain.journal.group import Group
from chain.journal.sequencer import COUNTERS, Batch, Written
from chain.journal.signer import Signer
from chain.journal.ticket import Ticket
from chain.journal.writer import Writer
from chain.keys.keys import Keys
from chain.keys.rotation import KIND, follow, vkeys_text
from chain.ledger.opening import USUAL, Opened, Tuning, recovered
from chain.ledger.unwritten import Unwritten
from chain.ledger.upkeep import Upkeep, UpkeepParts
from chain.ledger.waking import Waking
from chain.merkle.head import parse_head
from chain.merkle.tree import consistency_path
from chain.notes.note import parse
from chain.state.kept_snapshot import KeptSnapshot
from chain.state.recovery import NOBODY, Reader
from chain.tiles.tile_store import TileStore

__all__ = ["PREVIOUS", "Draft", "Group", "Ledger", "Reader", "StateChange", "Ticket", "Tuning", "Written"]

RANDOM_BYTES = 4096
HEAD_RECORD_S = 1.0
MAX_PENDING_BYTES = 64 * 2**20
WRITE_NOW_BYTES = 64 * 2**10


class Ledger:
    """One node's ledger, open for writing. Methods are for the event loop's thread alone.

    keys: those that sign the newest durable head. recovery: what :meth:`open` found.
    """

    def __init__(self, opened: Opened, now_us: Callable[[], int]) -> None:
        self.recovery = recovery = opened.recovery
        self._fault: str | None = None
        self._full: str | None = None
        self.keys = keys = recovery.keys
        note = recovery.full.note if recovery.full else b""
        self._full_head = note, _head_size(note)
        self._sequencer = recovery.sequencer
        self._sequencer.forgotten = max(0, max(self._sequencer.counts, default=0) - COUNTERS)
        self._now_us = now_us
        self._provisional = recovery.note
        self._size = self._sequencer.tree.size
        self._nodes = tuple(self._sequencer.tree.nodes)
        self._callbacks: list[Callable[[Group], None]] = []
        self._fault_callbacks: list[Callable[[str, str | None], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = calls = opened.calls
        self._unwritten = Unwritten(lambda: self._fault)
        self._waking = Waking(self._unwritten.pending, self._write, self._nobody_gathers)
        self._wanted = 0  # commits of this round that go to the disk at once
        self._random, self._random_at = b"", 0
        self._closed: str | None = None
        self._stopped: str | None = None
        self._publisher = opened.publisher
        self._publication = opened.publication
        self._disk, self._data = opened.disk, opened.data
        self._snapshot = KeptSnapshot(opened.data / "snapshot", opened.disk, recovery.snapshot)
        self._head_recorded_at = float("-inf")
        self._writer: Writer[Ticket] = Writer(
            opened.journal,
            keys,
            self._unwritten.pending,
            self._group_written,
            partial(calls.post, self._failed),
            partial(calls.post, self._space),
            opened.reserve,
            opened.retry_s,
        )
        self._signer = Signer(
            keys,
            opened.slots,
            self._signed,
            self._writer.refuse,
            partial(calls.post, partial(self._tell_fault, "heads")),
        )
        parts = UpkeepParts(
            opened.journal,
            self._snapshot,
            self._publisher,
            self._writer,
            calls,
            self._signers,
            self.publish,
        )
        self.upkeep = Upkeep(opened.data, opened.disk, parts)

    @classmethod
    def open(
        cls,
        data_dir: Path,
        keys: Keys,
        *,
        now_us: Callable[[], int],
        reader: Reader = NOBODY,
        others: Sequence[Keys] = (),
        disk: Disk | None = None,
        tuning: Tuning = USUAL,
    ) -> Ledger:
        """Recover the ledger of ``data_dir``; ``reader`` hears what is found.

        ``others``: keys beside ``keys`` that may be the ones in force (:func:`chain.keys.key_change.load_candidates`);
        the journal decides. What was taken over though the keys have not signed it, :attr:`recovery` says, and whoever
        asked for it records that before anything else, then calls :meth:`Upkeep.sign_snapshot`. A torn tail is cut off;
        :attr:`recovery` says how much. Raises UnboundState, DamageError, ForeignDataError, KeyFileError, OSError, and
        what the reader raises.
        """
        return cls(recovered(data_dir, (keys, *others), reader, disk, tuning), now_us)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start writing; callbacks and waiters run on ``loop``."""
        self._loop = loop
        self._calls.start(loop)
        self._writer.start(self._size, self._nodes, self._provisional)
        unsigned = self._provisional if self.full_size < self._size else b""
        self._signer.start(self._size, self._nodes, unsigned)
        if self.full_note:
            self._publisher.signed(self.full_note)
        self._publisher.start(partial(self._calls.post, partial(self._tell_fault, "published")))
        self._waking.start(loop)

    @property
    def read_only(self) -> str | None:
        """Why it cannot be written now, or None."""
        return self._fault or self._full

    @property
    def refusal(self) -> str | None:
        """Why :meth:`commit` takes nothing now, or None."""
        if self._unwritten.bytes > MAX_PENDING_BYTES:
            return f"{self._unwritten.bytes} bytes wait for the disk, limit {MAX_PENDING_BYTES}"
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
    def full_note(self) -> bytes:
        """The newest head with both signature lines, empty when there is none yet."""
        return self._full_head[0]

    @property
    def full_size(self) -> int:
        """How many entries the newest full head covers."""
        return self._full_head[1]

    @property
    def published_size(self) -> int:
        """How many entries the newest checkpoint that is published covers."""
        return self._publication.size

    @property
    def head_fault(self) -> str | None:
        """Why full heads cannot be stored now, or None."""
        return self._signer.fault

    @property
    def publish_fault(self) -> str | None:
        """Why the ledger cannot be published now, or None."""
        return self._publisher.fault

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
        if self._unwritten.keys():
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

    def _signers(self) -> tuple[Keys, ...]:
        """Those in force, and those that a change of keys under way will bring."""
        return (self.keys, *self._unwritten.keys())

    def _push(self, batch: Batch, durable: bool, keys: Keys | None = None) -> Ticket:
        ticket = Ticket(self._wait_for, batch, keys)
        self._waking.comes()
        self._unwritten.add(ticket)
        if durable:
            self._wanted += 1
            self._waking.soon()
        else:
            self._waking.lazily()
        return ticket

    def _write(self) -> None:
        """Write what has gathered, here and now for a lone caller."""
        written = self._writer.write_now(self._hand_on, alone=self._alone())
        self._wanted = 0
        if written is not None:
            self._written(*written)

    def _alone(self) -> bool:
        """Whether one caller at most waits for what has gathered, which is little, and nothing is before it."""
        little = self._unwritten.at_rest and self._unwritten.bytes <= WRITE_NOW_BYTES
        return little and self._wanted <= 1

    def _nobody_gathers(self) -> bool:
        return self._alone() and self._writer.lone

    @property
    def hearing(self) -> AbstractContextManager[None]:
        """To be entered while all that a link has to say at a time is heard: what one of its frames waits for is
        written, or left to the writer's thread, at its end where there is one caller, not a round of the loop later.
        """
        return self._waking

    async def _wait_for(self, ticket: Ticket) -> Group:
        why = self._fault or self._stopped
        if why is not None or self._loop is None:
            raise LedgerUnavailable(why or "the ledger has not been started")
        future: asyncio.Future[Group] = self._loop.create_future()
        ticket.waiter(future)
        self._waking.soon()
        return await future

    @property
    def newest(self) -> Ticket | None:
        """What was committed last, unless all is on the disk."""
        return self._unwritten.newest

    async def barrier(self) -> None:
        """Wait until everything committed so far is on the disk. Raises LedgerUnavailable."""
        newest = self._unwritten.newest
        if newest is not None:
            await newest.durable()

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` at once, or, while much waits for a disk that is only slow, when less does: so whoever makes
        records is held up, and what waits is bounded.
        """
        self._unwritten.when_room(go_on)

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
        return await in_thread(
            lambda: consistency_path(TileStore(self._data / "ledger", self._disk).node, size1, size2)
        )

    async def _until_published(self, size: int, hurry: bool) -> None:
        if self._loop is None or self._publication.size >= size:
            return
        no_publication = partial(self._no_publication, self._publisher.failures, self._signer.failures)
        done = self._publication.waiter(size)
        if hurry and self.full_size >= size:  # else the signer hurries, who finds somebody waiting
            self._publisher.signed(self.full_note, hurry=True)
        await self._publication.until(done, no_publication)

    def _no_publication(self, unpublished: int, unsigned: int) -> str | None:
        """Why there will be none; that so many attempts had failed before says nothing of the next."""
        why = self._stopped or self._fault
        return why or self._publisher.fault_since(unpublished) or self._signer.fault_since(unsigned)

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
        self._unwritten.written(group, taken)
        for callback in self._callbacks:
            try:
                callback(group)
            except Exception as error:  # the others are told all the same
                self._report("a callback of the ledger failed", error)
        self._unwritten.let_on()

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
        self._unwritten.failed(why)
        self._unwritten.let_on()

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
        """On the signer's thread; the loop is woken for the head that is recorded, and for no other."""
        assert self._loop is not None
        self._full_head = note, _head_size(note)  # at once: the loop reads both
        self._publisher.signed(note, hurry=self._publication.wanted)
        if self._may_record(self._loop.time()):
            self._calls.post(self._record_newest, self._loop.time())

    def _record_newest(self, now_s: float) -> None:
        if self._may_record(now_s):  # else one that was posted before has been
            self._head_recorded_at = now_s
            self._record_head(closing=False)

    def _may_record(self, now_s: float) -> bool:
        due = now_s - self._head_recorded_at >= HEAD_RECORD_S
        return due and self._closed is None and self.read_only is None

    def _record_head(self, *, closing: bool) -> Ticket:
        record = encode_head_record(self.full_note, closing)
        tree = self._sequencer.tree
        return self._push(Batch([record], [], tree.size, tree.nodes.copy(), len(record)), durable=closing)

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
            await in_thread(self._signer.stop)
            await in_thread(self._publisher.stop)
            await in_thread(self._writer.stop)
            self._stopped = self._closed
            self._unwritten.failed(self._closed)

    async def _finish(self) -> None:
        await self.barrier()
        await in_thread(self._signer.stop)
        if self._signer.fault or self.full_size < self._size:
            raise LedgerUnavailable(
                self._signer.fault or "the last head was not signed: its thread has stopped"
            )
        await in_thread(self._publisher.stop)
        if self.publish_fault is not None:
            raise LedgerUnavailable(self.publish_fault)
        if self._size:
            await self._record_head(closing=True).durable()


def _head_size(note: bytes) -> int:
    return parse_head(parse(note).text).size if note else 0
