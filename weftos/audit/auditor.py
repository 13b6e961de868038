"""Reads a ledger from its files, beside a running node or without one: entries as rows, and how far it goes.

One entry as JSON is a *row*: seq, time_us, node, pid, count, kind, subject, trace, cause, body (None once erased).
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import EntryRecord, HeadRecord
from chain.keys.keys import load_pairs
from chain.merkle.head import parse_head
from chain.notes.note import parse
from chain.notes.slots import HeadSlots
from chain.state.history import History
from chain.state.snapshot import read_snapshot
from weftos.audit.select import Selection, Selector
from weftos.errors import WeftosError
from weftos.json_object import Json
from weftos.paths import existing_data

Progress = Callable[[int, int], None]  # done and total
_REPORT_EVERY = 256
_GIST_CHARACTERS = 100

_GISTS = {
    "node.booted": "{name} {version}, engine {engine}, boot {boot}; changed since the last one: {changed}",
    "state.accepted": "user {uid}: {reason}: {what}",
    "node.stopped": "{reason}",
    "operator.command": "user {uid}: {operation} {arguments}",
    "peer.command": "{name}: {operation} {arguments}",
    "process.spawned": "{address}",
    "process.changed": "{address}: {fields}",
    "budget.changed": "{address}: {resources} {amounts}",
    "process.started": "{address} in cell {cell}",
    "process.exited": "{address}: {reason} {detail}",
    "process.ending": "{address}, will stop: {stops}",
    "process.slot": "{address}: {state} {why}",
    "process.suspended": "{address} by {by}",
    "process.resumed": "{address} by {by}",
    "message.accepted": "{sender} -> {to}: {text}",
    "message.refused": "{sender} -> {to}: {why}",
    "access.denied": "{channel}:{user} -> {to}: {reason}",
    "message.dead": "to {to}: {why}",
    "topic.subscribed": "{address} to {pattern}, {overflow}",
    "topic.unsubscribed": "{address} from {pattern}",
    "topic.published": "{sender} -> {topic}{below}: {accepted} accepted, {left_out} left out",
    "turn.started": "{address}, attempt {attempt}",
    "turn.ended": "{status}: {reply}",
    "model.asked": "{provider} {model}",
    "model.answered": "{status}: {answer}",
    "sys.value": "{op}: {value}",
    "sys.files": "{files}",
    "sys.compaction": "{state}: {records} records, {before} to {after} tokens, {written} facts written {why}",
    "model.quoted": "{models}: {against}",
    "monitor.set": "{ref} {target} {why}",
    "monitor.removed": "{ref}",
    "monitor.traps": "{on}",
    "monitor.down": "{ref} of {watcher}: {reason}",
    "tool.proposed": "{tool} {arguments}",
    "tool.verdict": "{decision} {tool}",
    "tool.intent": "{tool}, effects {effects}",
    "tool.outcome": "{tool}: {status}: {result}",
    "tool.probed": "{tool}: {answer} {why}",
    "tool.resolved": "{tool}: {resolution} by {by}",
    "key.rotated": "number {number}: {reason}",
    "erase": "{ranges} by {by}: {reason}",
}


class Auditor:
    """The ledger in a data directory. Raises WeftosError when there is none, a ChainError for a damaged one."""

    def __init__(self, data: Path, progress: Progress = lambda done, total: None) -> None:
        self.data = existing_data(data)
        self.disk = Disk()
        self.history = History(data, self.disk)
        self._progress = progress

    @cached_property
    def size(self) -> int:
        """How many entries there were when it was asked first."""
        return self.history.size

    @property
    def published_size(self) -> int:
        """How many of them lie in tiles, where each is found at once."""
        return self.history.tiles.size

    def records(self, start: int = 0) -> Iterator[EntryRecord]:
        """Every entry from ``start`` on, oldest first.

        When all are published, the journal need not be read up to ``start``.
        """
        history, size = self.history, self.size
        found = history.published(start, size) if start > 0 and size == self.published_size else None
        for record in found or history.entries(start):
            if not record.entry.seq % _REPORT_EVERY:
                self._progress(record.entry.seq - start, max(size - start, 0))
            yield record

    def select(self, selection: Selection) -> Iterator[EntryRecord]:
        """The entries that ``selection`` names, oldest first. Raises WeftosError for a process that never was."""
        selector = Selector(selection)
        for record in self.records(self._start_of(selection)):
            if selection.is_past(record.entry):
                break
            if selector.matches(record):
                yield record
        selector.finish()

    def newest(self, selection: Selection, limit: int) -> list[Json]:
        """The last ``limit`` rows of ``selection``, oldest first."""
        if selection.everything:
            selection = replace(selection, first=max(0, self.size - limit))
        return [row(record) for record in deque(self.select(selection), maxlen=limit)]

    def entry(self, seq: int) -> EntryRecord:
        """Entry ``seq``. Raises WeftosError when there is none."""
        if not 0 <= seq < self.size:
            raise WeftosError(
                f"there is no entry {seq}: the ledger holds {self.size}, numbered from 0", "not_found"
            )
        return self.history.entry(seq)

    def entries(self, seqs: Iterable[int]) -> list[EntryRecord]:
        """These entries, in their order: published ones each by itself, all others in one pass."""
        published = self.published_size
        wanted = sorted(seqs)
        found = [self.entry(seq) for seq in wanted if seq < published]
        rest = {seq for seq in wanted if seq >= published}
        if rest:
            found += [record for record in self.records(published) if record.entry.seq in rest]
        return found

    def causes(self, seq: int) -> list[int]:
        """The entries that led to ``seq``, the first cause first, ``seq`` itself last."""
        self.entry(seq)
        published = self.published_size
        later = array("q")
        if seq >= published:
            later.extend(record.entry.cause for record in self.records(published))
        path = [seq]
        while (at := path[-1]) >= 0:
            path.append(later[at - published] if at >= published else self.entry(at).entry.cause)
        return path[-2::-1]

    def summary(self) -> Json:
        """How far the ledger goes, what of it is signed by both keys and published, and in what files it lies."""
        return self.history.settled(self._summary)

    def _summary(self) -> Json:
        pairs = load_pairs(self.data / "keys")
        journal = self.data / "journal"
        reader = self.history.journal()
        first = reader.position.seq
        note: bytes | None = None
        closed = False
        for group in reader.groups():
            note = group.note or note
            closed = any(isinstance(record, HeadRecord) and record.closing for record in group.records)
        full = HeadSlots(self.data / "heads", self.disk).load(*(pair.both for pair in pairs))
        full_size = full.head.size if full else 0
        entries = reader.position.seq
        size = parse_head(parse(note).text).size if note else full_size
        snapshot = read_snapshot(self.data / "snapshot", self.disk)
        segments = self.disk.names(journal)
        return {
            "data": str(self.data),
            "origin": pairs[0].ed25519.name,
            "entries": entries,
            "size": size,
            "full_size": full_size,
            "provisional": max(0, size - full_size),
            "published_size": self.published_size,
            "unpublished": max(0, entries - self.published_size),
            "groups": reader.position.group,
            "segments": len(segments),
            "journal_bytes": sum(self.disk.size(journal / name) for name in segments),
            "first_journal_entry": first,
            "snapshot_entries": snapshot.seq if snapshot else None,
            "snapshot_time_us": snapshot.time_us if snapshot else None,
            "rotations": len(pairs) - 1,
            "unacknowledged_tail_bytes": reader.tail.bytes if reader.tail else 0,
            "stopped_cleanly": closed,
        }

    def _start_of(self, selection: Selection) -> int:
        """An entry before which none is selected: found by bisection for a time, since times never fall.

        Names of processes are learned from all entries, so with one the answer is the beginning.
        """
        if selection.names_a_process:
            return 0
        low, high = selection.first or 0, self.published_size
        if selection.since_us is None:
            return low
        while low < high:
            middle = (low + high) // 2
            if self.history.entry(middle).entry.time_us < selection.since_us:
                low = middle + 1
            else:
                high = middle
        return low


def row(record: EntryRecord) -> Json:
    """A record as JSON."""
    entry = record.entry
    return {
        "seq": entry.seq,
        "time_us": entry.time_us,
        "node": entry.node,
        "pid": entry.pid,
        "count": entry.count,
        "kind": entry.kind,
        "subject": entry.subject,
        "trace": entry.trace.hex(),
        "cause": entry.cause,
        "body": None if record.erased else {name: plain(value) for name, value in record.body.items()},
    }


def plain(value: object) -> object:
    """A value of a body as JSON: bytes in hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def gist(entry: Json) -> str:
    """What a row says, in at most a hundred characters."""
    body = entry.get("body")
    if isinstance(body, str):
        body = json.loads(body)
    if not isinstance(body, dict):
        return "(erased)"
    template = _GISTS.get(entry["kind"])
    if template is None:
        text = ", ".join(f"{name} {value}" for name, value in body.items())
    else:
        text = template.format_map(Lenient(body)).strip()
    return shortened(text, _GIST_CHARACTERS)


def shortened(text: str, characters: int) -> str:
    """The beginning of ``text``; the last character tells of the rest."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


class Lenient(dict[str, object]):
    """A body in which a missing field is shown as such: an auditor reads what is there."""

    def __missing__(self, name: str) -> str:
        return f"({name}?)"
