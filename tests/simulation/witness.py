"""Who reads each entry once, as it comes to the disk, over all boots of a node, and knows nothing of the kernel's
tables: no PID is given twice, nothing ends twice or runs beside its forerunner, each end has a cause that was seen
outside, and no child comes back more often than its intensity says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kernel.model.address import parent as parent_of
from kernel.model.spec import ProcessSpec
from kernel.model.states import CELL_LOST, CRASH, NORMAL, SHUTDOWN, is_blameless, is_orderly, is_reason

SEEN_OUTSIDE = frozenset({CRASH, CELL_LOST, NORMAL})
"""Reasons that the node says of what befell a process, and not of what it did to it."""

LINKED = "ended, and is linked with it"
"""How the end is told of a process that ends as another did."""

SLACK_S = 10.0
"""An entry comes later than what it tells of when the disk is slow or refuses: a period is judged so much shorter."""


class _Intensity(NamedTuple):
    most: int
    window_us: int
    each: bool  # every child by itself


class Witness:
    """Of one node. ``causes``: by PID, what the surroundings did to it; the node may not have heard of all.
    ``checks``: how many entries were looked at; ``gave_up``: how many supervisors ended by their intensity.
    """

    def __init__(self, causes: Mapping[int, Collection[str]]) -> None:
        self._causes = causes
        self._read = 0
        self.checks = self.gave_up = 0
        self._specs: dict[str, ProcessSpec] = {}
        self._started: set[int] = set()
        self._exited: set[int] = set()
        self._reasons: set[str] = set()  # that something has ended with
        self.running: dict[str, int] = {}  # by address, as the entries have it
        self._cells: dict[str, str] = {}  # of those that run
        self._isolated: set[str] = set()
        self._isolated_next: set[str] = set()  # whose successor had its place when that was said
        self._failed: dict[str, int] = {}  # addresses whose process failed, and is not back: when
        self._asked: set[str] = set()  # addresses that a person has had restarted
        self._restarts: dict[
            str, list[int]
        ] = {}  # microseconds; by child, or by supervisor with a slash behind it

    def booted(self) -> None:
        """What ran before does not run any more, and restarts are counted anew."""
        self.running.clear()
        self._isolated |= self._isolated_next
        self._isolated_next.clear()
        self._failed.clear()
        self._asked.clear()
        self._restarts.clear()

    def read(self, entries: Sequence[tuple[Any, Mapping[str, Any]]]) -> list[str]:
        """What those after the ones that it has read say that must never be."""
        broken: list[str] = []
        for entry, body in entries[self._read :]:
            hear = _HEARS.get(entry.kind)
            if hear is not None:
                self.checks += 1
                broken += hear(self, entry.time_us, body)
        self._read = len(entries)
        return broken

    def _spawned(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        address = body["address"]
        self._specs[address] = ProcessSpec.from_json(body["spec"])
        self._isolated.discard(address)
        self._isolated_next.discard(address)
        self._failed.pop(address, None)
        self._restarts.pop(address, None)
        return ()

    def _start(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        address, pid = body["address"], body["pid"]
        if pid in self._started:
            yield f"PID {pid} started at {address}, and was given before"
        if address in self.running:
            yield f"PID {pid} started at {address}, where PID {self.running[address]} has not ended"
        cell = body.get("cell", "")
        yield from self._company(address, cell)
        self._started.add(pid)
        self.running[address], self._cells[address] = pid, cell
        at_us = self._failed.pop(address, None)
        intensity = self._intensity(address)
        if at_us is None or intensity is None:
            return
        times = self._restarts.setdefault(address if intensity.each else f"{parent_of(address)}/", [])
        times.append(at_us)
        times[:] = [time for time in times if at_us - time < intensity.window_us]
        if len(times) > intensity.most:
            yield f"{address} came back, restart {len(times)} within its period, and its intensity is {intensity.most}"

    def _company(self, address: str, cell: str) -> Iterable[str]:
        for other in self.running:
            if cell and self._cells.get(other) == cell and {other, address} & self._isolated:
                yield f"{address} started in {cell} beside {other}, and one of them is to be alone"

    def _fell(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        if body["isolated"]:
            over = body["pid"] in self._exited
            (self._isolated_next if over else self._isolated).add(body["address"])
        return ()

    def _changed(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        self._specs[body["address"]] = ProcessSpec.from_json(body["spec"])
        return ()

    def _exit(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        address, pid, reason = body["address"], body["pid"], body["reason"]
        if pid in self._exited:
            yield f"PID {pid} at {address} ended a second time, with {reason}"
        if self.running.get(address, pid) != pid:
            yield f"PID {pid} ended at {address}, where PID {self.running[address]} runs"
        if not is_reason(reason):
            yield f"PID {pid} at {address} ended with {reason!r}, which is no reason"
        if reason in SEEN_OUTSIDE and reason not in self._causes.get(pid, ()) and not self._is_linked(body):
            yield f"PID {pid} at {address} ended with {reason}, and nothing outside had it end so"
        if reason == SHUTDOWN and self._is_worn_out(address):
            self.gave_up += 1
        self._exited.add(pid)
        self._reasons.add(reason)
        if address in self._isolated_next:
            self._isolated_next.discard(address)
            self._isolated.add(address)
        failed = not (is_orderly(reason) or is_blameless(reason)) and address not in self._asked
        self._asked.discard(address)
        if self.running.pop(address, None) is not None and failed:
            self._failed[address] = time_us
        self._forget_below(address)

    def _slot(self, time_us: int, body: Mapping[str, Any]) -> Iterable[str]:
        address = body["address"]
        if body["state"] == "restarting" and body["why"] == "restart":
            self._asked.add(address)
        elif body["state"] != "restarting":
            self._failed.pop(address, None)
            self._restarts.pop(address, None)
            self._forget_below(address)
        return ()

    def _is_linked(self, body: Mapping[str, Any]) -> bool:
        """Whether it ended as another did that is linked with it; what ends on another node is not on this disk."""
        detail = body.get("detail", "")
        here = detail.startswith("PID ")
        return detail.endswith(LINKED) and (not here or body["reason"] in self._reasons)

    def _is_worn_out(self, address: str) -> bool:
        """Whether a child has failed that would have come back once too often."""
        spec = self._specs.get(address)
        if spec is None or len(self._restarts.get(f"{address}/", ())) < spec.intensity[0]:
            return False
        return spec.type == "supervisor" and any(parent_of(one) == address for one in self._failed)

    def _forget_below(self, address: str) -> None:
        """What is below it ends with it, and its supervisor counts anew."""
        below = f"{address}/"
        for known in (self._failed, self._restarts):
            for one in [one for one in known if one.startswith(below)]:
                del known[one]

    def _each(self, address: str) -> bool:
        above = self._specs.get(parent_of(address))
        return above is None or above.type == "worker" or parent_of(address) == "/user"

    def _intensity(self, address: str) -> _Intensity | None:
        """What its supervisor allows it; None where several are restarted together, of which one failed."""
        above = self._specs.get(parent_of(address))
        if above is None or (above.type == "supervisor" and above.strategy not in _ONE_EACH):
            return None
        most, period_s = above.intensity
        return _Intensity(most, int((period_s - SLACK_S) * 1e6), self._each(address))


_ONE_EACH = ("one_for_one", "simple_one_for_one")
_HEARS = {
    "process.spawned": Witness._spawned,
    "process.changed": Witness._changed,
    "process.started": Witness._start,
    "process.exited": Witness._exit,
    "process.felled": Witness._fell,
    "process.slot": Witness._slot,
}
