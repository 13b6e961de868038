"""Verifies a data directory without any daemon: every byte of every ledger file, on a stopped or a running
node.

The slots are read before the journal, so that beside a running writer the journal holds at least what they
cover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chain.audit import Audit, Finding
from chain.disk import Disk
from chain.errors import ChainError
from chain.head import parse_head
from chain.keys import VKEYS_FILE, load_vkeys, origin_of
from chain.note import ED25519, ML_DSA_65, VerifierKey, parse
from chain.note import verify as verify_note
from chain.reader import segment_names
from chain.scan import Fault, Scan, Scanned
from chain.slots import SLOT_NAMES, FullHead, HeadSlots, read_full_head

__all__ = ["Finding", "Report", "verify"]

_LEFTOVER = "next.new"


@dataclass(frozen=True, slots=True)
class Report:
    """What verification found. It succeeded when there are no ``findings``.

    entries: how many were read; root: of the tree over them. size: entries that the newest signed head
    covers; full_size: that the newest head with both signatures covers; provisional: those behind it.
    torn_bytes: an incomplete last frame, as a crash leaves it. closed: the journal ends with a clean stop.
    pinned: the keys came from the caller; when False, everything here was measured against keys in the
    directory itself. open_calls: seqs of intents that have no outcome yet.
    """

    origin: str
    entries: int
    size: int
    root: bytes
    full_size: int
    provisional: int
    torn_bytes: int
    boots: int
    closed: bool
    pinned: bool
    open_calls: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def verify(
    data_dir: Path,
    keys: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    disk: Disk | None = None,
) -> Report:
    """Verify the ledger in ``data_dir`` under ``keys`` (verifier keys as text), or else under its own.

    ``progress(done, total)`` is called with bytes. Raises VerifierKeyError for a malformed key among
    ``keys``, OSError for a file that cannot be read; everything else is a finding.
    """
    return _Verification(data_dir, [VerifierKey.parse(key) for key in keys], disk or Disk()).run(progress)


class _Verification:
    def __init__(self, data_dir: Path, pinned: list[VerifierKey], disk: Disk) -> None:
        self._data_dir = data_dir
        self._disk = disk
        self._pinned = pinned
        self._findings: list[Finding] = []
        self._keys = self._choose_keys()
        self._torn_bytes = 0
        self._last_segment = self._ended_in = ""

    def run(self, progress: Callable[[int, int], None] | None) -> Report:
        slots = self._read_slots()
        key = self._key(ED25519)
        origin = key.name if key else self._claimed_origin()
        audit = Audit(origin, key, frozenset(slot.head.size for slot in slots.values()))
        self._read_journal(audit, origin, progress)
        size = self._check_newest(audit, key)
        self._check_slots(slots, audit)
        full_size = max((slot.head.size for slot in slots.values()), default=0)
        return Report(
            origin=origin,
            entries=audit.entries,
            size=size,
            root=audit.tree.root(),
            full_size=full_size,
            provisional=max(0, audit.entries - full_size),
            torn_bytes=self._torn_bytes,
            boots=audit.boots,
            closed=audit.closed and self._ended_in == self._last_segment,
            pinned=bool(self._pinned),
            open_calls=sorted(audit.open_calls.values()),
            findings=self._findings + audit.findings,
        )

    def _add(self, kind: str, where: str, expected: str, found: str, seq: int = -1) -> None:
        self._findings.append(Finding(seq, kind, where, expected, found))

    def _choose_keys(self) -> list[VerifierKey]:
        """The keys that were given, and for a type that was not, the directory's own."""
        own: list[VerifierKey] = []
        try:
            own = list(load_vkeys(self._data_dir / "keys"))
            found, wanted = self._disk.read(self._data_dir / "keys" / VKEYS_FILE), _vkeys_file(own)
            if found != wanted:
                self._add("keys", f"keys/{VKEYS_FILE}", wanted.decode(), repr(found))
        except ChainError as error:
            self._add("keys", f"keys/{VKEYS_FILE}", "the node's two verifier keys", str(error))
        for key in self._pinned:
            if key.type == ED25519 and key.name != origin_of(key.public_key):
                self._add("keys", "the given key", f"the name {origin_of(key.public_key)}", key.name)
            if any(mine.type == key.type and mine != key for mine in own):
                mine = next(mine for mine in own if mine.type == key.type)
                self._add("keys", f"keys/{VKEYS_FILE}", key.text, mine.text)
        given = {key.type for key in self._pinned}
        return self._pinned + [key for key in own if key.type not in given]

    def _key(self, type_: bytes) -> VerifierKey | None:
        return next((key for key in self._keys if key.type == type_), None)

    def _claimed_origin(self) -> str:
        """Without any key: what the slots say, so that the journal can at least be held against itself."""
        for note in HeadSlots(self._data_dir / "heads", self._disk).notes().values():
            try:
                return parse_head(parse(note).text).origin
            except ChainError:
                continue
        return ""

    def _read_slots(self) -> dict[str, FullHead]:
        self._unexpected(self._data_dir / "heads", SLOT_NAMES)
        return self._good_slots(report=self._add)

    def _good_slots(self, report: Callable[[str, str, str, str], None] | None = None) -> dict[str, FullHead]:
        slots: dict[str, FullHead] = {}
        keys = [key for key in (self._key(ED25519), self._key(ML_DSA_65)) if key]
        for name, note in HeadSlots(self._data_dir / "heads", self._disk).notes().items():
            try:
                slots[name] = read_full_head(note, keys)
            except ChainError as error:
                if report is not None:
                    report("head", f"heads/{name}", "a head signed with both keys", str(error))
        return slots

    def _unexpected(self, directory: Path, wanted: Sequence[str]) -> None:
        for name in self._disk.names(directory):
            if name not in wanted and name != _LEFTOVER:
                self._add(
                    "file", f"{directory.name}/{name}", "no such file", "a file the node does not write"
                )

    def _read_journal(self, audit: Audit, origin: str, progress: Callable[[int, int], None] | None) -> None:
        directory = self._data_dir / "journal"
        names = segment_names(directory, self._disk)
        self._last_segment = names[-1] if names else ""
        self._unexpected(directory, names)
        scan = Scan(directory, self._disk, origin, lambda: audit.closed, progress)
        for step in scan.frames():
            where = f"journal/{step.file}, byte {step.offset}"
            if isinstance(step, Scanned):
                audit.frame(where, step.payload, step.fault)
                self._ended_in = step.file
            elif isinstance(step, Fault):
                audit.gap(where, step.expected, step.found, lost=step.lost)
            else:
                self._torn_bytes = step.bytes
        audit.finish()

    def _check_newest(self, audit: Audit, key: VerifierKey | None) -> int:
        """The Ed25519 line of the newest head; how many entries that head covers."""
        if not audit.newest_note:
            return 0
        where = "the newest head in the journal"
        try:
            head = parse_head(parse(audit.newest_note).text)
            if key is not None:
                verify_note(audit.newest_note, [key])
            if head.origin != audit.origin:
                self._add("head", where, f"a head of {audit.origin}", f"a head of {head.origin}")
        except ChainError as error:
            self._add("head", where, "a head signed with the node's Ed25519 key", str(error))
            return 0
        return head.size

    def _check_slots(self, slots: dict[str, FullHead], audit: Audit) -> None:
        for name, slot in slots.items():
            head = slot.head
            root = audit.roots.get(head.size)
            where = f"heads/{name}"
            if head.origin != audit.origin:
                self._add("head", where, f"a head of {audit.origin}", f"a head of {head.origin}")
            elif head.size > audit.entries:
                expected = f"at least the {head.size} entries that {where} covers"
                self._add("truncated", "journal", expected, f"{audit.entries} entries", audit.entries)
            elif root is not None and root != head.root:
                self._add("root", where, head.root.hex(), root.hex(), head.size - 1)
        if audit.newest_full is None:
            return
        self._check_logged_head(audit.newest_full.note, slots)

    def _check_logged_head(self, note: bytes, slots: dict[str, FullHead]) -> None:
        where = "the newest full head in the journal"
        try:
            logged = (
                read_full_head(note, self._keys)
                if self._keys
                else FullHead(parse_head(parse(note).text), note)
            )
        except ChainError as error:
            self._add("head", where, "a head signed with both keys", str(error))
            return
        newest = max((slot.head.size for slot in slots.values()), default=-1)
        if newest < logged.head.size:  # a running node may have stored this one since the slots were read
            newest = max((slot.head.size for slot in self._good_slots().values()), default=-1)
        if newest < logged.head.size:
            found = f"one over {newest}" if newest >= 0 else "none"
            self._add("head", "heads/", f"a head over {logged.head.size} entries, as {where}", found)


def _vkeys_file(keys: Sequence[VerifierKey]) -> bytes:
    return "".join(f"{key.text}\n" for key in keys).encode()
