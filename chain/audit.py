"""What an auditor knows of a journal while its records pass by. Pure: bytes in, findings out.

Theory of operation. Each entry is checked in itself (canonical form, commitment, body) and against what came
before (sequence, hash link, time, counter, cause). The hash of an entry is confirmed only by what *follows*
it: by ``previous`` of the next entry, or by the root in a head. So an entry is held back until the next one
has come, and when the two disagree, this decides whom to blame: when they differ in a single byte, the link
was touched; otherwise the entry was, for a changed leaf has another hash altogether. The tree goes on with
the hash that the rest of the ledger vouches for, so that one change makes one finding, and not one in each
head behind it. What a touched entry said of its process and of the time counts for nothing (see
``chain.counters``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chain.counters import Counters
from chain.entry import ZERO_HASH, Entry, commit_body, decode_body, decode_entry
from chain.errors import ChainError, EntryError, RotationError
from chain.head import TreeHead, parse_head
from chain.merkle import CompactRange, leaf_hash
from chain.note import VerifierKey, parse, verify
from chain.record import (
    HeadRecord,
    RawEntry,
    RecordError,
    StateRecord,
    Unreadable,
    decode_payload,
    salvage_payload,
)
from chain.rotation import KIND as ROTATED
from chain.rotation import KeyHistory

ROOTS_KEPT = 100_000
NOTES_KEPT = 1_000
ERASE = "erase"
NEVER_ERASED = (ERASE, ROTATED)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be. ``seq``: the entry concerned, -1 when it is none or cannot be
    told.
    """

    seq: int
    kind: str
    where: str
    expected: str
    found: str


@dataclass(slots=True)
class _Held:
    """The last entry, whose hash nothing has confirmed yet."""

    seq: int
    hash: bytes
    where: str
    suspect: bool
    blamed: bool
    time_before_us: int


@dataclass(frozen=True, slots=True)
class _Loss:
    """Something unreadable. ``explained``: the entry before it was blamed, so this may be no more than its end."""

    where: str
    what: str
    explained: bool


