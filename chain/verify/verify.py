"""Verifies a data directory without any daemon: every byte of every ledger file, on a stopped or a running node.

The audit goes once over all entries: published ones up to where the journal begins, then the journal's. Beside it the
published files are compared, and at the end every head, key and snapshot is held against what the entries came to.
Heads are read before the journal, so that beside a running writer the journal holds at least what they cover. When a
new snapshot has come meanwhile, the audit goes on with what has been published for it, until the journal that is then
open is the one behind the newest snapshot: what a node drops from there on, it can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chain.audit.audit import Audit
from chain.audit.claims import Claim, Claims
from chain.audit.journal_audit import JournalAudit
from chain.audit.published_check import PublishedCheck
from chain.audit.report import Progress, Report
from chain.disk import Disk
from chain.entry.reader import segment_names
from chain.entry.scan import Fault, Scan, Scanned
from chain.entry.segments import Segments
from chain.errors import ChainError
from chain.journal.sequencer import counters_apart
from chain.keys.key_change import public_file
from chain.keys.keys import MAX_VKEYS_BYTES, VKEYS_FILE
from chain.keys.rotation import KeyHistory, vkeys_text
from chain.merkle.head import TreeHead, parse_head
from chain.notes.note import VerifierKey, parse
from chain.notes.note import verify as verify_note
from chain.notes.slots import SLOT_NAMES, HeadSlots
from chain.state.binding import Unbound, find_unbound, unbound
from chain.state.recovery import start_of
from chain.state.snapshot import (
    SNAPSHOT_FILE,
    SignedSnapshot,
    Snapshot,
    is_note,
    read_signed,
    snapshot_digest,
)
from chain.tiles.tile_paths import CHECKPOINT, VKEYS
from chain.tiles.tile_store import TileStore
from chain.verify.verify_tiles import audit_entries, audit_published, read_published

__all__ = ["ATTEMPTS", "Report", "mark", "verify"]

ATTEMPTS = 5
"""How often what a running node changed meanwhile is read again."""
_LEFTOVERS = ("next.new", "note.new")
_MARK_BYTES = 64 * 1024


def verify(
    data_dir: Path,
    keys: Sequence[str] = (),
    progress: Progress | None = None,
    disk: Disk | None = None,
    *,
    seen: Sequence[bytes] = (),
    start: int = 0,
    deep: bool = False,
) -> Report:
    """Verify the ledger in ``data_dir`` under ``keys`` (verifier keys as text), or else under its own.

    ``seen``: notes from elsewhere, which the ledger must continue. ``start``: the audit of published entries begins
    there; what is before is bound by the roots alone. ``deep``: check the signature of every head. ``progress(done,
    total)`` is called with bytes. Raises VerifierKeyError for a malformed key among ``keys``, OSError for a file that
    cannot be read; everything else is a finding.
    """
    pinned = [VerifierKey.parse(key) for key in keys]
    disk = disk or Disk()
    for left in reversed(range(ATTEMPTS)):
        before = mark(data_dir, disk)
        try:
            report = _Verification(data_dir, pinned, disk, seen, start, deep).run(progress)
        except FileNotFoundError:  # a running node has dropped a segment that a new snapshot covers
            if not left:
                raise
        else:
            if not report.findings or not left or mark(data_dir, disk) == before:
                break
    return report


def mark(data_dir: Path, disk: Disk) -> list[bytes]:
    """What a running node changes that is read once: when it is another later, findings may be the node's doing."""
    marks = []
    for name in (
        f"snapshot/{SNAPSHOT_FILE}",
        f"ledger/{CHECKPOINT}",
        f"ledger/{VKEYS}",
        f"keys/{VKEYS_FILE}",
    ):
        try:
            marks.append(disk.read_at(data_dir / name, 0, _MARK_BYTES))
        except OSError:
            marks.append(b"")
    return marks


