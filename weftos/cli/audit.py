"""Reads a ledger from its files, beside a running node or without one: rows, the newest, a causal path, a summary.

One entry as JSON is a *row*: seq, time_us, node, pid, count, kind, subject, trace, cause, body (None once erased).
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from chain.disk import Disk
from chain.head import parse_head
from chain.keys import load_vkeys
from chain.note import parse
from chain.reader import EntryRecord, HeadRecord, JournalReader
from chain.slots import HeadSlots
from weftos.control import Json
from weftos.errors import WeftosError

Progress = Callable[[int, int], None]  # done and total, in bytes of the journal
_GIST_CHARACTERS = 100

_GISTS = {
    "node.booted": "{name} {version}, engine {engine}, boot {boot}",
    "node.stopped": "{reason}",
    "operator.command": "user {uid}: {operation} {arguments}",
    "process.spawned": "{address}",
    "process.started": "{address} in cell {cell}",
    "process.exited": "{address}: {reason} {detail}",
    "process.slot": "{address}: {state} {why}",
    "message.accepted": "{sender} -> {to}: {text}",
    "message.refused": "{sender} -> {to}: {why}",
    "message.dead": "to {to}: {why}",
    "turn.started": "{address}, attempt {attempt}",
    "turn.ended": "{status}: {reply}",
    "model.asked": "{provider} {model}",
    "model.answered": "{status}: {answer}",
    "sys.value": "{op}: {value}",
    "tool.proposed": "{tool} {arguments}",
    "tool.verdict": "{decision} {tool}",
    "tool.intent": "{tool}, effects {effects}",
    "tool.outcome": "{tool}: {status}: {result}",
    "tool.resolved": "{tool}: {resolution} by {by}",
}


class Auditor:
    """The ledger in a data directory. Raises WeftosError when there is none, DamageError for a damaged journal."""

    def __init__(self, data: Path, progress: Progress = lambda done, total: None) -> None:
        if not (data / "format").exists():
            raise WeftosError(f"{data} is not a data directory: give the node's with --data", "not_found")
        self._data = data
        self._journal = data / "journal"
        self._disk = Disk()
        self._progress = progress

    def records(self) -> Iterator[EntryRecord]:
        """Every entry, oldest first."""
        total = self._bytes()
        done = 0
        for group in JournalReader(self._journal, self._disk).groups():
            done = max(done, group.offset)
            self._progress(done, total)
            for record in group.records:
                if isinstance(record, EntryRecord):
                    yield record

    def newest(self, process: str | None, kind: str | None, limit: int) -> list[Json]:
        """The last ``limit`` rows of that process and kind, oldest first.

        ``process``: a PID, or the name or address of one, which means all its incarnations. ``kind``: a whole kind, or
        its noun (``tool``).
        """
        pids = None if process is None else {int(process)} if process.isdigit() else self._pids_of(process)
        kept: deque[EntryRecord] = deque(maxlen=limit)
        for record in self.records():
            entry = record.entry
            if pids is not None and entry.pid not in pids:
                continue
            if kind is None or entry.kind == kind or entry.kind.startswith(f"{kind}."):
                kept.append(record)
        return [row(record) for record in kept]

    def _pids_of(self, process: str) -> set[int]:
        """The PIDs that a name or an address ever had. Raises WeftosError when there is none."""
        pids = set()
        for record in self.records():
            if record.entry.kind == "process.started":
                body = record.body
                if process in (body["address"], body["address"].rpartition("/")[2]):
                    pids.add(body["pid"])
        if not pids:
            raise WeftosError(
                f"the ledger knows no process {process}: weftos chain log --kind process", "not_found"
            )
        return pids

    def entry(self, seq: int) -> EntryRecord:
        """Entry ``seq``."""
        for record in self.records():
            if record.entry.seq == seq:
                return record
        raise self._missing(seq)

    def why(self, seq: int) -> list[Json]:
        """The causal path to entry ``seq``: the first cause first, the entry itself last.

        Two passes: causes alone are held for all entries, whole entries only for the path.
        """
        causes = array("q", (record.entry.cause for record in self.records()))
        if not 0 <= seq < len(causes):
            raise self._missing(seq, len(causes))
        path = {seq}
        at = seq
        while (at := causes[at]) >= 0:
            path.add(at)
        return [row(record) for record in self.records() if record.entry.seq in path]

    def summary(self) -> Json:
        """How far the ledger goes, and what of it is signed by both keys."""
        reader = JournalReader(self._journal, self._disk)
        total = self._bytes()
        note: bytes | None = None
        closed = False
        for group in reader.groups():
            self._progress(group.offset, total)
            note = group.note or note
            closed = any(isinstance(record, HeadRecord) and record.closing for record in group.records)
        full = HeadSlots(self._data / "heads", self._disk).load(load_vkeys(self._data / "keys"))
        size = parse_head(parse(note).text).size if note else 0
        full_size = full.head.size if full else 0
        return {
            "data": str(self._data),
            "origin": load_vkeys(self._data / "keys")[0].name,
            "entries": reader.position.seq,
            "size": size,
            "full_size": full_size,
            "provisional": max(0, size - full_size),
            "groups": reader.position.group,
            "segments": len(self._disk.names(self._journal)),
            "journal_bytes": total,
            "unacknowledged_tail_bytes": reader.tail.bytes if reader.tail else 0,
            "stopped_cleanly": closed,
        }

    def _bytes(self) -> int:
        return sum(self._disk.size(self._journal / name) for name in self._disk.names(self._journal))

    def _missing(self, seq: int, size: int | None = None) -> WeftosError:
        held = sum(1 for _ in self.records()) if size is None else size
        return WeftosError(f"there is no entry {seq}: the ledger holds {held}, numbered from 0", "not_found")


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
        "body": None if record.erased else {name: _plain(value) for name, value in record.body.items()},
    }


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return [_plain(item) for item in value] if isinstance(value, list) else value


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
        text = template.format_map(_Lenient(body)).strip()
    return text if len(text) <= _GIST_CHARACTERS else text[: _GIST_CHARACTERS - 1] + "…"


class _Lenient(dict[str, object]):
    """A body in which a missing field is shown as such: an auditor reads what is there."""

    def __missing__(self, name: str) -> str:
        return f"({name}?)"
