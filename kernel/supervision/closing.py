"""The end of a whole supervisor: its children are stopped, and then it gives up."""

from __future__ import annotations

from dataclasses import replace

from kernel.model.states import KILLED, SHUTDOWN
from kernel.supervision.events import Dropped, Effect, GiveUp, StopChild
from kernel.supervision.strategies import is_dynamic
from kernel.supervision.supervisor import Child, Phase, Result, Supervisor


def shut_down(sup: Supervisor, reason: str) -> Result:
    """``killed`` overtakes a shutdown that is under way, as a kill does; nothing else does."""
    if sup.closing is None:
        return close(sup, reason)
    if reason != KILLED or sup.closing == KILLED:
        return sup, ()
    sup = replace(sup, closing=reason)
    return _stop_all(sup, ()) if is_dynamic(sup) else close_on(sup, ())


def close(sup: Supervisor, reason: str) -> Result:
    """Stop the children one after the other in reverse order, or those of a template all together; then give up."""
    effects: tuple[Effect, ...] = ()
    for child in sup.children:
        if child.phase is Phase.QUEUED and child.spec.restart == "temporary":
            sup, effects = sup.without(child.spec.id), (*effects, Dropped(child.spec.id, reason))
        elif child.phase in (Phase.WAITING, Phase.QUEUED):
            sup = sup.put(replace(child, phase=Phase.NONE))
    to_close = tuple(child.spec.id for child in reversed(sup.children) if child.phase is not Phase.NONE)
    sup = replace(sup, group=None, closing=reason, to_close=to_close)
    return _stop_all(sup, effects) if is_dynamic(sup) else close_on(sup, effects)


def _stop_all(sup: Supervisor, effects: tuple[Effect, ...]) -> Result:
    """All at once: the time that each has to end passes for all of them together."""
    kill = sup.closing == KILLED
    told = [child for child in sup.children if child.is_alive and (kill or child.phase is not Phase.STOPPING)]
    stops = [_stop(child, kill) for child in told]
    sup = sup.put_all(replace(child, phase=Phase.STOPPING) for child in told)
    return close_on(sup, (*effects, *stops))


def _stop(child: Child, kill: bool) -> StopChild:
    if kill:
        return StopChild(child.spec.id, KILLED, 0.0)
    return StopChild(child.spec.id, SHUTDOWN, child.spec.shutdown_s)


def close_on(sup: Supervisor, effects: tuple[Effect, ...]) -> Result:
    """Go on with closing, if closing: ``effects`` and the next stop, or the end when no child is left."""
    if sup.closing is None or sup.ended:
        return sup, effects
    at = sup.closed
    while at < len(sup.to_close):
        child = sup.table.get(sup.to_close[at])
        if child is not None and child.phase is not Phase.NONE:
            break
        at += 1
    else:
        return replace(sup, closed=at, ended=True), (*effects, GiveUp(sup.closing))
    sup, kill = replace(sup, closed=at), sup.closing == KILLED
    if is_dynamic(sup) or (child.phase is Phase.STOPPING and not kill):
        return sup, effects
    return sup.put(replace(child, phase=Phase.STOPPING)), (*effects, _stop(child, kill))