@dataclass(slots=True)
class Audit:
    """Feed it entries (:meth:`record`) or frames, then :meth:`finish`. ``keys``: the node's, from the first ones on;
    it follows their changes. ``watched``: tree sizes whose roots it is to note in ``roots``. ``beside`` hears of each
    entry: its seq and the record. ``deep``: check the signature of every head; else only ``notes`` are kept of the
    heads over more than ``full_size`` entries. ``older`` knows the roots of sizes below those of the first frame.
    """

    origin: str
    keys: KeyHistory | None = None
    watched: frozenset[int] = frozenset()
    beside: Callable[[int, RawEntry], None] | None = None
    deep: bool = False
    full_size: int = 0
    older: Callable[[int], bytes | None] | None = None
    findings: list[Finding] = field(default_factory=list)
    roots: dict[int, bytes] = field(default_factory=dict)
    entries: int = 0
    boots: int = 0
    closed: bool = False
    newest_note: bytes = b""
    newest_full: HeadRecord | None = None
    open_calls: dict[tuple[str, str], int] = field(default_factory=dict)
    notes: dict[int, bytes] = field(default_factory=dict)
    erased: int = 0
    tree: CompactRange = field(default_factory=CompactRange)
    _group_roots: dict[int, bytes] = field(default_factory=dict)
    _held: _Held | None = None
    _counters: Counters = field(default_factory=Counters)
    _loss: _Loss | None = None
    _gaps: bool = False
    _head: tuple[TreeHead, str] | None = None
    _before: bytes = ZERO_HASH
    _missing: list[list[int]] = field(default_factory=list)

    def record(self, raw: RawEntry, where: str) -> None:
        """One entry that stands in no frame."""
        self._entry(raw, where, False)

    def begin_at(self, seq: int, tree: CompactRange, last_hash: bytes) -> None:
        """Take the first ``seq`` entries for audited: their tree, and the hash of the last one."""
        self.entries, self.tree = seq, tree
        self._before = last_hash
        self._counters.forget()

    @property
    def counts(self) -> dict[int, int]:
        """The next number of each process."""
        return self._counters.next

    @property
    def time_us(self) -> int:
        """The time of the last entry."""
        return self._counters.time_us

    def root_now(self) -> bytes:
        """The root over all entries so far."""
        return self._with_held() or self.tree.root()

    def frame(self, where: str, payload: bytes, fault: str) -> None:
        """One frame. ``fault`` says what is wrong with its checksum or header; empty when nothing is."""
        before = len(self.findings)
        first = self.entries
        self.closed = False
        note: bytes | None = None
        heads: list[HeadRecord] = []
        for record in salvage_payload(payload) if fault else self._decode(payload, where):
            if isinstance(record, RawEntry):
                self._entry(record, where, bool(fault))
            elif isinstance(record, HeadRecord):
                heads.append(record)
            elif isinstance(record, Unreadable):
                self._begin_loss(where, record.what)
            elif not isinstance(record, StateRecord):
                note = record
        self._group_head(note, where, first, fault)
        for head in heads:
            self._full_head(head, where)
        if fault and len(self.findings) == before and not self._loss and not self._last_is_doubtful():
            whole = (
                f" (entries {first} to {self.entries - 1} in it are whole)" if self.entries > first else ""
            )
            self._add(-1, "frame", where + whole, "the bytes that were written", fault)

    def _decode(self, payload: bytes, where: str) -> list[RawEntry | StateRecord | HeadRecord | bytes | None]:
        try:
            records, note = decode_payload(payload)
        except RecordError as error:
            self._begin_loss(where, str(error))
            return []
        return [*records, note]

    def _last_is_doubtful(self) -> bool:
        """Whether the head contradicts the held entry, so that one of the two will be blamed when it is
        settled.
        """
        if self._held is None or self._head is None or self._gaps or self._loss:
            return False
        head = self._head[0]
        return head.size == self.tree.size + 1 and self._with_held() != head.root

    def gap(self, where: str, expected: str, found: str, lost: bool) -> None:
        """Something is wrong between the frames. ``lost``: entries may be missing here."""
        if lost:
            self._begin_loss(where, found)
        else:
            self._add(-1, "segment", where, expected, found)
        self.closed = False

    def finish(self) -> None:
        """No more frames come. Whatever was lost last is counted by the newest head, if that can be read."""
        if self._loss:
            size = self._head[0].size if self._head else self.entries
            self._end_loss(max(0, size - self.entries))
            self._gaps = self._gaps or size > self.entries
        self._confirm(None, "", False)
        for first, last in self._missing:
            which = f"entries {first} to {last}" if last > first else f"entry {first}"
            self._add(
                first, "erased", which, "salt and body, or an entry that says who erased them", "nothing"
            )

    def _add(self, seq: int, kind: str, where: str, expected: str, found: str) -> None:
        self.findings.append(Finding(seq, kind, where, expected, found))

    def _entry(self, raw: RawEntry, where: str, suspect: bool) -> None:
        try:
            entry = decode_entry(raw.leaf)
        except EntryError as error:
            self._add(self.entries, "entry", where, "a canonical entry", str(error))
            if self.beside is not None:
                self.beside(self.entries, raw)
            self._counters.unread()
            self._hold(raw.leaf, where, suspect, blamed=True, time_before_us=self._counters.time_us)
            return
        if self._loss:
            self._resume(entry)
        if self.beside is not None:
            self.beside(self.entries, raw)
        blamed = self._confirm(entry.previous, where, suspect)
        time_before_us = self._counters.time_us
        blamed = self._check_fields(entry, where) or blamed
        blamed = self.check_body(entry, raw, where) or blamed
        self._hold(raw.leaf, where, suspect, blamed=blamed, time_before_us=time_before_us)

    def _hold(self, leaf: bytes, where: str, suspect: bool, *, blamed: bool, time_before_us: int) -> None:
        if self._held is not None:
            self._confirm(None, where, suspect)
        self._held = _Held(self.entries, leaf_hash(leaf), where, suspect, blamed, time_before_us)
        self.entries += 1

    def _begin_loss(self, where: str, what: str) -> None:
        """Nothing will confirm the held entry any more; what is lost, the next readable entry will tell."""
        explained = self._held is not None and self._held.blamed
        self._confirm(None, "", False)
        self._loss = self._loss or _Loss(where, what, explained)

    def _resume(self, entry: Entry) -> None:
        """What was lost: no entry, one (the tree then goes on with its hash, which this entry holds), or several."""
        missing = max(0, entry.seq - self.entries)
        self._end_loss(missing)
        if missing == 0:
            return
        if missing == 1:
            self._grow(entry.previous)
            self._settle_head(None)
        else:
            self._gaps = True
            self._head = None
        self.entries = entry.seq
        self._counters.forget()

    def _end_loss(self, missing: int) -> None:
        """Report what could not be read."""
        assert self._loss is not None
        loss, self._loss = self._loss, None
        if missing > 1:
            lost = f"entries {self.entries} to {self.entries + missing - 1}"
            self._add(self.entries, "lost", loss.where, lost, loss.what)
        elif missing == 1:
            self._add(self.entries, "entry", loss.where, f"entry {self.entries}", loss.what)
        elif not loss.explained:
            self._add(-1, "record", loss.where, "a record of the journal", loss.what)

    def _grow(self, hash_: bytes) -> None:
        self.tree.append(hash_)
        if self.tree.size in self.watched and not self._gaps:
            self.roots[self.tree.size] = self.tree.root()

    def _confirm(self, claimed: bytes | None, where: str, suspect: bool) -> bool:
        """Take the held entry into the tree, as ``claimed`` by what follows; whether the follower is to
        blame.
        """
        held, self._held = self._held, None
        if held is None:
            before, self._before = self._before, b""
            wrong = claimed is not None and before not in (b"", claimed)
            if wrong:
                self._add(self.entries, "previous", where, before.hex(), (claimed or b"").hex())
            self._settle_head(None)
            return wrong
        blame_follower = False
        if claimed is not None and claimed != held.hash:
            touched_link = _distance(claimed, held.hash) <= 1 or (suspect and not held.suspect)
            if touched_link:
                blame_follower = True
                self._add(held.seq + 1, "previous", where, held.hash.hex(), claimed.hex())
            else:
                if not held.blamed:
                    self._add(held.seq, "hash", held.where, claimed.hex(), held.hash.hex())
                    self._counters.disbelieve(held.time_before_us)
                held.hash, held.blamed = claimed, True
        self._grow(held.hash)
        self._settle_head(held)
        return blame_follower

    def _settle_head(self, last: _Held | None) -> None:
        """Compare the head of the group that ended with ``last``."""
        pending, self._head = self._head, None
        if pending is None or self._gaps:
            return
        head, where = pending
        root = self.tree.root()
        if head.size != self.tree.size:
            self._add(-1, "head", where, f"a head over {self.tree.size} entries", f"one over {head.size}")
        elif head.root != root:
            if last is not None and not last.blamed and _distance(head.root, root) > 2:
                self._add(last.seq, "root", where, head.root.hex(), root.hex())
            elif _distance(head.root, root) <= 2:
                self._add(-1, "head", where, root.hex(), head.root.hex())
            self._trust(head.root)
        else:
            self._trust(root)

    def _trust(self, root: bytes) -> None:
        self._group_roots[self.tree.size] = root
        if len(self._group_roots) > ROOTS_KEPT:
            del self._group_roots[next(iter(self._group_roots))]

    def _check_fields(self, entry: Entry, where: str) -> bool:
        fault: tuple[str, str, str] | None = None
        if entry.seq != self.entries:
            fault = ("seq", str(self.entries), str(entry.seq))
        elif entry.node != self.origin:
            fault = ("node", self.origin, entry.node)
        if fault:
            self._counters.unread()
        else:
            fault = self._counters.check(entry)
        if fault:
            self._add(self.entries, fault[0], where, fault[1], fault[2])
        return fault is not None

    def check_body(self, entry: Entry, raw: RawEntry, where: str) -> bool:
        """Salt and body of ``entry``, and what it says for the ledger; whether something was wrong."""
        if raw.salt is None or raw.body is None:
            self._gone(entry, where)
            return False
        commitment = commit_body(raw.salt, raw.body)
        if commitment != entry.commitment:
            self._add(entry.seq, "commitment", where, entry.commitment.hex(), commitment.hex())
            return True
        try:
            self._follow(entry, decode_body(raw.body), where)
        except EntryError as error:
            self._add(entry.seq, "body", where, "a canonical body", str(error))
            return True
        return False

    def _gone(self, entry: Entry, where: str) -> None:
        """A body is not there: right only when a later entry says so, and never for those that say such things."""
        self.erased += 1
        if entry.kind in NEVER_ERASED:
            self._add(
                entry.seq, "erased", where, f"the body of {entry.kind}, which is never erased", "nothing"
            )
        elif self._missing and self._missing[-1][1] == entry.seq - 1:
            self._missing[-1][1] = entry.seq
        else:
            self._missing.append([entry.seq, entry.seq])

    def _erasure(self, seq: int, where: str, ranges: Any) -> None:
        """An entry says that the bodies of ``ranges`` are gone."""
        left = self._missing
        for pair in ranges if type(ranges) is list else [None]:
            match pair:
                case [int() as first, int() as last] if 0 <= first <= last < seq:
                    left = [piece for gone in left for piece in _without(gone, first, last)]
                case _:
                    self._add(seq, "body", where, "ranges of earlier entries", f"{pair!r:.80}")
        self._missing = left

    def _follow(self, entry: Entry, body: dict[str, Any], where: str) -> None:
        """What the entries say together: boots, changes of keys, erasures, and calls that have no outcome yet."""
        if entry.kind == ERASE:
            self._erasure(entry.seq, where, body.get("ranges"))
        elif entry.kind == ROTATED and self.keys is not None:
            try:
                self.keys.rotated(entry.seq, body)
            except RotationError as error:
                self._add(
                    entry.seq, "rotation", where, "a change of keys that all four keys signed", str(error)
                )
        if entry.kind == "node.booted":
            self.boots += 1
        elif entry.kind == "tool.intent":
            self.open_calls[str(body.get("turn")), str(body.get("ordinal"))] = entry.seq
        elif entry.kind in ("tool.outcome", "tool.resolved"):
            self.open_calls.pop((str(body.get("turn")), str(body.get("ordinal"))), None)

    def _group_head(self, note: bytes | None, where: str, first: int, fault: str) -> None:
        if note is None:
            if self.entries > first and not self._loss:
                self._add(-1, "head", where, "a head over the group's entries", "none")
            return
        try:
            signed = parse(note)
            if self.keys is not None and (fault or self.deep):
                verify(note, [self._ed25519(parse_head(signed.text).size)])
            self._head = (parse_head(signed.text), where)
        except ChainError as error:
            self._add(-1, "head", where, "a signed tree head", str(error))
            return
        self.newest_note = note
        size = self._head[0].size
        if size > self.full_size:
            self.notes[size] = note
            if len(self.notes) > NOTES_KEPT:
                del self.notes[next(iter(self.notes))]

    def _ed25519(self, size: int) -> VerifierKey:
        assert self.keys is not None
        return self.keys.at(max(size, 0)).ed25519

    def _full_head(self, record: HeadRecord, where: str) -> None:
        try:
            head = parse_head(parse(record.note).text)
        except ChainError as error:
            self._add(-1, "head", where, "a signed tree head", str(error))
            return
        if self.deep and self.keys is not None:
            try:
                verify(record.note, self.keys.at(head.size).both)
            except ChainError as error:
                self._add(-1, "head", where, "a head signed with both keys", str(error))
        self.newest_full = record
        self.closed = record.closing
        root = self._root_at(head.size)
        if root is None and self.older is not None:
            root = self.older(head.size)
        if self._gaps or self._loss or root == head.root:
            return
        found = f"{head.size} entries with root {head.root.hex()}"
        self._add(-1, "head", where, f"root {root.hex()}" if root else "a head of this ledger", found)

    def _root_at(self, size: int) -> bytes | None:
        """The root that a head over ``size`` entries must have: as the head of its own group says, for the last group
        as it must be with the held entry."""
        if self._head is not None and size == self._head[0].size:
            return self._head[0].root
        return self._with_held() if size == self.tree.size + 1 else self._group_roots.get(size)

    def _with_held(self) -> bytes | None:
        if self._held is None:
            return None
        tree = self.tree.copy()
        tree.append(self._held.hash)
        return tree.root()


def _without(gone: list[int], first: int, last: int) -> list[list[int]]:
    """What is left of the range ``gone`` without ``first`` to ``last``."""
    left = [[gone[0], min(gone[1], first - 1)], [max(gone[0], last + 1), gone[1]]]
    return [piece for piece in left if piece[0] <= piece[1]]


def _distance(a: bytes, b: bytes) -> int:
    """In how many bytes ``a`` and ``b`` differ."""
    return sum(x != y for x, y in zip(a, b, strict=True))
