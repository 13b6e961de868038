"""Whether a turn gets on: who asks the same again and again, and is told the same, will not come to an end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from kernel.slices.turns import Call

LOOKED_AT = 1_000


def no_progress(calls: dict[str, Call], known: int, ops: Collection[str], same: int, failed: int) -> str:
    """Why the process that made all of ``calls`` (in the order in which they were recorded) but the first ``known``
    does not get on, in words; empty when it does, as far as can be told. ``ops``: of which kinds those are, so that
    none of a kind which is not there is looked for in all of them.

    No progress are ``same`` calls of a tool in a row, with the same arguments and the same whole result, and ``failed``
    calls in a row of tools, or of models, none of which succeeded; 0: that is not looked for. What a process asks a
    model between two calls of a tool is never the same, so each of the two is looked at by itself. A call without an
    outcome does not count. This is asked at each call, so no more than the newest ``LOOKED_AT`` are looked at, or twice
    as many as are asked about.
    """
    known = max(known, len(calls) - max(LOOKED_AT, 2 * same, 2 * failed))
    if same and "tool" in ops and (newest := next(_ended(calls, known, "tool"), None)) is not None:
        alike = takewhile(lambda call: _is_like(call, newest), _ended(calls, known, "tool"))
        if _count(alike, same) == same:
            return (
                f"{newest.name} was called {same} times in a row with the same arguments and the same result"
            )
    for op in ("tool", "model") if failed else ():
        if op in ops and _count(takewhile(_has_failed, _ended(calls, known, op)), failed) == failed:
            return f"{failed} calls of {op}s in a row have failed"
    return ""


def _ended(calls: dict[str, Call], known: int, op: str) -> Iterator[Call]:
    """Those of one kind that have an outcome, the newest first."""
    own = islice(reversed(calls.values()), max(0, len(calls) - known))
    return (call for call in own if call.op == op and call.outcome is not None)


def _count(calls: Iterator[Call], most: int) -> int:
    return sum(1 for _ in islice(calls, most))


def _is_like(call: Call, other: Call) -> bool:
    """Of a result that was cut nobody here knows whether it is the same."""
    told = call.outcome or {}
    return call.call_hash == other.call_hash and told == other.outcome and not told.get("truncated")


def _has_failed(call: Call) -> bool:
    return (call.outcome or {}).get("status") != "ok"