class _Verification:
    def __init__(
        self,
        data_dir: Path,
        pinned: list[VerifierKey],
        disk: Disk,
        seen: Sequence[bytes],
        start: int,
        deep: bool,
    ) -> None:
        self._data_dir = data_dir
        self._disk = disk
        self._seen = seen
        self._start = start
        self._deep = deep
        self._claims = Claims(pinned)
        self._torn_bytes = 0
        self._last_segment = self._ended_in = ""
        self._signed: SignedSnapshot | None = None
        self._last: Scanned | None = None
        self._bound = False
        self._begins = 0  # the first entry that is in the journal
        self._slots_size = 0

    def run(self, progress: Progress | None) -> Report:
        claims = self._claims
        self._read_keys()
        full = self._read_slots()
        store = read_published(self._data_dir / "ledger", self._disk, claims, "ledger/")
        claims.settle_keys()
        for number, note in enumerate(self._seen):
            claims.head(f"the head seen elsewhere{f' ({number + 1})' if number else ''}", note, foreign=True)
        directory = self._data_dir / "snapshot"  # a crash may leave the note of one that is no more
        self._unexpected(directory, (SNAPSHOT_FILE, *filter(is_note, self._disk.names(directory))))
        origin = claims.history.origin if claims.history else self._claimed_origin()
        check = PublishedCheck(self._data_dir / "ledger", self._disk, store) if store else None
        full_size = self._slots_size = max((head.size for head in full), default=0)
        journal = JournalAudit(
            origin,
            claims.history,
            claims.watched(),
            check,
            deep=self._deep,
            full_size=full_size,
            older=lambda size: check.root(size) if check and self._begins else None,
        )
        audit = journal.audit
        snapshot, segments = self._reach_journal(audit, check, progress or (lambda done, total: None))
        with segments:
            if snapshot is not None:
                self._check_snapshot(snapshot, audit)
            if snapshot is not None or self._begins == 0:
                self._audit_journal(journal, snapshot, segments, progress)
        journal.finish()
        self._check_state(claims.history, snapshot)
        size = self._check_newest(journal)
        claims.judge(audit)
        logged = self._check_logged_head(journal)
        closed = journal.closed and self._ended_in == self._last_segment
        published = check.size if check else 0
        if closed and published < audit.entries:
            expected = f"all {audit.entries} entries: the node had stopped cleanly"
            claims.add("published", "ledger/checkpoint", expected, str(published), published)
        if check is not None:
            check.finish()
        heads = [claim for claim in (claims.newest(), logged) if claim is not None]
        newest = max(heads, key=lambda claim: claim.head.size, default=None)
        checkpoints = [claim for claim in claims.heads if claim.where == "ledger/checkpoint"]
        full_size = max(full_size, logged.head.size if logged else 0)
        return Report(
            origin=origin,
            entries=audit.entries,
            size=size,
            root=audit.tree.root(),
            full_size=full_size,
            provisional=max(0, audit.entries - full_size),
            torn_bytes=self._torn_bytes,
            boots=audit.meaning.boots,
            closed=closed,
            pinned=bool(claims.pinned),
            begins=audit.begins,
            published=published,
            slots=self._slots_size,
            rotations=claims.history.rotations if claims.history else 0,
            erased=audit.meaning.erased,
            note=newest.note if newest else b"",
            published_note=max(checkpoints, key=lambda claim: claim.head.size).note if checkpoints else b"",
            vkeys=vkeys_text(claims.history.pairs) if claims.history else b"",
            bound=self._bound,
            snapshot=self._signed is not None,
            accepted=audit.meaning.accepted,
            configured=audit.meaning.configured,
            open_calls=sorted(audit.meaning.open_calls.values()),
            findings=[*claims.findings.kept, *audit.findings.kept, *(check.findings if check else [])],
            left_out=audit.findings.left_out + claims.findings.left_out,
        )

    def _read_keys(self) -> None:
        where = public_file(self._data_dir, self._disk)
        try:
            text: bytes | None = self._disk.read_at(self._data_dir / where, 0, MAX_VKEYS_BYTES + 1)
        except FileNotFoundError:
            text = None
            self._claims.add("keys", where, "the node's verifier keys", "no such file")
        self._claims.keys(where, text)

    def _read_slots(self) -> list[TreeHead]:
        self._unexpected(self._data_dir / "heads", SLOT_NAMES)
        notes = HeadSlots(self._data_dir / "heads", self._disk).notes()
        heads = [self._claims.head(f"heads/{name}", note) for name, note in notes.items()]
        return [head for head in heads if head is not None]

    def _reach_journal(
        self, audit: Audit, check: PublishedCheck | None, progress: Progress
    ) -> tuple[Snapshot | None, Segments]:
        """Audit the entries before those of the journal, and open that: the snapshot read last, and the segments behind
        it, which were all there while it was.
        """
        passed = -1
        while True:
            before = snapshot_digest(self._data_dir / "snapshot", self._disk)
            snapshot, self._begins = self._read_snapshot(check.store if check else None)
            if check is not None and self._begins > check.size:
                self._read_checkpoint(check, audit)
            passed = self._audit_published(audit, check, passed, self._begins, progress)
            group = snapshot.group if snapshot else 0
            try:
                segments = Segments(self._data_dir / "journal", self._disk, group)
            except FileNotFoundError:
                if snapshot_digest(self._data_dir / "snapshot", self._disk) == before:
                    raise
                continue
            if snapshot_digest(self._data_dir / "snapshot", self._disk) == before:
                return snapshot, segments
            segments.close()

    def _read_checkpoint(self, check: PublishedCheck, audit: Audit) -> None:
        """What a running node has published by now for a snapshot that it has made meanwhile."""
        where = "ledger/checkpoint"
        try:
            note = check.store.checkpoint() or b""
        except ChainError as error:
            self._claims.add("head", where, "a head signed with both keys", str(error))
            return
        if any((claim.where, claim.note) == (where, note) for claim in self._claims.heads):
            return
        head = self._claims.head(where, note)
        if head is not None and head.size < check.size:
            expected = f"a head over {check.size} entries or more, as before"
            self._claims.add("head", where, expected, f"one over {head.size}")
        elif head is not None:
            check.store.head = head
            check.extend()
            audit.watch(self._claims.watched())

    def _read_snapshot(self, store: TileStore | None) -> tuple[Snapshot | None, int]:
        """The snapshot, and the first entry that is in the journal (all of them published, when it is unreadable)."""
        try:
            self._signed = read_signed(self._data_dir / "snapshot", self._disk)
        except ChainError as error:
            self._claims.add(
                "snapshot", f"snapshot/{SNAPSHOT_FILE}", "the snapshot that was written", str(error)
            )
            return None, max(1, store.size if store else 1)
        snapshot = self._signed.snapshot if self._signed else None
        return snapshot, snapshot.seq if snapshot else 0

    def _claimed_origin(self) -> str:
        """Without any key: what the heads say, so that the journal can at least be held against itself."""
        return next((claim.head.origin for claim in self._claims.heads), "")

    def _unexpected(self, directory: Path, wanted: Sequence[str]) -> None:
        for name in self._disk.names(directory):
            if name not in wanted and name not in _LEFTOVERS:
                where = f"{directory.name}/{name}"
                self._claims.add("file", where, "no such file", "a file the node does not write")

    def _audit_published(
        self, audit: Audit, check: PublishedCheck | None, passed: int, end: int, progress: Progress
    ) -> int:
        """The entries before those of the journal, of which those before ``passed`` are audited (-1: none yet); up to
        where they are now.
        """
        held = min(end, check.size) if check else 0
        if check is not None and passed < 0:
            audit_published(audit, check, self._claims, self._start, held, progress)
        elif check is not None and passed < held:
            audit_entries(audit, check, passed, held, progress)
        if held < end:
            audit.gap("ledger/", f"{held} entries are published, {end} must be: the journal begins there")
        return max(held, passed)

    def _check_snapshot(self, snapshot: Snapshot, audit: Audit) -> None:
        where = f"snapshot/{SNAPSHOT_FILE}"
        if audit.entries != snapshot.seq:
            return
        root = audit.root_now()
        found = {
            "origin": (audit.origin, snapshot.origin),
            "root": (root.hex(), snapshot.tree().root().hex()),
            "last_hash": (audit.last_hash.hex(), snapshot.last_hash.hex()),
        }
        if audit.counters.whole:
            found["time"] = (str(audit.counters.time_us), str(snapshot.time_us))
            if apart := counters_apart(audit.counters.next, snapshot.counts):
                found["counts"] = ("those of the entries", f"others for pid {min(apart)}")
            if self._claims.history:
                found["rotations"] = (str(self._claims.history.rotations), str(snapshot.rotations))
        for name, (expected, said) in found.items():
            if expected != said:
                self._claims.add("snapshot", where, f"{name}: {expected}", said, snapshot.seq - 1)
        if snapshot.note:
            self._check_snapshot_note(snapshot, root)

    def _check_snapshot_note(self, snapshot: Snapshot, root: bytes) -> None:
        where = f"the head in snapshot/{SNAPSHOT_FILE}"
        try:
            head = parse_head(parse(snapshot.note).text)
            if self._claims.history:
                verify_note(snapshot.note, [self._claims.history.at(head.size).ed25519])
        except (ChainError, ValueError) as error:
            self._claims.add("head", where, "a head signed with the node's Ed25519 key", str(error))
            return
        if head.size > snapshot.seq or (head.size == snapshot.seq and head.root != root):
            expected = f"a head over {snapshot.seq} entries with root {root.hex()}"
            self._claims.add("head", where, expected, f"{head.size} with {head.root.hex()}")

    def _check_state(self, history: KeyHistory | None, snapshot: Snapshot | None) -> None:
        """The signatures under the snapshot and the journal's last frame, which bind all that is no entry too."""
        if history is None:
            return

        def first() -> Unbound | None:
            begin = KeyHistory(history.pairs[0], history.pairs[1:][: snapshot.rotations] if snapshot else ())
            return find_unbound(self._data_dir / "journal", self._disk, start_of(snapshot), begin)

        last = self._last if self._last is not None and not self._last.fault else None
        faults = unbound(self._signed, last, [history.current], history.origin, first, history.pairs)
        for fault in faults:
            self._claims.add("state", fault.where, "what the node has signed", fault.what)
        self._bound = not faults

    def _audit_journal(
        self, journal: JournalAudit, snapshot: Snapshot | None, segments: Segments, progress: Progress | None
    ) -> None:
        directory = self._data_dir / "journal"
        self._last_segment = segments.all_names[-1] if segments.all_names else ""
        self._unexpected(directory, segment_names(directory, self._disk))
        scan = Scan(segments, journal.audit.origin, lambda: journal.closed, progress)
        if snapshot is not None:
            scan.begin_at(snapshot.group, snapshot.checksum)
        for step in scan.frames():
            where = f"journal/{step.file}, byte {step.offset}"
            if isinstance(step, Scanned):
                journal.frame(where, step.payload, step.fault)
                self._last = replace(step, payload=b"")
                self._ended_in = step.file
            elif isinstance(step, Fault):
                if step.lost:
                    journal.gap(where, step.found)
                else:
                    journal.between(where, step.expected, step.found)
            else:
                self._torn_bytes = step.bytes

    def _check_newest(self, journal: JournalAudit) -> int:
        """The Ed25519 line of the newest heads; how many entries the newest one covers."""
        if not journal.newest_note:
            return max((claim.head.size for claim in self._claims.heads if not claim.foreign), default=0)
        where = "the newest head in the journal"
        try:
            head = parse_head(parse(journal.newest_note).text)
            if head.origin != journal.audit.origin:
                self._claims.add(
                    "head", where, f"a head of {journal.audit.origin}", f"a head of {head.origin}"
                )
            if self._claims.history is not None:
                for size, note in {**journal.notes, head.size: journal.newest_note}.items():
                    verify_note(note, [self._claims.history.at(size).ed25519])
        except (ChainError, ValueError) as error:
            self._claims.add("head", where, "a head signed with the node's Ed25519 key", str(error))
            return 0
        return head.size

    def _check_logged_head(self, journal: JournalAudit) -> Claim | None:
        """The newest full head in the journal, when both keys have signed it.

        Slots that are older cover less than it does, and are those of a copy: whoever copies a running node copies them
        first, and it goes on meanwhile. There are two of them all the same.
        """
        if journal.newest_full is None:
            return None
        where = "the newest full head in the journal"
        note = journal.newest_full.note
        try:
            logged = parse_head(parse(note).text)
            if self._claims.history is not None:
                verify_note(note, self._claims.history.at(logged.size).both)
        except (ChainError, ValueError) as error:
            self._claims.add("head", where, "a head signed with both keys", str(error))
            return None
        slots = [claim for claim in self._claims.heads if claim.where.startswith("heads/")]
        if self._slots_size < logged.size:  # a running node may have stored this one since they were read
            for slot in HeadSlots(self._data_dir / "heads", self._disk).notes().values():
                try:
                    self._slots_size = max(self._slots_size, parse_head(parse(slot).text).size)
                except ChainError:
                    continue
        if self._slots_size < logged.size and len(slots) < len(SLOT_NAMES):
            found = f"one over {self._slots_size}" if slots else "none"
            self._claims.add("head", "heads/", f"a head over {logged.size} entries, as {where}", found)
        return Claim(where, note, logged)
