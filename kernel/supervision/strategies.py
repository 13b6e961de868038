"""Strategies: which children a supervisor restarts when one of them has failed, and after how long.

A strategy is a function of the supervisor, the child that failed, why, and a jitter in [0, 1); :data:`STRATEGIES` has
all of them by name. That it may restart at all, the reducer has seen to: the failure is charged, and not in excess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kernel.model.states import SlotEvent
from kernel.supervision.events import StartChild, StartChildAfter
from kernel.supervision.group_restart import restart_behind
from kernel.supervision.specs import Flags
from kernel.supervision.supervisor import Child, Phase, Result, Supervisor


class Strategy(NamedTuple):
    """``in_order``: children depend on those before them, so that each is started when the one before it runs, also
    when the supervisor itself begins. ``dynamic``: children are made of one template and come and go; a slot is kept
    only while its child is meant to run, and at the end of the supervisor all have their time together.
    """

    restart: Callable[[Supervisor, Child, str, float], Result]
    in_order: bool = False
    dynamic: bool = False


def one_for_one(sup: Supervisor, child: Child, reason: str, jitter: float) -> Result:
    """Only the child that failed is restarted."""
    delay_s = sup.flags.backoff_s(child.row, jitter)
    child, effects = child.move(SlotEvent.FAILED, reason)
    child = replace(child, row=child.row + 1, phase=Phase.WAITING if delay_s else Phase.STARTING)
    id = child.spec.id
    return sup.put(child), (*effects, StartChildAfter(id, delay_s) if delay_s else StartChild(id))


def one_for_all(sup: Supervisor, child: Child, reason: str, jitter: float) -> Result:
    """All children are."""
    return restart_behind(sup, -1, child, reason, jitter)


def rest_for_one(sup: Supervisor, child: Child, reason: str, jitter: float) -> Result:
    """The child that failed, and those added after it, are."""
    return restart_behind(sup, child.order - 1, child, reason, jitter)


STRATEGIES: Mapping[str, Strategy] = {
    "one_for_one": Strategy(one_for_one),
    "one_for_all": Strategy(one_for_all, in_order=True),
    "rest_for_one": Strategy(rest_for_one, in_order=True),
    "simple_one_for_one": Strategy(one_for_one, dynamic=True),
}


def is_dynamic(sup: Supervisor) -> bool:
    """Whether its children are made of one template."""
    return STRATEGIES[sup.flags.strategy].dynamic


def strategy_faults(flags: Flags) -> list[str]:
    """What is wrong with the strategy of ``flags``, in words."""
    strategy = STRATEGIES.get(flags.strategy)
    if strategy is None:
        return [f"strategy is {flags.strategy!r}, must be one of {', '.join(STRATEGIES)}"]
    if flags.strategy != "one_for_one" and flags.on_exceed == "park":
        return [f"strategy is {flags.strategy} and on_exceed park, which is for unrelated children"]
    if strategy.dynamic and flags.template is None:
        return [f"strategy is {flags.strategy}, which makes its children of a template: say one"]
    if not strategy.dynamic and flags.template is not None:
        return [f"strategy is {flags.strategy}, which has no template: leave it out"]
    return []


def combination_faults(flags: Flags) -> list[str]:
    """Flags that are right in themselves, and do not go together."""
    if flags.template is not None and flags.template.on_logical == "park":
        return [f"strategy is {flags.strategy} and on_logical park: nobody could start such a child by name"]
    if STRATEGIES[flags.strategy].dynamic and flags.auto_shutdown != "never":
        return [f"strategy is {flags.strategy} and auto_shutdown {flags.auto_shutdown}, which must be never"]
    return []
