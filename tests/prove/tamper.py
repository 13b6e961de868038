"""The tamper walk: every byte of a ledger is changed in turn, every field of every entry, and verification must say so.

A ledger of a hundred entries in a dozen groups, with a dropped and a present segment, a snapshot, a change of keys
and an erasure. Verification runs in this process over a twin of the disk in memory, one change at a time. A change that
is not found must mean nothing: then what was verified has to be the very same as without it.

    python -m tests.prove.tamper [--quick] [--seed SEED]
"""

from __future__ import annotations

import asyncio
import io
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from chain.disk import Disk
from chain.entry.entry import Entry, decode_entry, encode_entry
from chain.entry.record import (
    HeadRecord,
    RawEntry,
    StateRecord,
    decode_payload,
    encode_entry_record,
    encode_head_record,
    encode_payload,
    encode_state_record,
)
from chain.errors import EntryError
from chain.keys.rotation import vkeys_text
from chain.state.history import History
from chain.tiles.bundle import BundleHead, BundleRecord, write_bundle
from chain.tiles.tile_store import TileStore
from chain.verify.verify import Report, verify
from chain.verify.verify_bundle import verify_bundle
from chain.verify.verify_tiles import verify_tiles
from tests.chain.twins.forger import put_together, taken_apart
from tests.prove.power_cut import NEW, OLD, Expected, Work
from tests.prove.progress import follow
from tests.prove.recorded_disk import Content, RecordedDisk
from tests.prove.walks import forked_pool, run_alone, say_found

ROOT = Path("/ledger")
BUNDLE = ROOT / "a.bundle"
ENTRIES = 100
GROUP = 8
PARTS = 64
QUICK_STEP = 97
CUTS = 40
KEYS = (OLD.ed25519.text, OLD.mldsa.text)


