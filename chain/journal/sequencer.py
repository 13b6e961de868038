"""Gives records their place: sequence, time, counters, the hash link and the tree. Pure; the hot path of the
node.

A :class:`Batch` is one commit: it is written as a whole or not at all. Its tree nodes are those behind its
last entry, so that whoever forms a group of batches has the group's root without touching a leaf again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chain.entry.draft import PREVIOUS, Draft, StateChange
from chain.entry.entry import SALT_BYTES, ZERO_HASH, Entry, commit_body, encode_body, encode_entry
from chain.entry.kinds import KINDS
from chain.entry.record import encode_entry_record, encode_state_record
from chain.errors import BodyTooLarge, EntryError
from chain.merkle.merkle import CompactRange, leaf_hash

MAX_COMMIT_BYTES = 16 * 2**20
COUNTERS = 50_000


def stale_counters(counts: Mapping[int, int], in_use: Collection[int]) -> list[int]:
    """PIDs whose counters need not be held: not ``in_use``, and followed by :data:`COUNTERS` others. PIDs only rise."""
    if len(counts) <= COUNTERS:
        return []
    before = max(counts) - COUNTERS
    return [pid for pid in counts if 0 < pid <= before and pid not in in_use]


def counters_apart(entries: Mapping[int, int], held: Mapping[int, int]) -> set[int]:
    """PIDs whose counters in ``held`` are not those of the ``entries``. Stale ones may have been left out."""
    before = max(entries, default=0) - COUNTERS
    apart = {pid for pid, count in held.items() if entries.get(pid) != count}
    return apart | {pid for pid in entries.keys() - held.keys() if not 0 < pid <= before}


@dataclass(slots=True)
class Written:
    """An entry with everything that is kept of it. Treat as frozen; it is not, because making it is on the
    hot path.
    """

    entry: Entry
    leaf: bytes
    leaf_hash: bytes
    salt: bytes
    body: bytes


@dataclass(slots=True, eq=False)
class Batch:
    """One commit, encoded. ``size`` and ``nodes``: the tree behind it."""

    records: list[bytes]
    entries: list[Written]
    size: int
    nodes: list[bytes]
    bytes: int


@dataclass(slots=True)
class Sequencer:
    """Where the ledger stands. ``counts``: entries so far of each pid."""

    node: str
    tree: CompactRange = field(default_factory=CompactRange)
    last_hash: bytes = ZERO_HASH
    last_time_us: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    forgotten: int = 0

    def forget(self, in_use: Collection[int]) -> None:
        """Give up the counters of PIDs that are not ``in_use`` and long past (:func:`stale_counters`). Should one of
        them act once more, late, then pid 0, the kernel, does so in its place: no counter ever begins anew.
        """
        for pid in stale_counters(self.counts, in_use):
            del self.counts[pid]
            self.forgotten = max(self.forgotten, pid)

    def follow(self, entry: Entry, hash_: bytes) -> None:
        """Take over an entry that was read back."""
        self.tree.append(hash_)
        self.last_hash = hash_
        self.last_time_us = entry.time_us
        self.counts[entry.pid] = entry.count + 1

    def take(self, records: Sequence[Draft | StateChange], now_us: int, salts: bytes) -> Batch:
        """Encode ``records``; ``salts`` holds 32 random bytes for each. Either all of them get a place or,
        when one cannot be encoded (:class:`EntryError`, :class:`BodyTooLarge`), none.
        """
        seq = self.tree.size
        previous = self.last_hash
        time_us = now_us if now_us > self.last_time_us else self.last_time_us
        counts: dict[int, int] = {}
        encoded: list[bytes] = []
        entries: list[Written] = []
        at = 0
        for record in records:
            if type(record) is StateChange:
                encoded.append(encode_state_record(record.table, record.key, record.value))
                continue
            assert isinstance(record, Draft)
            pid = record.pid
            count = counts.get(pid)
            if count is None:
                count = self.counts.get(pid)
                if count is None and 0 < pid <= self.forgotten:
                    record = replace(record, pid=0)
                    pid, count = 0, counts.get(0)
                if count is None:
                    count = self.counts.get(pid, 0)
            salt = salts[at : at + SALT_BYTES]
            at += SALT_BYTES
            written = self._write(record, seq, time_us, count, previous, salt, at > SALT_BYTES)
            encoded.append(encode_entry_record(written.leaf, salt, written.body))
            entries.append(written)
            counts[pid] = count + 1
            previous = written.leaf_hash
            seq += 1
        size = sum(map(len, encoded))
        if size > MAX_COMMIT_BYTES:
            raise BodyTooLarge(size, MAX_COMMIT_BYTES)
        if entries:
            append = self.tree.append
            for written in entries:
                append(written.leaf_hash)
            self.last_hash = previous
            self.last_time_us = time_us
            self.counts.update(counts)
        return Batch(encoded, entries, seq, self.tree.nodes.copy(), size)

    def _write(
        self,
        draft: Draft,
        seq: int,
        time_us: int,
        count: int,
        previous: bytes,
        salt: bytes,
        has_previous: bool,
    ) -> Written:
        if draft.kind not in KINDS:
            raise EntryError(f"no ledger kind {draft.kind!r:.60}: kinds are listed in chain/entry/tables")
        cause = draft.cause
        if cause == PREVIOUS:
            if not has_previous:
                raise EntryError(
                    f"cause of {draft.kind} is PREVIOUS, but no entry stands before it in this commit"
                )
            cause = seq - 1
        body = encode_body(draft.body)
        entry = Entry(
            seq, time_us, self.node, draft.pid, count, draft.kind, draft.subject, draft.trace,
            cause, commit_body(salt, body), previous,
        )  # fmt: skip
        leaf = encode_entry(entry)
        return Written(entry, leaf, leaf_hash(leaf), salt, body)
