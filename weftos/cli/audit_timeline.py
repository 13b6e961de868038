"""What a process did, in order: incarnations, within them turns, within them questions to models and calls of tools.

A *span* has a beginning and mostly an end, two entries of one key; what has no counterpart is a moment. Whatever is
open still, or was when the process died, has no duration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chain.reader import EntryRecord
from weftos.cli.audit import Auditor, gist, row
from weftos.cli.audit_select import Selection
from weftos.control import Json

BAR_CELLS = 24
_CALL = ("turn", "ordinal")


@dataclass(frozen=True, slots=True)
class _Rule:
    """How entries of a kind are shown: how deep, and by which fields of the body a beginning finds its end."""

    depth: int
    opens: str = ""
    closes: str = ""
    key: tuple[str, ...] = ()


_RULES = {
    "process.started": _Rule(0, opens="process", key=("pid",)),
    "process.exited": _Rule(0, closes="process", key=("pid",)),
    "turn.started": _Rule(1, opens="turn", key=("turn",)),
    "turn.ended": _Rule(1, closes="turn", key=("turn",)),
    "model.asked": _Rule(2, opens="model", key=_CALL),
    "model.answered": _Rule(2, closes="model", key=_CALL),
    "tool.proposed": _Rule(2, opens="tool", key=_CALL),
    "tool.outcome": _Rule(2, closes="tool", key=_CALL),
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
    for record in _entries(auditor, selection, process):
        entry = record.entry
        if entry.kind in _TOLD_BY_THE_CALL:
            continue
        rule = _RULES.get(entry.kind, _MOMENT)
        body = record.body
        key = (rule.opens or rule.closes, *(body.get(name) for name in rule.key))
        if rule.closes and (begun := open_.pop(key, None)) is not None:
            begun["last_seq"] = entry.seq
            begun["duration_us"] = entry.time_us - begun["time_us"]
            begun["status"] = str(body.get("status") or body.get("reason") or "")
            continue
        span = {
            "seq": entry.seq,
            "last_seq": entry.seq,
            "time_us": entry.time_us,
            "duration_us": None if rule.opens else 0,
            "depth": rule.depth,
            "kind": entry.kind,
            "text": gist(row(record)),
            "status": "open" if rule.opens else str(body.get("status") or body.get("decision") or ""),
        }
        spans.append(span)
        if rule.opens and not record.erased:
            open_[key] = span
    return spans


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
