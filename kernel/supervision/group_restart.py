"""The restart of several children together: they are stopped in the reverse of their order, then started in it.

Theory of operation. Everything goes one after the other: a child is told to stop when the one behind it is gone, and is
started when the one before it runs. In between lies the back-off of the child that failed. The supervisor answers
meanwhile: each event is handled as ever, and then :func:`go_on` looks for what the restart can do next. So nothing that
befalls a child can hold it up: whoever has ended, was stopped by name, or is no more, is passed over.

A child is in the restart while it stands behind ``GroupRestart.reached``, which moves with each start. What was alive
when the restart began is in it whichever way it ends, and that is charged to nobody. What the restart has started is
like any other child: when it fails, that is charged, and begins another restart in the place of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernel.model.states import SHUTDOWN, SlotEvent
from kernel.supervision.events import Effect, StartChild, StartChildAfter, StopChild
from kernel.supervision.supervisor import Child, GroupRestart, Phase, Result, Supervisor


def restart_behind(sup: Supervisor, order: int, failed: Child, reason: str, jitter: float) -> Result:
    """Begin to restart all children behind ``order``, of which ``failed`` is one."""
    why = f"{sup.flags.strategy}: {failed.spec.id} failed ({reason})"
    delay_s = sup.flags.backoff_s(failed.row, jitter)
    failed, effects = failed.move(SlotEvent.FAILED, reason)
    sup = sup.put(replace(failed, row=failed.row + 1, phase=Phase.QUEUED))
    members = [child for child in sup.children if child.order > order]
    alive = [child for child in members if child.is_alive]
    moved = [_bring_back(child, why) for child in alive]
    sup = sup.put_all(child for child, _ in moved)
    effects = (*effects, *(effect for _, each in moved for effect in each))
    group = GroupRestart(
        failed.spec.id,
        why,
        to_stop=tuple(child.spec.id for child in reversed(alive)),
        to_start=tuple(child.spec.id for child in members),
        reached=order,
        delay_s=delay_s,
    )
    return replace(sup, group=group), effects


def _bring_back(child: Child, why: str) -> tuple[Child, tuple[Effect, ...]]:
    """A child that is to be stopped with the others, and started again, unless it was meant to end."""
    if child.is_wanted and child.spec.restart != "temporary":
        return child.move(SlotEvent.FAILED, why)
    return child, ()


def start_in_order(sup: Supervisor) -> Supervisor:
    """Have the children that are queued started one after the other."""
    queued = tuple(child.spec.id for child in sup.children if child.phase is Phase.QUEUED)
    return replace(sup, group=GroupRestart("", "", to_stop=(), to_start=queued, reached=-1))


def is_in_restart(sup: Supervisor, child: Child) -> bool:
    """Whether the restart that is under way has yet to start ``child``."""
    return sup.group is not None and child.order > sup.group.reached


def ended_in_restart(sup: Supervisor, child: Child) -> Result:
    """A child of the restart has ended, and is wanted: it waits for its turn."""
    assert sup.group is not None
    child, effects = child.move(SlotEvent.FAILED, sup.group.why)
    return sup.put(replace(child, phase=Phase.QUEUED)), effects


def queue(sup: Supervisor, child: Child) -> Supervisor:
    """Have the restart that is under way start ``child`` too, in its turn."""
    group = sup.group
    assert group is not None
    left = [id for id in group.to_start[group.begun :] if id != child.spec.id]
    at = len(left)
    while at and _may_follow(sup, left[at - 1], child):  # from the end: who is added is the last
        at -= 1
    left.insert(at, child.spec.id)
    return replace(
        sup.put(replace(child, phase=Phase.QUEUED)), group=replace(group, to_start=tuple(left), begun=0)
    )


def _may_follow(sup: Supervisor, id: str, child: Child) -> bool:
    """Whether ``id`` is behind ``child``, or is no more."""
    other = sup.table.get(id)
    return other is None or other.order > child.order


def go_on(sup: Supervisor, effects: tuple[Effect, ...]) -> Result:
    """``effects``, and the next step of the restart that is under way, if it can be done now."""
    group = sup.group
    if group is None:
        return sup, effects
    stopped, child = _first(sup, group.to_stop, group.stopped, (Phase.STARTING, Phase.UP, Phase.STOPPING))
    sup = replace(sup, group=replace(group, stopped=stopped))
    if child is not None and child.phase is Phase.STOPPING:
        return sup, effects
    if child is not None:
        stop = StopChild(child.spec.id, SHUTDOWN, child.spec.shutdown_s, group.why)
        return sup.put(replace(child, phase=Phase.STOPPING)), (*effects, stop)
    return _start_next(sup, effects)


def _start_next(sup: Supervisor, effects: tuple[Effect, ...]) -> Result:
    group = sup.group
    assert group is not None
    if group.delay_s and not group.waiting:
        sup = replace(sup, group=replace(group, waiting=True))
        return sup, (*effects, StartChildAfter(group.failed, group.delay_s))
    last = sup.table.get(group.starting)
    if group.waiting or (last is not None and last.phase in (Phase.STARTING, Phase.STOPPING)):
        return sup, effects
    begun, child = _first(sup, group.to_start, group.begun, (Phase.QUEUED,))
    if child is None:
        return replace(sup, group=None), effects
    group = replace(group, begun=begun + 1, reached=child.order, starting=child.spec.id)
    sup = replace(sup.put(replace(child, phase=Phase.STARTING)), group=group)
    return sup, (*effects, StartChild(child.spec.id))


def backed_off(sup: Supervisor, id: str) -> Supervisor | None:
    """The supervisor when the back-off of its restart is over with the RestartDue of ``id``; None when that is
    about something else.
    """
    group = sup.group
    if group is None or not group.waiting or group.failed != id:
        return None
    return replace(sup, group=replace(group, delay_s=0.0, waiting=False))


def _first(sup: Supervisor, ids: Sequence[str], at: int, phases: Iterable[Phase]) -> tuple[int, Child | None]:
    """The first of ``ids``, from ``at`` on, that is in one of ``phases``, and where it stands."""
    while at < len(ids):
        child = sup.table.get(ids[at])
        if child is not None and child.phase in phases:
            return at, child
        at += 1
    return at, None
