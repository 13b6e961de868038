"""The audit of a journal: frames with entries, and the heads that were signed over them."""

from __future__ import annotations

from collections.abc import Callable

from chain.audit.audit import Audit, Observer, Unconfirmed, distance
from chain.audit.clean_run import in_pieces
from chain.entry.record import (
    HeadRecord,
    RawEntry,
    RecordError,
    StateRecord,
    Unreadable,
    decode_columns,
    decode_payload,
    salvage_payload,
)
from chain.errors import ChainError
from chain.keys.rotation import KeyHistory
from chain.merkle.head import TreeHead, parse_head
from chain.notes.note import parse, verify

ROOTS_KEPT = 100_000
NOTES_KEPT = 1_000


class JournalAudit:
    """Feed ``audit`` entries that lie elsewhere, then frames (:meth:`frame`), then :meth:`finish`.

    ``deep``: check the signature of every head; else only ``notes`` are kept, the newest heads over more than
    ``full_size`` entries. ``older`` knows the roots of sizes below those of the first frame. The rest is as in
    :class:`chain.audit.audit.Audit`, whose :class:`chain.audit.audit.Heads` this is.

    closed: the last frame was that of a clean stop. newest_note, newest_full: the newest heads in the journal.
    """

    def __init__(
        self,
        origin: str,
        keys: KeyHistory | None = None,
        watched: frozenset[int] = frozenset(),
        observer: Observer | None = None,
        *,
        deep: bool = False,
        full_size: int = 0,
        older: Callable[[int], bytes | None] = lambda size: None,
    ) -> None:
        self.audit = Audit(origin, keys, watched, observer, self)
        self.closed = False
        self.newest_note = b""
        self.newest_full: HeadRecord | None = None
        self.notes: dict[int, bytes] = {}
        self._keys = keys
        self._deep = deep
        self._full_size = full_size
        self._older = older
        self._group_roots: dict[int, bytes] = {}
        self._head: tuple[TreeHead, str] | None = None

    def frame(self, where: str, payload: bytes, fault: str) -> None:
        """One frame. ``fault`` says what is wrong with its checksum or header; empty when nothing is."""
        audit = self.audit
        found, first = audit.findings.count, audit.entries
        self.closed = False
        note: bytes | None = None
        heads: list[HeadRecord] = []
        columns = None if fault else decode_columns(payload)
        if columns is not None:
            entries, others, note = columns
            for piece in in_pieces(entries):
                audit.records(piece, [where] * len(piece.leaves))
            heads = [record for record in others if isinstance(record, HeadRecord)]
        for record in self._salvage(payload, where, fault) if columns is None else ():
            if isinstance(record, RawEntry):
                audit.record(record, where, bool(fault))
            elif isinstance(record, HeadRecord):
                heads.append(record)
            elif isinstance(record, Unreadable):
                audit.gap(where, record.what)
            elif not isinstance(record, StateRecord):
                note = record
        self._group_head(note, where, first, fault)
        for head in heads:
            self._full_head(head, where)
        whole = audit.findings.count == found and not audit.loses and not self._last_is_doubtful()
        if fault and whole:
            last = audit.entries - 1
            right = f" (entries {first} to {last} in it are whole)" if last >= first else ""
            audit.findings.add(-1, "frame", where + right, "the bytes that were written", fault)

    def between(self, where: str, expected: str, found: str) -> None:
        """Something is wrong between the frames, and no entry can be missing there."""
        self.audit.findings.add(-1, "segment", where, expected, found)
        self.closed = False

    def gap(self, where: str, what: str) -> None:
        """As :meth:`chain.audit.audit.Audit.gap`."""
        self.audit.gap(where, what)
        self.closed = False

    def finish(self) -> None:
        """No more frames come. Whatever was lost last is counted by the newest head, if that can be read."""
        self.audit.finish(self._head[0].size if self._head else 0)

    def _salvage(
        self, payload: bytes, where: str, fault: str
    ) -> list[RawEntry | StateRecord | HeadRecord | Unreadable | bytes | None]:
        """The records one by one, and last the note."""
        if fault:
            return salvage_payload(payload)
        try:
            records, note = decode_payload(payload)
        except RecordError as error:
            self.audit.gap(where, str(error))
            return []
        return [*records, note]

    def _last_is_doubtful(self) -> bool:
        """Whether the head contradicts the held entry, so that one of the two will be at fault when it is
        settled.
        """
        if self._head is None or not self.audit.tree.whole or self.audit.loses:
            return False
        head, root = self._head[0], self.audit.root_with_last()
        return root is not None and head.size == self.audit.tree.size + 1 and root != head.root

    def settle(self, last: Unconfirmed | None) -> None:
        """Compare the head of the group that ended with ``last``."""
        tree = self.audit.tree
        if self._head is None or not tree.whole:
            self._head = None
            return
        (head, where), self._head = self._head, None
        root = tree.root()
        if head.size != tree.size:
            self.audit.findings.add(
                -1, "head", where, f"a head over {tree.size} entries", f"one over {head.size}"
            )
        elif head.root != root:
            if last is not None and not last.at_fault and distance(head.root, root) > 2:
                self.audit.findings.add(last.seq, "root", where, head.root.hex(), root.hex())
            elif distance(head.root, root) <= 2:
                self.audit.findings.add(-1, "head", where, root.hex(), head.root.hex())
            self._trust(head.root)
        else:
            self._trust(root)

    def forget(self) -> None:
        """Nothing can be said of the head that waits."""
        self._head = None

    def _trust(self, root: bytes) -> None:
        self._group_roots[self.audit.tree.size] = root
        if len(self._group_roots) > ROOTS_KEPT:
            del self._group_roots[next(iter(self._group_roots))]

    def _group_head(self, note: bytes | None, where: str, first: int, fault: str) -> None:
        if note is None:
            if self.audit.entries > first and not self.audit.loses:
                self.audit.findings.add(-1, "head", where, "a head over the group's entries", "none")
            return
        try:
            head = parse_head(parse(note).text)
            if self._keys is not None and (fault or self._deep):
                verify(note, [self._keys.at(head.size).ed25519])
        except ChainError as error:
            self.audit.findings.add(-1, "head", where, "a signed tree head", str(error))
            return
        self._head = (head, where)
        self.newest_note = note
        if head.size > self._full_size:
            self.notes[head.size] = note
            if len(self.notes) > NOTES_KEPT:
                del self.notes[next(iter(self.notes))]

    def _full_head(self, record: HeadRecord, where: str) -> None:
        try:
            head = parse_head(parse(record.note).text)
        except ChainError as error:
            self.audit.findings.add(-1, "head", where, "a signed tree head", str(error))
            return
        if self._deep and self._keys is not None:
            try:
                verify(record.note, self._keys.at(head.size).both)
            except ChainError as error:
                self.audit.findings.add(-1, "head", where, "a head signed with both keys", str(error))
        self.newest_full = record
        self.closed = record.closing
        root = self._root_at(head.size) or self._older(head.size)
        if not self.audit.tree.whole or self.audit.loses or root == head.root:
            return
        found = f"{head.size} entries with root {head.root.hex()}"
        self.audit.findings.add(
            -1, "head", where, f"root {root.hex()}" if root else "a head of this ledger", found
        )

    def _root_at(self, size: int) -> bytes | None:
        """The root that a head over ``size`` entries must have: as the head of its own group says, for the last group
        as it must be with the held entry."""
        if self._head is not None and size == self._head[0].size:
            return self._head[0].root
        last = size == self.audit.tree.size + 1
        return self.audit.root_with_last() if last else self._group_roots.get(size)
