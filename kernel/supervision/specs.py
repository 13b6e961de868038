"""What is said of a supervisor and of its children: flags and child specs, which can be checked before they count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from kernel.errors import AddressError
from kernel.model.address import validate_name
from kernel.operations.spawning import AutoShutdown, OnLogical, Restart

ChildType = Literal["worker", "supervisor"]
OnExceed = Literal["shutdown", "park"]
INFINITY = float("inf")
ON_LOGICAL = get_args(OnLogical)
RESTARTS = get_args(Restart)
TYPES = get_args(ChildType)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What a supervisor knows of a child. ``shutdown_s``: 0 kills at once, infinity waits for ever. ``significant``:
    its own end may end the supervisor, as that one's ``auto_shutdown`` says. ``on_logical``: what is done when it ends
    for a logical reason: it is restarted as after any failure, parked for a person, or left as one that has ended.
    """

    id: str
    restart: Restart = "permanent"
    shutdown_s: float = 5.0
    type: ChildType = "worker"
    significant: bool = False
    on_logical: OnLogical = "restart"

    def check(self) -> list[str]:
        """Every fault at once, in words."""
        faults = []
        try:
            validate_name(self.id)
        except AddressError as error:
            faults.append(f"id: {error}")
        if self.restart not in RESTARTS:
            faults.append(f"restart is {self.restart!r}, must be one of {', '.join(RESTARTS)}")
        if not self.shutdown_s >= 0:
            faults.append(f"shutdown_s is {self.shutdown_s}, must be 0 or more")
        if self.type not in TYPES:
            faults.append(f"type is {self.type!r}, must be one of {', '.join(TYPES)}")
        if self.on_logical not in ON_LOGICAL:
            faults.append(f"on_logical is {self.on_logical!r}, must be one of {', '.join(ON_LOGICAL)}")
        if self.on_logical == "park" and self.restart == "temporary":
            faults.append("on_logical park is for a child that is kept: a temporary one is gone with its end")
        if self.on_logical != "restart" and self.type == "supervisor":
            faults.append("on_logical is for a worker: a supervisor ends for no logical reason")
        if self.significant and self.restart == "permanent":
            faults.append(
                "significant is for a child that may end: its restart must be transient or temporary"
            )
        return faults


@dataclass(frozen=True, slots=True)
class Flags:
    """How a supervisor restarts: at most ``intensity`` restarts in any ``period_s``, by a ``strategy`` of those in
    :mod:`kernel.supervision.strategies`. With ``auto_shutdown`` it ends when a significant child has ended by itself,
    or when the last of them has. ``template``: what all children are, but for their ids, where the strategy wants one.
    """

    intensity: int = 5
    period_s: float = 60.0
    on_exceed: OnExceed = "shutdown"
    backoff_base_s: float = 0.2
    backoff_max_s: float = 30.0
    strategy: str = "one_for_one"
    auto_shutdown: AutoShutdown = "never"
    template: ChildSpec | None = None

    def check(self) -> list[str]:
        """Every fault at once, in words."""
        faults = []
        if not 0 <= self.intensity < INFINITY or self.intensity % 1:
            faults.append(f"intensity is {self.intensity}, must be a whole number, 0 or more")
        if not 0 < self.period_s < INFINITY:
            faults.append(f"period_s is {self.period_s}, must be above 0 and finite")
        if self.on_exceed not in get_args(OnExceed):
            faults.append(f"on_exceed is {self.on_exceed!r}, must be one of {', '.join(get_args(OnExceed))}")
        if self.auto_shutdown not in get_args(AutoShutdown):
            modes = ", ".join(get_args(AutoShutdown))
            faults.append(f"auto_shutdown is {self.auto_shutdown!r}, must be one of {modes}")
        if self.template is not None:
            faults += [f"template: {fault}" for fault in replace(self.template, id="template").check()]
        if not 0 < self.backoff_base_s <= self.backoff_max_s < INFINITY:
            faults.append(
                f"backoff_base_s is {self.backoff_base_s} and backoff_max_s {self.backoff_max_s}, "
                "must be above 0, finite, and the first not above the second"
            )
        return faults

    def against(self, spec: ChildSpec) -> list[str]:
        """What keeps a child, whose spec is right in itself, from being one of theirs."""
        if self.template is not None and spec != replace(self.template, id=spec.id):
            return ["it is another than the template says"]
        if spec.significant and self.auto_shutdown == "never":
            return [
                "it is significant, and its supervisor has auto_shutdown never: choose another, or leave it out"
            ]
        return []

    def backoff_s(self, row: int, jitter: float) -> float:
        """0 for the first of a row, then doubling up to the greatest; jitter takes away up to half."""
        if row == 0:
            return 0.0
        doubled = self.backoff_base_s * 2.0 ** min(row - 1, 64)
        return min(self.backoff_max_s, doubled) * (0.5 + 0.5 * jitter)