@dataclass(frozen=True, slots=True)
class Intact:
    """The ledger, and what verification says of it: as a directory, as a published folder, as a bundle."""

    content: Content
    directory: Report
    tiles: Report
    bundle: Report


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ``path`` then holds ``data``, or, when ``at`` is given, its byte there is turned by ``turned``.
    ``kind`` is the row of the table it counts in.
    """

    kind: str
    what: str
    path: Path
    data: bytes = b""
    at: int = -1
    turned: int = 0

    def on(self, before: bytes) -> bytes:
        """What ``path`` holds then."""
        if self.at < 0:
            return self.data
        return before[: self.at] + bytes([before[self.at] ^ self.turned]) + before[self.at + 1 :]


async def _make(disk: RecordedDisk) -> None:
    work = Work(disk, Expected(), "t", segment_bytes=2**20)
    work.ledger.start(asyncio.get_running_loop())
    for _ in range(4):
        await work.commit(entries=GROUP)
    to_be_erased = await work.commit("to be erased", entries=2)
    await work.compact()
    await work.erase(to_be_erased, "to be erased")
    await work.rotate()
    while ENTRIES - work.ledger.next_seq > GROUP:
        await work.commit(entries=GROUP)
    await work.commit(entries=ENTRIES - work.ledger.next_seq)
    await work.close()


def make() -> Intact:
    """The ledger in memory. Raises AssertionError when verification finds anything wrong with it."""
    disk = RecordedDisk(ROOT)
    asyncio.run(_make(disk))
    keys = disk.now.copy()
    keys.directories.add(ROOT / "keys")
    put(keys, ROOT / "keys" / "vkeys.txt", vkeys_text(NEW.pairs))
    put(keys, BUNDLE, _bundle(disk))
    found = RecordedDisk(ROOT, keys)
    intact = Intact(keys, _directory(found), _tiles(found), _bundled(found))
    for report in (intact.directory, intact.tiles, intact.bundle):
        assert not report.findings and report.entries == ENTRIES, report.findings
    return intact


def put(content: Content, path: Path, data: bytes) -> None:
    """Have ``path`` hold ``data``."""
    inode = max(content.inodes, default=0) + 1
    content.names[path] = inode
    content.inodes[inode] = data


def _bundle(disk: RecordedDisk) -> bytes:
    store = TileStore(ROOT / "ledger", disk)
    note = store.checkpoint()
    assert note is not None
    records = (
        BundleRecord(record.leaf, record.salt, record.body_bytes, ())
        for record in History(ROOT, disk).entries()
    )
    out = io.BytesIO()
    write_bundle(
        out, BundleHead(OLD.origin, store.size, True, store.size, note, vkeys_text(NEW.pairs)), records
    )
    return out.getvalue()


def _directory(disk: Disk) -> Report:
    return verify(ROOT, KEYS, disk=disk)


def _tiles(disk: Disk) -> Report:
    return verify_tiles(ROOT / "ledger", KEYS, disk=disk)


def _bundled(disk: Disk) -> Report:
    return verify_bundle(BUNDLE, KEYS, disk=disk)


def byte_changes(content: Content, step: int, dice: random.Random) -> Iterator[Change]:
    """Each ``step``-th byte of every file, changed to another one."""
    for path, data in sorted(content.files().items()):
        for at in range(dice.randrange(step), len(data), step):
            yield Change(_kind(path), f"byte {at}", path, at=at, turned=dice.randrange(1, 256))


def length_changes(content: Content, dice: random.Random) -> Iterator[Change]:
    """Every file longer by a little, and cut off at some places."""
    for path, data in sorted(content.files().items()):
        for more in (b"\x00", b"\xff", bytes(512)):
            yield Change("file made longer", f"by {len(more)}", path, data + more)
        for length in (
            sorted({0, len(data) - 1, *(dice.randrange(len(data)) for _ in range(CUTS))}) if data else ()
        ):
            yield Change("file cut off", f"behind {length}", path, data[:length])


def _kind(path: Path) -> str:
    if path == BUNDLE:
        return "bundle"
    first, *rest = path.relative_to(ROOT).parts
    if first != "ledger":
        return first
    return "/".join(rest[:2]) if rest[0] == "tile" else f"ledger/{rest[0]}"


def entry_changes(content: Content) -> Iterator[Change]:
    """Entries of the journal's newest segment edited field by field, deleted, doubled, swapped, cut off behind; each
    time with all checksums made anew, as somebody would who has no key.
    """
    path = max(name for name in content.names if name.suffix == ".wj")
    segment = _Segment(content.inodes[content.names[path]])
    for group, place, raw in segment.entries():
        entry = decode_entry(raw.leaf)
        for name in Entry.__dataclass_fields__:
            with_field = _edited(entry, name)
            if with_field is not None:
                changed = RawEntry(with_field, raw.salt, raw.body)
                yield Change(
                    "field of an entry", f"{name} of {entry.seq}", path, segment.put(group, place, [changed])
                )
        yield Change("entry deleted", str(entry.seq), path, segment.put(group, place, []))
        yield Change("entry doubled", str(entry.seq), path, segment.put(group, place, [raw, raw]))
        after = next(iter(segment.groups[group][0][place + 1 :]), None)
        if isinstance(after, RawEntry):
            yield Change("entries swapped", str(entry.seq), path, segment.put(group, place, [after, raw], 2))
        yield Change("tail cut off", f"behind {entry.seq}", path, segment.cut(group, place))


def _edited(entry: Entry, name: str) -> bytes | None:
    value: Any = getattr(entry, name)
    other: Any
    if isinstance(value, int):
        other = value + 1 if name != "cause" else (-1 if value >= 0 else 0)
    elif isinstance(value, bytes):
        other = bytes(16) if not value else bytes([value[0] ^ 1]) + value[1:]
    else:
        other = {"node": "weftos-another", "kind": "message.dead"}.get(name, f"{value}x"[-60:])
    try:
        return encode_entry(replace(entry, **{name: other}))
    except EntryError:
        return None


class _Segment:
    """A segment's groups: records and note, to be written anew with other records."""

    def __init__(self, data: bytes) -> None:
        self._header, self._frames = taken_apart(data)
        self.groups: list[tuple[list[Any], bytes | None]] = [
            decode_payload(frame.payload) for frame in self._frames
        ]

    def entries(self) -> Iterator[tuple[int, int, RawEntry]]:
        for group, (records, _) in enumerate(self.groups):
            for place, record in enumerate(records):
                if isinstance(record, RawEntry):
                    yield group, place, record

    def put(self, group: int, place: int, records: Sequence[Any], replaced: int = 1) -> bytes:
        groups = list(self.groups)
        old, note = groups[group]
        groups[group] = ([*old[:place], *records, *old[place + replaced :]], note)
        return self._bytes(groups)

    def cut(self, group: int, place: int) -> bytes:
        records, _ = self.groups[group]
        note = self.groups[group - 1][1] if group else None
        return self._bytes([*self.groups[:group], (records[:place], note)])

    def _bytes(self, groups: Sequence[tuple[list[Any], bytes | None]]) -> bytes:
        frames = [
            frame.with_payload(encode_payload([_encoded(item) for item in records], note))
            for frame, (records, note) in zip(self._frames, groups, strict=False)
        ]
        return put_together(self._header, frames)


