"""What an auditor knows of a ledger while its entries pass by. Pure: bytes in, findings out.

Theory of operation. Each entry is checked in itself (canonical form, commitment, body) and against what came
before (sequence, hash link, time, counter, cause). The hash of an entry is confirmed only by what *follows*
it: by ``previous`` of the next entry, or by the root in a head. So an entry is held back until the next one
has come, and when the two disagree, this decides which is at fault: when they differ in a single byte, the link
was touched; otherwise the entry was, for a changed leaf has another hash altogether. The tree goes on with
the hash that the rest of the ledger vouches for, so that one change makes one finding, and not one in each
head behind it. What a touched entry said of its process and of the time counts for nothing (see
``chain.entry.counters``).

Entries with which nothing is wrong, as nearly all are, take a short way through here that decides nothing: many at once
(``chain.audit.clean_run``), or one by one.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from chain.audit.clean_run import CleanRun, clean_run
from chain.audit.findings import Findings
from chain.audit.meaning import FOLLOWED, Meaning
from chain.audit.watched_tree import WatchedTree
from chain.entry.counters import Counters
from chain.entry.entry import ZERO_HASH, Entry, commit_body, decode_body, decode_entry, decode_fields
from chain.entry.kinds import KINDS, well_typed
from chain.entry.record import Columns, RawEntry
from chain.errors import EntryError
from chain.keys.rotation import KeyHistory
from chain.merkle.merkle import CompactRange, leaf_hash


class Observer(Protocol):
    """Hears of each entry, and tells whose bodies are missing elsewhere."""

    def follow(self, seq: int, raw: RawEntry, hash_: bytes) -> bool:
        """The entry ``seq`` and its leaf hash: whether its body is missing."""

    def follow_run(self, seq: int, run: CleanRun) -> Set[int]:
        """Entries from ``seq`` on, each with its body: those whose body is missing."""


class Unconfirmed:
    """The last entry, whose hash nothing has confirmed yet."""

    __slots__ = ("at_fault", "hash", "seq", "suspect", "time_before_us", "where")

    def __init__(
        self, seq: int, hash_: bytes, where: str, suspect: bool, at_fault: bool, time_before_us: int
    ) -> None:
        self.seq = seq
        self.hash = hash_
        self.where = where
        self.suspect = suspect
        self.at_fault = at_fault
        self.time_before_us = time_before_us

    def disbelieve(self, claimed: bytes) -> None:
        """Those behind it say that its hash is another."""
        self.hash, self.at_fault = claimed, True


class Heads(Protocol):
    """Has a head over a group of entries, and may compare it when they are in the tree."""

    def settle(self, last: Unconfirmed | None) -> None:
        """The entries up to ``last`` are in the tree."""

    def forget(self) -> None:
        """Nothing can be said of a head that waits for its entries."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """Something unreadable. ``explained``: the entry before it was at fault, so this may be no more than its end."""

    where: str
    what: str
    explained: bool


class Audit:
    """Feed it entries (:meth:`records`, :meth:`record`), then :meth:`finish`.

    ``keys``: the node's, from the first ones on; it follows their changes. ``watched``: tree sizes whose roots it is to
    note in ``roots``. ``observer`` hears of each entry, ``heads`` when they are in the ``tree``.

    entries: how many so far; begins: the first one of which more than the hash is known. meaning: what they say
    together.
    """

    def __init__(
        self,
        origin: str,
        keys: KeyHistory | None = None,
        watched: frozenset[int] = frozenset(),
        observer: Observer | None = None,
        heads: Heads | None = None,
    ) -> None:
        self.origin = origin
        self.findings = Findings()
        self.meaning = Meaning(self.findings, keys)
        self.entries = self.begins = 0
        self.tree = WatchedTree(watched)
        self.counters = Counters()
        self._observer = observer
        self._heads = heads
        self._held: Unconfirmed | None = None
        self._loss: _Loss | None = None
        self._before = ZERO_HASH

    @property
    def roots(self) -> dict[int, bytes]:
        """Those of the sizes that are watched."""
        return self.tree.roots

    def record(self, raw: RawEntry, where: str, suspect: bool = False) -> None:
        """One entry. ``suspect``: it stood in damaged bytes."""
        if suspect or self._loss is not None or not self._clean(raw, where):
            self._doubtful(raw, where, suspect)

    def records(self, columns: Columns, where: Sequence[str]) -> None:
        """Entries in a row, none of them from damaged bytes, and the place of each."""
        if self._loss is not None or not self._clean_run(columns, where):
            for leaf, salt, body, place in zip(
                columns.leaves, columns.salts, columns.bodies, where, strict=True
            ):
                self.record(RawEntry(leaf, salt, body), place)

    def watch(self, sizes: frozenset[int]) -> None:
        """Note the roots at these tree sizes too, of which none has passed yet."""
        self.tree.watch(sizes)

    def begin_at(self, seq: int, tree: CompactRange, last_hash: bytes) -> None:
        """Take the first ``seq`` entries for audited: their tree, and the hash of the last one."""
        self.begins = self.entries = seq
        self.tree.begin_at(tree)
        self._before = last_hash
        self.counters.forget()

    def root_now(self) -> bytes:
        """The root over all entries so far."""
        return self.root_with_last() or self.tree.root()

    def root_with_last(self) -> bytes | None:
        """The root with the last entry, which nothing has confirmed yet; None when there is none."""
        return None if self._held is None else self.tree.root_with(self._held.hash)

    @property
    def last_hash(self) -> bytes:
        """The leaf hash of the last entry; zero bytes before there is one."""
        return self._held.hash if self._held else self._before

    @property
    def loses(self) -> bool:
        """Whether what was last could not be read."""
        return self._loss is not None

    def gap(self, where: str, what: str) -> None:
        """Something could not be read; entries may be missing here. The next readable entry will tell which."""
        explained = self._held is not None and self._held.at_fault
        self._confirm(None, "", False)
        self._loss = self._loss or _Loss(where, what, explained)

    def finish(self, size: int = 0) -> None:
        """Nothing more comes. ``size``: how many entries there were, as far as is known: that tells what was lost."""
        if self._loss:
            missing = max(0, size - self.entries)
            self._end_loss(missing)
            if missing:
                self.tree.lose()
        self._confirm(None, "", False)
        self.meaning.finish()

    def check_body(self, entry: Entry, raw: RawEntry, where: str) -> bool:
        """Check salt and body of ``entry``, and follow what they say; whether they are at fault in something."""
        if raw.salt is None or raw.body is None:
            self.meaning.gone(entry.seq, entry.kind, entry.cause, where)
            return False
        commitment = commit_body(raw.salt, raw.body)
        if commitment != entry.commitment:
            self.findings.add(entry.seq, "commitment", where, entry.commitment.hex(), commitment.hex())
            return True
        try:
            body = decode_body(raw.body)
        except EntryError as error:
            self.findings.add(entry.seq, "body", where, "a canonical body", str(error))
            return True
        if not well_typed(entry.kind, body):
            wrong = "; ".join(KINDS[entry.kind].mistyped(body))
            self.findings.add(entry.seq, "body", where, "fields of their types", wrong)
        self.meaning.follow(entry.seq, entry.kind, body, where)
        return False

    def _clean(self, raw: RawEntry, where: str) -> bool:
        """Take in an entry with which nothing is wrong. False, and nothing done, when something is."""
        held, salt, packed = self._held, raw.salt, raw.body
        if held is None:
            return False
        body: dict[str, Any] | None = None
        try:
            _, seq, time_us, node, pid, count, kind, _, _, cause, commitment, previous = decode_fields(
                raw.leaf
            )
            if salt is not None and packed is not None:
                if sha256(salt + packed).digest() != commitment:
                    return False
                body = decode_body(packed)
                if not well_typed(kind, body):
                    return False
        except EntryError:
            return False
        time_before_us = self.counters.time_us
        if (
            previous != held.hash
            or seq != self.entries
            or node != self.origin
            or not self.counters.take(time_us, pid, count)
        ):
            return False
        hash_ = leaf_hash(raw.leaf)
        absent = self._observer is not None and self._observer.follow(seq, raw, hash_)
        self.tree.grow(previous)
        if self._heads is not None:
            self._heads.settle(held)
        if body is None or absent:
            self.meaning.gone(seq, kind, cause, where)
        if body is not None:
            self.meaning.follow(seq, kind, body, where)
        self._held = Unconfirmed(seq, hash_, where, False, False, time_before_us)
        self.entries = seq + 1
        return True

    def _clean_run(self, columns: Columns, where: Sequence[str]) -> bool:
        """Take in entries with which nothing is wrong. False, and nothing done, when something is."""
        held, seq = self._held, self.entries
        if held is None:
            return False
        watched = self.tree.watches_within(len(columns.leaves))
        run = None if watched else clean_run(columns, seq, self.origin, held.hash)
        time_before_us = run.times_us[-2] if run and len(run.times_us) > 1 else self.counters.time_us
        if run is None or not self.counters.take_all(run.times_us, run.pids, run.counts):
            return False
        absent = self._observer.follow_run(seq, run) if self._observer is not None else frozenset()
        self.tree.grow(held.hash)
        if self._heads is not None:
            self._heads.settle(held)
        self.tree.grow_unwatched(run.hashes[:-1])
        if absent or not FOLLOWED.isdisjoint(run.kinds):
            for number, (kind, body) in enumerate(zip(run.kinds, run.maps, strict=True)):
                if seq + number in absent:
                    self.meaning.gone(seq + number, kind, run.causes[number], where[number])
                self.meaning.follow(seq + number, kind, body, where[number])
        last = len(run.hashes) - 1
        self._held = Unconfirmed(seq + last, run.hashes[-1], where[last], False, False, time_before_us)
        self.entries = seq + last + 1
        return True

    def _doubtful(self, raw: RawEntry, where: str, suspect: bool) -> None:
        hash_ = leaf_hash(raw.leaf)
        try:
            entry = decode_entry(raw.leaf)
        except EntryError as error:
            self.findings.add(self.entries, "entry", where, "a canonical entry", str(error))
            if self._observer is not None:
                self._observer.follow(self.entries, raw, hash_)
            self.counters.unread()
            self._hold(hash_, where, suspect, at_fault=True, time_before_us=self.counters.time_us)
            return
        if self._loss:
            self._resume(entry)
        absent = self._observer is not None and self._observer.follow(self.entries, raw, hash_)
        at_fault = self._confirm(entry.previous, where, suspect)
        time_before_us = self.counters.time_us
        at_fault = self._check_fields(entry, where) or at_fault
        if absent and raw.body is not None:
            self.meaning.gone(entry.seq, entry.kind, entry.cause, where)
        at_fault = self.check_body(entry, raw, where) or at_fault
        self._hold(hash_, where, suspect, at_fault=at_fault, time_before_us=time_before_us)

    def _hold(self, hash_: bytes, where: str, suspect: bool, *, at_fault: bool, time_before_us: int) -> None:
        if self._held is not None:
            self._confirm(None, where, suspect)
        self._held = Unconfirmed(self.entries, hash_, where, suspect, at_fault, time_before_us)
        self.entries += 1

    def _resume(self, entry: Entry) -> None:
        """What was lost: no entry, one (the tree then goes on with its hash, which this entry holds), or several."""
        missing = max(0, entry.seq - self.entries)
        self._end_loss(missing)
        if missing == 0:
            return
        if missing == 1:
            self.tree.grow(entry.previous)  # a head over just these is compared when this entry is confirmed
        else:
            self.tree.lose()
            if self._heads is not None:
                self._heads.forget()
        self.entries = entry.seq
        self.counters.forget()

    def _end_loss(self, missing: int) -> None:
        """Report what could not be read."""
        assert self._loss is not None
        loss, self._loss = self._loss, None
        if missing > 1:
            lost = f"entries {self.entries} to {self.entries + missing - 1}"
            self.findings.add(self.entries, "lost", loss.where, lost, loss.what)
        elif missing == 1:
            self.findings.add(self.entries, "entry", loss.where, f"entry {self.entries}", loss.what)
        elif not loss.explained:
            self.findings.add(-1, "record", loss.where, "records of the ledger", loss.what)

    def _confirm(self, claimed: bytes | None, where: str, suspect: bool) -> bool:
        """Take the held entry into the tree, as ``claimed`` by what follows; whether that is at fault."""
        held, self._held = self._held, None
        if held is None:
            before, self._before = self._before, b""
            wrong = claimed is not None and before not in (b"", claimed)
            if wrong:
                self.findings.add(self.entries, "previous", where, before.hex(), (claimed or b"").hex())
            if self._heads is not None:
                self._heads.settle(None)
            return wrong
        follower_at_fault = False
        if claimed is not None and claimed != held.hash:
            touched_link = distance(claimed, held.hash) <= 1 or (suspect and not held.suspect)
            if touched_link:
                follower_at_fault = True
                self.findings.add(held.seq + 1, "previous", where, held.hash.hex(), claimed.hex())
            else:
                if not held.at_fault:
                    self.findings.add(held.seq, "hash", held.where, claimed.hex(), held.hash.hex())
                    self.counters.disbelieve(held.time_before_us)
                held.disbelieve(claimed)
        self.tree.grow(held.hash)
        if self._heads is not None:
            self._heads.settle(held)
        return follower_at_fault

    def _check_fields(self, entry: Entry, where: str) -> bool:
        fault: tuple[str, str, str] | None = None
        if entry.seq != self.entries:
            fault = ("seq", str(self.entries), str(entry.seq))
        elif entry.node != self.origin:
            fault = ("node", self.origin, entry.node)
        if fault:
            self.counters.unread()
        else:
            fault = self.counters.check(entry)
        if fault:
            self.findings.add(self.entries, fault[0], where, fault[1], fault[2])
        return fault is not None


def distance(a: bytes, b: bytes) -> int:
    """In how many bytes ``a`` and ``b`` differ."""
    return sum(x != y for x, y in zip(a, b, strict=True))
