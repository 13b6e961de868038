"""What a ledger holds, in numbers: by kind and process, refusals, doubts, tokens, bytes, and entries over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from chain.entry.reader import EntryRecord
from weftos.json_object import Json

BARS = 24
_BUCKETS = 20 * BARS
_FIRST_WIDTH_US = 1_000_000


class Rate:
    """Entries over time, in buckets that grow twice as wide whenever they are too many."""

    def __init__(self) -> None:
        self._width_us = _FIRST_WIDTH_US
        self._counts: Counter[int] = Counter()

    def add(self, time_us: int) -> None:
        self._counts[time_us // self._width_us] += 1
        while len(self._counts) > _BUCKETS:
            self._width_us *= 2
            merged: Counter[int] = Counter()
            for bucket, count in self._counts.items():
                merged[bucket // 2] += count
            self._counts = merged

    def rows(self, most: int = BARS) -> list[Json]:
        """At most ``most`` spans of equal width, without a gap: from_us, to_us, entries."""
        if not self._counts:
            return []
        first, last = min(self._counts), max(self._counts)
        joined = -(-(last - first + 1) // most)
        totals: Counter[int] = Counter()
        for bucket, count in self._counts.items():
            totals[(bucket - first) // joined] += count
        width = joined * self._width_us
        start = first * self._width_us
        return [
            {"from_us": start + at * width, "to_us": start + (at + 1) * width, "entries": totals[at]}
            for at in range(max(totals) + 1)
        ]


def statistics(records: Iterable[EntryRecord]) -> Json:
    """The numbers of ``records``; one pass, memory for as many counters as there are processes."""
    kinds: Counter[str] = Counter()
    pids: Counter[int] = Counter()
    addresses: dict[int, str] = {}
    denials: Counter[str] = Counter()
    doubts: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    rate = Rate()
    first_us = last_us = None
    for record in records:
        entry = record.entry
        first_us = entry.time_us if first_us is None else first_us
        last_us = entry.time_us
        kinds[entry.kind] += 1
        pids[entry.pid] += 1
        sizes["leaves"] += len(record.leaf)
        sizes["bodies"] += len(record.body_bytes or b"")
        sizes["erased"] += record.erased
        rate.add(entry.time_us)
        if entry.kind in _COUNTED and not record.erased:
            _count(entry.kind, record.body, addresses, denials, doubts, tokens)
    return {
        "entries": kinds.total(),
        "first_us": first_us,
        "last_us": last_us,
        "kinds": dict(kinds.most_common()),
        "processes": [
            {"pid": pid, "address": addresses.get(pid, "the kernel" if pid == 0 else ""), "entries": count}
            for pid, count in pids.most_common()
        ],
        "denials": {"count": denials.total(), "tools": dict(denials.most_common())},
        "doubts": {name: doubts[name] for name in ("arisen", "resolved")},
        "tokens": {name: tokens[name] for name in ("input", "output", "answers")},
        "bytes": {name: sizes[name] for name in ("leaves", "bodies")},
        "erased": sizes["erased"],
        "rate": rate.rows(),
    }


_COUNTED = frozenset(("process.started", "tool.verdict", "tool.outcome", "tool.resolved", "model.answered"))


def _count(
    kind: str,
    body: dict[str, Any],
    addresses: dict[int, str],
    denials: Counter[str],
    doubts: Counter[str],
    tokens: Counter[str],
) -> None:
    if kind == "process.started":
        addresses[body["pid"]] = body["address"]
    elif kind == "tool.verdict":
        denials.update([body["tool"]] * (body["decision"] == "deny"))
    elif kind == "tool.outcome":
        doubts["arisen"] += body["status"] == "in_doubt"
    elif kind == "tool.resolved":
        doubts["resolved"] += not body["by"].startswith("node")
    else:
        tokens.update(input=body["input_tokens"], output=body["output_tokens"], answers=1)
