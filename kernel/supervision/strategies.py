"""Strategies: which children a supervisor restarts when one of them has failed, and after how long.

A strategy is a function of the supervisor, the child that failed, why, and a jitter in [0, 1); :data:`STRATEGIES` has
all of them by name. That it may restart at all, the reducer has seen to: the failure is charged, and not in excess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kernel.model.states import SlotEvent
from kernel.supervision.supervisor import (
    Child,
    Flags,
    Phase,
    Result,
    StartChild,
    StartChildAfter,
    Supervisor,
)

Strategy = Callable[[Supervisor, Child, str, float], Result]


def one_for_one(sup: Supervisor, child: Child, reason: str, jitter: float) -> Result:
    """Only the child that failed is restarted."""
    delay_s = backoff_s(sup.flags, child.row, jitter)
    child, effects = child.move(SlotEvent.FAILED, reason)
    child = replace(child, row=child.row + 1, phase=Phase.WAITING if delay_s else Phase.STARTING)
    id = child.spec.id
    return sup.put(child), (*effects, StartChildAfter(id, delay_s) if delay_s else StartChild(id))


STRATEGIES: Mapping[str, Strategy] = {"one_for_one": one_for_one}


def strategy_faults(flags: Flags) -> list[str]:
    """What is wrong with the strategy of ``flags``, in words."""
    if flags.strategy in STRATEGIES:
        return []
    return [f"strategy is {flags.strategy!r}, must be one of {', '.join(STRATEGIES)}"]


def backoff_s(flags: Flags, row: int, jitter: float) -> float:
    """0 for the first of a row, then doubling up to the greatest; jitter takes away up to half."""
    if row == 0:
        return 0.0
    doubled = flags.backoff_base_s * 2.0 ** min(row - 1, 64)
    return min(flags.backoff_max_s, doubled) * (0.5 + 0.5 * jitter)
