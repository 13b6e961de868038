"""What an auditor knows of a ledger while its entries pass by. Pure: bytes in, findings out.

Theory of operation. Each entry is checked in itself (canonical form, commitment, body) and against what came
before (sequence, hash link, time, counter, cause). The hash of an entry is confirmed only by what *follows*
it: by ``previous`` of the next entry, or by the root in a head. So an entry is held back until the next one
has come, and when the two disagree, this decides whom to blame: when they differ in a single byte, the link
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
from reprlib import repr as brief
from typing import Any, Protocol

from chain.audit.clean_run import CleanRun, clean_run
from chain.audit.missing import Missing
from chain.entry.counters import Counters
from chain.entry.entry import ZERO_HASH, Entry, commit_body, decode_body, decode_entry, decode_fields
from chain.entry.record import Columns, RawEntry
from chain.errors import EntryError, RotationError
from chain.keys.rotation import KIND as ROTATED
from chain.keys.rotation import KeyHistory
from chain.merkle.merkle import CompactRange, leaf_hash

MOST_FINDINGS = 1_000
ERASE = "erase"
NEVER_ERASED = (ERASE, ROTATED)
OUTCOMES = ("tool.outcome", "tool.resolved")
BOOTED, ACCEPTED = "node.booted", "state.accepted"
CONFIGURED = ("configuration", "peers")  # digests in node.booted of what decides and is no state
MOST_KEPT = 1_000
_ID_CHARACTERS = 64

FOLLOWED = frozenset(
    ("tool.intent", *OUTCOMES, BOOTED, ACCEPTED, ERASE, ROTATED)
)  # kinds that say something together


class Beside(Protocol):
    """Hears of each entry, and tells whose bodies are missing elsewhere."""

    def follow(self, seq: int, raw: RawEntry, hash_: bytes) -> bool:
        """The entry ``seq`` and its leaf hash: whether its body is missing."""

    def follow_run(self, seq: int, run: CleanRun) -> Set[int]:
        """Entries from ``seq`` on, each with its body: those whose body is missing."""


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


class Held:
    """The last entry, whose hash nothing has confirmed yet."""

    __slots__ = ("blamed", "hash", "seq", "suspect", "time_before_us", "where")

    def __init__(
        self, seq: int, hash_: bytes, where: str, suspect: bool, blamed: bool, time_before_us: int
    ) -> None:
        self.seq = seq
        self.hash = hash_
        self.where = where
        self.suspect = suspect
        self.blamed = blamed
        self.time_before_us = time_before_us

    def disbelieve(self, claimed: bytes) -> None:
        """Those behind it say that its hash is another."""
        self.hash, self.blamed = claimed, True


@dataclass(frozen=True, slots=True)
class _Loss:
    """Something unreadable. ``explained``: the entry before it was blamed, so this may be no more than its end."""

    where: str
    what: str
    explained: bool


class Audit:
    """Feed it entries (:meth:`records`, :meth:`record`), then :meth:`finish`.

    ``keys``: the node's, from the first ones on; it follows their changes. ``watched``: tree sizes whose roots it is to
    note in ``roots``. ``beside`` hears of each entry.

    entries, tree: so far; begins: the first one of which more than the hash is known. boots, erased: how many.
    open_calls: seqs of intents without an outcome. accepted: entries by which a person took over state that no key had
    signed. configured: boots with another configuration or other rights of peers than the one before, and which. Of the
    findings the first ones are kept, ``found`` is how many there were.
    """

    def __init__(
        self,
        origin: str,
        keys: KeyHistory | None = None,
        watched: frozenset[int] = frozenset(),
        beside: Beside | None = None,
    ) -> None:
        self.origin = origin
        self.keys = keys
        self.findings: list[Finding] = []
        self.found = 0
        self.roots: dict[int, bytes] = {}
        self.entries = self.begins = 0
        self.boots = 0
        self.erased = 0
        self.open_calls: dict[tuple[str, str], int] = {}
        self.accepted: list[int] = []
        self.configured: list[tuple[int, str]] = []
        self._configured: dict[str, str] = {}
        self._intents: dict[int, tuple[str, str]] = {}
        self.tree = CompactRange()
        self.counters = Counters()
        self._watched = watched
        self._beside = beside
        self._held: Held | None = None
        self._loss: _Loss | None = None
        self._gaps = False
        self._before = ZERO_HASH
        self._missing = Missing()
        if 0 in watched:
            self.roots[0] = self.tree.root()

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
        self._watched |= sizes

    def begin_at(self, seq: int, tree: CompactRange, last_hash: bytes) -> None:
        """Take the first ``seq`` entries for audited: their tree, and the hash of the last one."""
        self.begins = self.entries = seq
        self.tree = tree
        self._before = last_hash
        self.counters.forget()
        if seq in self._watched:
            self.roots[seq] = tree.root()

    def root_now(self) -> bytes:
        """The root over all entries so far."""
        return self._with_held() or self.tree.root()

    @property
    def last_hash(self) -> bytes:
        """The leaf hash of the last entry; zero bytes before there is one."""
        return self._held.hash if self._held else self._before

    def gap(self, where: str, what: str) -> None:
        """Something could not be read; entries may be missing here."""
        self._begin_loss(where, what)

    def finish(self) -> None:
        """Nothing more comes."""
        if self._loss:
            self._end_loss(0)
        self._confirm(None, "", False)
        for first, last in self._missing.ranges():
            which = f"entries {first} to {last}" if last > first else f"entry {first}"
            self._add(
                first, "erased", which, "salt and body, or an entry that says who erased them", "nothing"
            )

    def check_body(self, entry: Entry, raw: RawEntry, where: str) -> bool:
        """Check salt and body of ``entry``, and follow what they say; whether they are to blame for something."""
        if raw.salt is None or raw.body is None:
            self._gone(entry.seq, entry.kind, entry.cause, where)
            return False
        commitment = commit_body(raw.salt, raw.body)
        if commitment != entry.commitment:
            self._add(entry.seq, "commitment", where, entry.commitment.hex(), commitment.hex())
            return True
        try:
            self._follow(entry.seq, entry.kind, decode_body(raw.body), where)
        except EntryError as error:
            self._add(entry.seq, "body", where, "a canonical body", str(error))
            return True
        return False

    def _add(self, seq: int, kind: str, where: str, expected: str, found: str) -> None:
        self.found += 1
        if self.found <= MOST_FINDINGS:
            self.findings.append(Finding(seq, kind, where, expected, found))

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
        absent = self._beside is not None and self._beside.follow(seq, raw, hash_)
        self._grow(previous)
        self._settle_head(held)
        if body is None or absent:
            self._gone(seq, kind, cause, where)
        if body is not None:
            self._follow(seq, kind, body, where)
        self._held = Held(seq, hash_, where, False, False, time_before_us)
        self.entries = seq + 1
        return True

    def _clean_run(self, columns: Columns, where: Sequence[str]) -> bool:
        """Take in entries with which nothing is wrong. False, and nothing done, when something is."""
        held, seq = self._held, self.entries
        if held is None:
            return False
        inside = range(self.tree.size + 2, self.tree.size + len(columns.leaves) + 1)
        run = clean_run(columns, seq, self.origin, held.hash) if self._watched.isdisjoint(inside) else None
        time_before_us = run.times_us[-2] if run and len(run.times_us) > 1 else self.counters.time_us
        if run is None or not self.counters.take_all(run.times_us, run.pids, run.counts):
            return False
        absent = self._beside.follow_run(seq, run) if self._beside is not None else frozenset()
        self._grow(held.hash)
        self._settle_head(held)
        self.tree.extend(run.hashes[:-1])
        if absent or not FOLLOWED.isdisjoint(run.kinds):
            for number, (kind, body) in enumerate(zip(run.kinds, run.maps, strict=True)):
                if seq + number in absent:
                    self._gone(seq + number, kind, run.causes[number], where[number])
                self._follow(seq + number, kind, body, where[number])
        last = len(run.hashes) - 1
        self._held = Held(seq + last, run.hashes[-1], where[last], False, False, time_before_us)
        self.entries = seq + last + 1
        return True

    def _doubtful(self, raw: RawEntry, where: str, suspect: bool) -> None:
        hash_ = leaf_hash(raw.leaf)
        try:
            entry = decode_entry(raw.leaf)
        except EntryError as error:
            self._add(self.entries, "entry", where, "a canonical entry", str(error))
            if self._beside is not None:
                self._beside.follow(self.entries, raw, hash_)
            self.counters.unread()
            self._hold(hash_, where, suspect, blamed=True, time_before_us=self.counters.time_us)
            return
        if self._loss:
            self._resume(entry)
        absent = self._beside is not None and self._beside.follow(self.entries, raw, hash_)
        blamed = self._confirm(entry.previous, where, suspect)
        time_before_us = self.counters.time_us
        blamed = self._check_fields(entry, where) or blamed
        if absent and raw.body is not None:
            self._gone(entry.seq, entry.kind, entry.cause, where)
        blamed = self.check_body(entry, raw, where) or blamed
        self._hold(hash_, where, suspect, blamed=blamed, time_before_us=time_before_us)

    def _hold(self, hash_: bytes, where: str, suspect: bool, *, blamed: bool, time_before_us: int) -> None:
        if self._held is not None:
            self._confirm(None, where, suspect)
        self._held = Held(self.entries, hash_, where, suspect, blamed, time_before_us)
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
            self._grow(entry.previous)  # a head over just these is compared when this entry is confirmed
        else:
            self._gaps = True
            self._forget_head()
        self.entries = entry.seq
        self.counters.forget()

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
            self._add(-1, "record", loss.where, "records of the ledger", loss.what)

    def _grow(self, hash_: bytes) -> None:
        self.tree.append(hash_)
        if self.tree.size in self._watched and not self._gaps:
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
            touched_link = distance(claimed, held.hash) <= 1 or (suspect and not held.suspect)
            if touched_link:
                blame_follower = True
                self._add(held.seq + 1, "previous", where, held.hash.hex(), claimed.hex())
            else:
                if not held.blamed:
                    self._add(held.seq, "hash", held.where, claimed.hex(), held.hash.hex())
                    self.counters.disbelieve(held.time_before_us)
                held.disbelieve(claimed)
        self._grow(held.hash)
        self._settle_head(held)
        return blame_follower

    def _settle_head(self, last: Held | None) -> None:
        """The entries up to ``last`` are in the tree: whoever has a head over them may compare it."""

    def _forget_head(self) -> None:
        """Nothing can be said of a head that waits for its entries."""

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
            self._add(self.entries, fault[0], where, fault[1], fault[2])
        return fault is not None

    def _gone(self, seq: int, kind: str, cause: int, where: str) -> None:
        """A body is not there: right only when a later entry says so, and never for those that say such things."""
        self.erased += 1
        if kind in OUTCOMES and cause in self._intents:  # what it was the outcome of, its leaf still tells
            self._settled(self._intents[cause])
        if kind in NEVER_ERASED:
            self._add(seq, "erased", where, f"the body of {kind}, which is never erased", "nothing")
        else:
            self._missing.add(seq)

    def _erasure(self, seq: int, where: str, ranges: Any) -> None:
        """An entry says that the bodies of ``ranges`` are gone."""
        for pair in ranges if type(ranges) is list else [None]:
            if type(pair) is list and [*map(type, pair)] == [int, int] and 0 <= pair[0] <= pair[1] < seq:
                self._missing.explain(pair[0], pair[1])
            else:
                self._add(seq, "body", where, "ranges of earlier entries", brief(pair))

    def _follow(self, seq: int, kind: str, body: dict[str, Any], where: str) -> None:
        """What the entries say together: boots, changes of keys, erasures, and calls that have no outcome yet."""
        if kind == "tool.intent":
            call = _call(body)
            self._settled(call)
            self.open_calls[call] = seq
            self._intents[seq] = call
        elif kind in OUTCOMES:
            self._settled(_call(body))
        elif kind == BOOTED:
            self.boots += 1
            self._booted(seq, body)
        elif kind == ACCEPTED and len(self.accepted) < MOST_KEPT:
            self.accepted.append(seq)
        elif kind == ERASE:
            self._erasure(seq, where, body.get("ranges"))
        elif kind == ROTATED and self.keys is not None:
            try:
                self.keys.rotated(seq, body)
            except RotationError as error:
                self._add(seq, "rotation", where, "a change of keys that all four keys signed", str(error))

    def _booted(self, seq: int, body: dict[str, Any]) -> None:
        """Whether the node was configured as at the boot before."""
        now = {name: str(body[name]) for name in CONFIGURED if name in body}
        before, self._configured = self._configured, now
        changed = [name for name in now if before and before.get(name) != now[name]]
        if changed and len(self.configured) < MOST_KEPT:
            self.configured.append((seq, ", ".join(changed)))

    def _settled(self, call: tuple[str, str]) -> None:
        """A call is not open, or not any more."""
        self._intents.pop(self.open_calls.pop(call, -1), None)

    def _with_held(self) -> bytes | None:
        if self._held is None:
            return None
        tree = self.tree.copy()
        tree.append(self._held.hash)
        return tree.root()


def _call(body: dict[str, Any]) -> tuple[str, str]:
    return f"{body.get('turn')!s:.{_ID_CHARACTERS}}", f"{body.get('ordinal')!s:.{_ID_CHARACTERS}}"


def distance(a: bytes, b: bytes) -> int:
    """In how many bytes ``a`` and ``b`` differ."""
    return sum(x != y for x, y in zip(a, b, strict=True))