def _encoded(record: Any) -> bytes:
    if isinstance(record, RawEntry):
        assert record.salt is not None and record.body is not None
        return encode_entry_record(record.leaf, record.salt, record.body)
    if isinstance(record, StateRecord):
        return encode_state_record(record.table, record.key, record.value)
    assert isinstance(record, HeadRecord)
    return encode_head_record(record.note, record.closing)


def missed(intact: Intact, change: Change) -> str | None:
    """None when the change was found; "meaningless" when all is as without it; else what went wrong."""
    content = intact.content.copy()
    inode = content.names[change.path]
    content.inodes[inode] = change.on(content.inodes[inode])
    disk = RecordedDisk(ROOT, content)
    checks = [(_directory, intact.directory)]
    if change.path == BUNDLE:
        checks = [(_bundled, intact.bundle)]
    elif "ledger" in change.path.parts[2:]:
        checks.append((_tiles, intact.tiles))
    found: list[bool] = []
    for check, before in checks:
        try:
            report = check(disk)
        except Exception as error:
            return f"{change.kind}, {change.path.name}, {change.what}: {type(error).__name__}: {error}"
        if not report.findings and _as_cut_off(report, change) != _as_cut_off(before, change):
            return f"{change.kind}, {change.path.name}, {change.what}: not found"
        found.append(bool(report.findings))
    if any(found) and not all(found):
        return f"{change.kind}, {change.path.name}, {change.what}: found in the folder or the directory alone"
    if not any(found) and _is_tile(change.path):
        return f"{change.kind}, {change.path.name}, {change.what}: a tile that may not be what it is"
    return None if all(found) else "meaningless"


def _is_tile(path: Path) -> bool:
    """A hash tile or entry bundle: also where the newest head needs it not, somebody's older one does."""
    return "tile" in path.parts and "bodies" not in path.parts


def _as_cut_off(report: Report, change: Change) -> Report:
    """``report`` without what it says of a journal cut off behind its last entry: a crash leaves no more of the
    note of a clean stop, and the report says so.
    """
    if change.kind == "file cut off" and change.path.suffix == ".wj":
        return replace(report, torn_bytes=0, closed=False)
    return report


_INTACT: list[Intact] = []  # inherited by the processes of the walk


def _part(part: int, step: int, seed: str) -> tuple[Counter[str], Counter[str], list[str]]:
    """Every ``PARTS``-th change from ``part`` on: how many there were, how many mean nothing, what was not found."""
    intact = _INTACT[0]
    done: Counter[str] = Counter()
    meaningless: Counter[str] = Counter()
    wrong = []
    dice = random.Random(seed)
    changes = [
        *byte_changes(intact.content, step, dice),
        *entry_changes(intact.content),
        *length_changes(intact.content, dice),
    ]
    for change in changes[part :: PARTS * (1 if step == 1 else 4)]:
        done[change.kind] += 1
        match missed(intact, change):
            case None:
                pass
            case "meaningless":
                meaningless[f"{change.kind} ({change.path.name})"] += 1
            case found:
                wrong.append(found)
    return done, meaningless, wrong


def prove_tampering(console: Console, seed: str, quick: bool) -> bool:
    """The walk, over each byte or over some; prints the table."""
    started = time.monotonic()
    _INTACT[:] = [make()]
    step = QUICK_STEP if quick else 1
    with forked_pool() as pool:
        walked = pool.imap_unordered(partial(_part, step=step, seed=seed), range(PARTS))
        parts = list(follow(console, "tampering, parts of the walk", PARTS, walked))
    done: Counter[str] = sum((part[0] for part in parts), Counter())
    meaningless: Counter[str] = sum((part[1] for part in parts), Counter())
    wrong = [fault for part in parts for fault in part[2]]
    table = Table("changed", "changes", "found or meaningless", box=box.SIMPLE_HEAD)
    for kind, count in sorted(done.items()):
        bad = sum(fault.startswith(f"{kind},") for fault in wrong)
        table.add_row(kind, f"{count:,}", f"{(count - bad) / count:.1%}")
    console.print(table)
    for name, count in meaningless.items():
        console.print(f"  of these without a meaning: {count} in {name}", highlight=False, markup=False)
    console.print(f"  {sum(done.values()):,} changes, {time.monotonic() - started:.0f} s", highlight=False)
    return say_found(console, wrong, "every change is found, or means nothing; no false alarm")


if __name__ == "__main__":
    sys.exit(run_alone(prove_tampering, __doc__, "some bytes and some entries"))
