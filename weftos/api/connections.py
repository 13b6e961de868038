"""Which connections the control API holds: decided here, with plain values, and done by the listener.

A connection either *waits* for its caller (it is new, half a request has come, it is idle, or nobody reads its answer)
or is *busy* for him. Who waits gives way: when there is no room for a newcomer, the one that has waited longest is
closed, of the caller who has most. So half-sent requests keep nobody out, however many. Busy ones give way to nobody; a
caller may only have so many, and the last few places are for callers who have none: the operator's.

A caller is a process, as the operating system names it; everything that the node itself has started, cells, tools and
what they started, is one. So are all those of whom nobody can say where they come from: a connection outlives the
process that opened it and handed it on, and whoever makes a new one for each would have all places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

OWN_PROCESSES = "the node's own processes"
UNKNOWN = "processes that are gone"
_INIT = 1
_MAX_DEPTH = 64


def caller_of(os_pid: int, node: int, parent_of: Callable[[int], int | None]) -> Hashable:
    """Who is counted as one with ``os_pid``, at a node that is process ``node``; ``parent_of`` knows none of who is
    gone.
    """
    above: int | None = os_pid
    for _ in range(_MAX_DEPTH):
        if above is None:
            return UNKNOWN
        if above == node and os_pid != node:
            return OWN_PROCESSES
        if above <= _INIT:
            return os_pid
        above = parent_of(above)
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``reserved`` of ``total`` are for callers that have none. Header, and header with body, are to come within the
    two times, counted from the first byte, or from the connection when none comes."""

    total: int = 256
    per_caller: int = 64
    reserved: int = 8
    header_s: float = 10.0
    request_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a newcomer comes in; which connection is closed for it; why not."""

    admitted: bool
    closes: Hashable = None
    why: str = ""


@dataclass(slots=True)
class _Held:
    caller: Hashable
    waits_since: float | None


class Connections:
    """Those that are held. ``now`` is any clock that does not go back, in seconds."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._held: dict[Hashable, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def admit(self, key: Hashable, caller: Hashable, now: float) -> Admission:
        """A newcomer. It is held from now on, and waits, if it is admitted."""
        counts = Counter(held.caller for held in self._held.values())
        closes: Hashable = None
        limits = self._limits
        if counts[caller] >= limits.per_caller:
            closes = self._longest_waiting([caller])
            why = f"this caller has {counts[caller]} connections, limit {limits.per_caller}"
        elif len(self._held) >= (limits.total - limits.reserved if counts[caller] else limits.total):
            closes = self._longest_waiting([other for other, _ in counts.most_common()])
            why = f"{len(self._held)} connections are busy, limit {limits.total}"
        else:
            why = ""
        if why and closes is None:
            return Admission(False, why=f"{why}: end some, or ask again later")
        self._held.pop(closes, None)
        self._held[key] = _Held(caller, now)
        return Admission(True, closes)

    def busy(self, key: Hashable) -> None:
        """The node works for it; it does not give way."""
        if held := self._held.get(key):
            held.waits_since = None

    def waits(self, key: Hashable, now: float) -> None:
        """It is the caller's turn to do something."""
        if (held := self._held.get(key)) and held.waits_since is None:
            held.waits_since = now

    def leave(self, key: Hashable) -> None:
        self._held.pop(key, None)

    def _longest_waiting(self, callers: list[Hashable]) -> Hashable:
        """Of the first of these callers of whose connections one waits; None when none does."""
        for caller in callers:
            waiting = [
                (held.waits_since, key)
                for key, held in self._held.items()
                if held.caller == caller and held.waits_since is not None
            ]
            if waiting:
                return min(waiting, key=lambda one: one[0])[1]
        return None
