"""What a process did, in order: incarnations, within them turns, within them questions to models and calls of tools.

A *span* has a beginning and mostly an end, two entries of one key; what has no counterpart is a moment. Whatever is
open still, or was when the process died, has no duration. The key stands in the leaf, or in the body; where that is
erased, the causes lead from the end to the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chain.entry.reader import EntryRecord
from weftos.audit.auditor import Auditor, gist, row
from weftos.audit.select import Selection
from weftos.json_object import Json

BAR_CELLS = 24
_CALL = ("turn", "ordinal")


@dataclass(frozen=True, slots=True)
class _Rule:
    """How entries of a kind are shown: how deep, and by which fields of the body a beginning finds its end, by its
    subject where there are none. ``says``: what an end tells, and no longer does when it is erased.
    """

    depth: int
    opens: str = ""
    closes: str = ""
    key: tuple[str, ...] = ()
    says: str = ""


_RULES = {
    "process.started": _Rule(0, opens="process"),
    "process.exited": _Rule(0, closes="process", says="reason"),
    "turn.started": _Rule(1, opens="turn"),
    "turn.ended": _Rule(1, closes="turn", says="answer"),
    "model.asked": _Rule(2, opens="model", key=_CALL),
    "model.answered": _Rule(2, closes="model", key=_CALL, says="answer"),
    "tool.proposed": _Rule(2, opens="tool", key=_CALL),
    "tool.outcome": _Rule(2, closes="tool", key=_CALL, says="outcome"),
}
_MOMENT = _Rule(1)
_TOLD_BY_THE_CALL = ("tool.verdict", "tool.intent")


def timeline(auditor: Auditor, process: str) -> list[Json]:
    """The spans and moments of ``process`` (a PID: that incarnation; a name or address: all), by their beginning.

    Each: seq, last_seq, time_us, duration_us (None while open), depth, kind, text, status. Raises WeftosError.
    """
    selection = Selection(process=process) if process.isdigit() else Selection(address=process)
    spans: list[Json] = []
    open_: dict[tuple[Any, ...], Json] = {}
    of: dict[int, tuple[Any, ...]] = {}  # which span's key an entry is of
    for record in _entries(auditor, selection, process):
        entry = record.entry
        if entry.kind in _TOLD_BY_THE_CALL:
            of[entry.seq] = of.get(entry.cause, ())
            continue
        rule = _RULES.get(entry.kind, _MOMENT)
        key = _key(rule, record)
        if rule.closes:
            begun = open_.pop(key, None) or open_.pop(of.get(entry.cause, ()), None)
            if begun is not None:
                begun["last_seq"] = entry.seq
                begun["duration_us"] = entry.time_us - begun["time_us"]
                begun["status"] = _came_of(rule, record)
                continue
        span = {
            "seq": entry.seq,
            "last_seq": entry.seq,
            "time_us": entry.time_us,
            "duration_us": None if rule.opens else 0,
            "depth": rule.depth,
            "kind": entry.kind,
            "text": gist(row(record)),
            "status": "open" if rule.opens else _came_of(rule, record),
        }
        spans.append(span)
        if rule.opens:
            of[entry.seq], open_[key] = key, span
    return spans


def _key(rule: _Rule, record: EntryRecord) -> tuple[Any, ...]:
    """What a beginning and its end have in common; of an erased one without a subject of its own, nothing has it."""
    part = rule.opens or rule.closes
    if not rule.key:
        return part, record.entry.subject
    if record.erased:
        return part, record.entry.seq
    return part, *(record.body.get(name) for name in rule.key)


def _came_of(rule: _Rule, record: EntryRecord) -> str:
    if record.erased:
        return f"ended, {rule.says} erased" if rule.closes else ""
    return str(next(filter(None, map(record.body.get, ("status", "reason", "decision"))), ""))


def _entries(auditor: Auditor, selection: Selection, process: str) -> Iterator[EntryRecord]:
    """What the process wrote, and for a PID also what the kernel wrote of that incarnation."""
    if not process.isdigit():
        yield from auditor.select(selection)
        return
    for record in auditor.records():
        entry = record.entry
        if entry.pid == int(process) or (entry.kind.startswith("process.") and entry.subject == process):
            yield record


def bars(spans: list[Json], cells: int = BAR_CELLS, full: str = "█", empty: str = "·") -> list[str]:
    """For each span, where it lies between the first beginning and the last end of all."""
    ends = [span["time_us"] + (span["duration_us"] or 0) for span in spans]
    begin = min((span["time_us"] for span in spans), default=0)
    whole = max(max(ends, default=0) - begin, 1)
    found = []
    for span, end in zip(spans, ends, strict=True):
        first = (span["time_us"] - begin) * (cells - 1) // whole
        last = cells - 1 if span["duration_us"] is None else (end - begin) * (cells - 1) // whole
        found.append(empty * first + full * (last - first + 1) + empty * (cells - 1 - last))
    return found
