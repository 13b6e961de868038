"""Supervision as a reducer: state and event in, state and effects out, by the rules of Erlang/OTP.

    begin(flags, children: Iterable[tuple[ChildSpec, SlotState]] = ()) -> (Supervisor, tuple[Effect, ...])
    step(sup, event, now_s: float, jitter: float in [0, 1)) -> (Supervisor, tuple[Effect, ...])
    add_all(sup, specs) -> (Supervisor, tuple[Effect, ...])              as an Add of each, for the table of them once
    all_started(sup, starts: Sequence[Started], now_s) -> (Supervisor, tuple[Effect, ...])    as each of these

    events   asked for (may raise SupervisionError, the state is then as before):
             Add(spec) Start(id) Stop(id, why, cause) Restart(id, why, cause) Remove(id)
             Shutdown(reason="shutdown")
             ChangeSpec(spec) ChangeFlags(flags)
             reports: Started(id, pid) StartFailed(id, reason, batch=None)
             Exited(id, pid, reason, batch=None) RestartDue(id)
    effects  StartChild(id) StartChildAfter(id, delay_s) StopChild(id, reason, timeout_s, why, cause)
             SlotChanged(id, state, why, cause) Dropped(id, why) GiveUp(reason)
    views    sup.children  sup.child(id)  sup.counts()  sup.closing  sup.ended
    ChildSpec.check() -> list[str]    Flags.check() -> list[str]

What the shell owes: after StartChild, one Started or one StartFailed (an Exited before Started is taken as
that); after Started, one Exited; after StartChildAfter, RestartDue when the delay is over; after StopChild,
the exit signal with ``reason`` and a kill ``timeout_s`` later (0: kill at once), and then Exited. Reports
that fit no present incarnation are ignored. That a slot runs again follows from the start that was reported, and no
effect says it.

Strategies are those of :data:`kernel.supervision.strategies.STRATEGIES`. A restart of several children stops and
starts them one by one (:mod:`kernel.supervision.group_restart`); what is asked for meanwhile is answered, and a child
that is added or started by name takes its place among those that are to be started. What ends before its turn to stop
is part of the restart and not charged. Where children depend on those before them, :func:`begin` starts them so too.

A significant child that ends by itself and for good while it runs ends the whole, as ``auto_shutdown`` says; what is
told to stop, or goes along with a restart of several, does not. Children of a template are kept only while they are
meant to run, and are all told to stop at once at the end of the whole (ADR 32).

Additions to OTP. The first restart after quiet is immediate, later ones back off exponentially with jitter;
quiet means that the child had run for a whole intensity period. Each restart, also one whose start fails,
is charged; the one that exceeds the intensity is not done, and ``on_exceed`` says what is done instead:

    shutdown  OTP's answer. Charges count for the supervisor; exits with the same ``batch`` (one cell's death)
              are charged once, and a blameless one without (its engine went, no cell came) is not charged.
              Nor is a batch that begins with a start that was asked for and failed by itself: that child is
              not started again, so the restarts of the others are no sign that restarts do not help.
              Children are stopped in reverse order, then the supervisor gives up.
    park      for a supervisor of unrelated children. Charges count for each child by itself, and a child lost
              with its cell (states.is_blameless) is not charged. The child that exceeds is parked.

A child that ends for a logical reason (states.is_logical) would end so again, so its spec says what follows
(``on_logical``). ``end``: it has ended by itself and for good, as a transient child does in order. ``park``: it waits
for a person, whatever the intensity, and has not ended for good. Neither is charged, and neither touches a sibling,
whatever the strategy. What ends so before its turn in a restart of several is part of that, as every end is.

A child that was added and does not start is dropped; one that was started again by name and does not start
is stopped; as in OTP, who asked gets the error, and nothing is charged. That is so for a start that failed by itself.
One that was lost with its cell, or that a restart of several stopped before the child ran, is made again, and is still
the start that was asked for; one that a shutdown of the whole overtook is made up for as its restart type says. A
shutdown with reason ``killed`` kills the children instead of stopping them, also when it overtakes an orderly
one. Stop sets the slot at once and not when the exit comes, so that a node that crashes in between keeps to
it; no restart of several brings back what was stopped. A supervisor that has given up takes no Stop: its slots
may have been read for the next one. When a whole supervisor ends, slots keep their state: :func:`begin` starts
again what was running or restarting, leaves what was parked or stopped, and drops temporary children.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from kernel.errors import SupervisionError
from kernel.model.states import (
    SHUTDOWN,
    SLOT_TABLE,
    SlotEvent,
    SlotState,
    advance,
    is_blameless,
    is_logical,
    is_orderly,
)
from kernel.supervision.changes import change_flags, change_spec
from kernel.supervision.closing import close, close_on, shut_down
from kernel.supervision.events import (
    Add,
    ChangeFlags,
    ChangeSpec,
    Dropped,
    Effect,
    Event,
    Exited,
    GiveUp,
    Remove,
    Restart,
    RestartDue,
    Shutdown,
    SlotChanged,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
)
from kernel.supervision.group_restart import (
    backed_off,
    ended_in_restart,
    go_on,
    is_in_restart,
    queue,
    start_in_order,
)
from kernel.supervision.refusals import check_child, is_closing, refuse, refuse_closing, refuse_dynamic
from kernel.supervision.specs import INFINITY, ChildSpec, Flags
from kernel.supervision.strategies import (
    STRATEGIES,
    combination_faults,
    is_dynamic,
    strategy_faults,
)
from kernel.supervision.supervisor import Child, Phase, Result, Supervisor

__all__ = [
    "INFINITY",
    "STRATEGIES",
    "Add",
    "ChangeFlags",
    "ChangeSpec",
    "Child",
    "ChildSpec",
    "Dropped",
    "Effect",
    "Event",
    "Exited",
    "Flags",
    "GiveUp",
    "Phase",
    "Remove",
    "Restart",
    "RestartDue",
    "Shutdown",
    "SlotChanged",
    "SlotState",
    "Start",
    "StartChild",
    "StartChildAfter",
    "StartFailed",
    "Started",
    "Stop",
    "StopChild",
    "Supervisor",
    "add_all",
    "all_started",
    "begin",
    "step",
]


def begin(flags: Flags, children: Iterable[tuple[ChildSpec, SlotState]] = ()) -> Result:
    """A supervisor and, after a restart of it or of the node, the children it had, in their order.

    A child that does not start now is treated as one that fails to restart.
    """
    refuse("bad_flags", "flags", flags.check() + strategy_faults(flags))
    refuse("bad_combination", "flags", combination_faults(flags))
    in_order, dynamic = STRATEGIES[flags.strategy].in_order, STRATEGIES[flags.strategy].dynamic
    begun: dict[str, Child] = {}
    effects: list[Effect] = []
    for spec, slot in children:
        if dynamic:  # it may be of an earlier template
            refuse("bad_spec", f"child {spec.id!r}", spec.check())
        else:
            check_child(flags, spec)
        if spec.id in begun:
            raise SupervisionError("bad_spec", f"child {spec.id!r} is listed twice: give each its own id")
        if spec.restart == "temporary":
            effects.append(Dropped(spec.id, "temporary"))
        elif slot in (SlotState.RUNNING, SlotState.RESTARTING):
            phase = Phase.QUEUED if in_order else Phase.STARTING
            begun[spec.id] = Child(spec, len(begun), SlotState.RESTARTING, phase)
            if not in_order:
                effects.append(StartChild(spec.id))
        elif dynamic:
            effects.append(Dropped(spec.id, str(slot)))
        else:
            begun[spec.id] = Child(spec, len(begun), slot, Phase.NONE)
    sup = Supervisor.having(flags, begun)
    return go_on(start_in_order(sup) if in_order else sup, tuple(effects))


def step(sup: Supervisor, event: Event, now_s: float, jitter: float) -> Result:
    """One event. ``now_s`` is monotonic; ``jitter`` is random in [0, 1)."""
    return _dated(*go_on(*_step(sup, event, now_s, jitter)), now_s)


def _dated(sup: Supervisor, effects: tuple[Effect, ...], now_s: float) -> Result:
    """With the time until which those wait whose back-off has just begun."""
    for effect in effects:
        if isinstance(effect, StartChildAfter) and (child := sup.table.get(effect.id)) is not None:
            sup = sup.put(replace(child, failed_s=now_s, due_s=now_s + effect.delay_s))
    return sup, effects


def _step(sup: Supervisor, event: Event, now_s: float, jitter: float) -> Result:
    match event:
        case Add():
            return _add(sup, event.spec)
        case Start():
            return _start(sup, event.id)
        case Stop():
            return _stop(sup, event)
        case Restart():
            return _restart(sup, event)
        case Remove():
            return _remove(sup, event.id)
        case ChangeSpec():
            return change_spec(sup, event.spec)
        case ChangeFlags():
            return change_flags(sup, event.flags)
        case Shutdown():
            return shut_down(sup, event.reason)
        case Started():
            return _started(sup, event, now_s)
        case StartFailed() | Exited():
            return _gone(sup, event, now_s, jitter)
        case RestartDue():
            return _restart_due(sup, event.id)
        case _:
            assert_never(event)


# Asked for


def _add(sup: Supervisor, spec: ChildSpec) -> Result:
    refuse_closing(sup)
    _refuse_child(sup, spec)
    return _start_asked(sup, _new(spec, sup.added), ())


def _refuse_child(sup: Supervisor, spec: ChildSpec) -> None:
    check_child(sup.flags, spec)
    present = sup.table.get(spec.id)
    if present is not None:
        if present.phase is Phase.NONE:
            raise SupervisionError(
                "already_present",
                f"child {spec.id!r} exists and is {present.slot}: start it, or remove it first",
            )
        raise SupervisionError("already_started", f"child {spec.id!r} exists and is {present.phase}")


def _new(spec: ChildSpec, order: int) -> Child:
    return Child(spec, order, SlotState.RUNNING, Phase.STARTING, asked="add")


def add_all(sup: Supervisor, specs: Sequence[ChildSpec]) -> Result:
    """An Add of each, or of none: raises what the first of them would that cannot be."""
    refuse_closing(sup)
    children: dict[str, Child] = {}
    for spec in specs:
        if spec.id in children:
            raise SupervisionError("already_started", f"child {spec.id!r} is added twice")
        _refuse_child(sup, spec)
        children[spec.id] = _new(spec, sup.added + len(children))
    if sup.group is None and children:
        return sup.put_each(children), tuple(map(StartChild, children))
    effects: tuple[Effect, ...] = ()
    for spec in specs:  # those that a restart of several has to start wait for it
        sup, more = go_on(*_add(sup, spec))
        effects += more
    return sup, effects


def _start_asked(sup: Supervisor, child: Child, effects: tuple[Effect, ...]) -> Result:
    """``effects``, and the start of ``child``: at once, unless that is for a restart of several to do."""
    if is_in_restart(sup, child):
        return queue(sup, child), effects
    return sup.put(child), (*effects, StartChild(child.spec.id))


def _start(sup: Supervisor, id: str) -> Result:
    refuse_closing(sup)
    refuse_dynamic(sup)
    child = sup.child(id)
    if child.slot is SlotState.RESTARTING:
        raise SupervisionError("restarting", f"child {id!r} is being restarted already")
    if child.phase is not Phase.NONE:
        raise SupervisionError("running", f"child {id!r} is {child.phase}")
    child, effects = child.move(SlotEvent.START, "start")
    return _start_asked(sup, replace(child, phase=Phase.STARTING, asked="start", row=0, charges=()), effects)


def _stop(sup: Supervisor, event: Stop) -> Result:
    if sup.ended:  # whoever begins anew with the slots may have read them already
        raise is_closing(sup)
    child, effects = sup.child(event.id).move(SlotEvent.STOP, "stop", event.cause)
    child = replace(child, asked="")
    if child.phase is Phase.QUEUED and child.spec.restart == "temporary":
        return _drop(sup, child, "stop")
    if child.phase is Phase.WAITING and is_dynamic(sup):
        return _drop(sup, child, "stop", effects)
    if child.phase in (Phase.WAITING, Phase.QUEUED):
        child = replace(child, phase=Phase.NONE)
    elif child.phase in (Phase.STARTING, Phase.UP) and sup.closing is None:
        child = replace(child, phase=Phase.STOPPING)
        effects = (*effects, StopChild(event.id, event.reason, child.spec.shutdown_s, event.why, event.cause))
    return sup.put(child), effects


def _restart(sup: Supervisor, event: Restart) -> Result:
    refuse_closing(sup)
    id = event.id
    child = sup.child(id)
    if child.spec.restart == "temporary":
        raise SupervisionError("bad_combination", f"child {id!r} is temporary: it is gone with its end")
    if child.phase is not Phase.UP:
        raise SupervisionError(
            "restarting", f"child {id!r} is {child.phase}: only one that runs is restarted"
        )
    child, effects = child.move(SlotEvent.FAILED, "restart", event.cause)
    child = replace(child, phase=Phase.STOPPING)
    stop = StopChild(id, SHUTDOWN, child.spec.shutdown_s, event.why, event.cause)
    return sup.put(child), (*effects, stop)


def _remove(sup: Supervisor, id: str) -> Result:
    refuse_closing(sup)
    refuse_dynamic(sup)
    child = sup.child(id)
    if child.slot is SlotState.RESTARTING:
        raise SupervisionError("restarting", f"child {id!r} is being restarted: stop it first")
    if child.phase is not Phase.NONE:
        raise SupervisionError("running", f"child {id!r} is {child.phase}: stop it first")
    return _drop(sup, child, "removed")


# Reports


def all_started(sup: Supervisor, starts: Sequence[Started], now_s: float) -> Result:
    """As each of these reports."""
    ids = {event.id for event in starts}
    if sup.group is None and len(ids) == len(starts):
        found = {event.id: child for event in starts if (child := _up(sup, event, now_s)) is not None}
        return (sup.put_each(found) if found else sup), ()
    effects: tuple[Effect, ...] = ()
    for event in starts:
        sup, more = step(sup, event, now_s, 0.0)
        effects += more
    return sup, effects


def _started(sup: Supervisor, event: Started, now_s: float) -> Result:
    child = _up(sup, event, now_s)
    return (sup if child is None else sup.put(child)), ()


def _up(sup: Supervisor, event: Started, now_s: float) -> Child | None:
    """The child as it is now; None when the report is not about its present incarnation."""
    child = sup.table.get(event.id)
    if child is None or child.pid is not None:
        return None
    if child.phase is Phase.STOPPING:
        return replace(child, pid=event.pid, asked="")
    if child.phase is not Phase.STARTING:
        return None
    slot = child.slot
    if slot is not SlotState.STOPPED:  # by name, while the supervisor is closing and its turn has not come
        slot = advance(SLOT_TABLE, slot, SlotEvent.STARTED)
    return Child(  # each start comes here, and replace() takes thrice as long
        child.spec,
        child.order,
        slot,
        Phase.UP,
        event.pid,
        "",
        now_s,
        child.row,
        child.charges,
        child.failed_s,
        child.due_s,
    )


def _gone(sup: Supervisor, event: StartFailed | Exited, now_s: float, jitter: float) -> Result:
    """The child's incarnation is no more, or never was."""
    child = sup.table.get(event.id)
    if child is None or not _fits(child, event):
        return sup, ()
    phase, in_restart = child.phase, is_in_restart(sup, child)
    child = replace(child, phase=Phase.NONE, pid=None)
    told = phase is Phase.STOPPING or sup.closing is not None
    over = not told and _is_over(child, phase, event.reason)
    refused = over and phase is Phase.STARTING
    if refused and event.batch is not None:
        sup = replace(sup, pardoned=event.batch)
    if child.spec.restart == "temporary":
        sup, effects = _drop(sup, child, event.reason)
    elif is_dynamic(sup) and (over or not child.is_wanted):
        child, effects = child.move(SlotEvent.STOP, event.reason)
        sup, effects = _drop(sup, child, event.reason, effects)
    elif refused and child.asked == "add":
        sup, effects = _drop(sup, child, event.reason)
    elif in_restart and child.is_wanted and not refused:
        return ended_in_restart(sup, child.rested(sup.flags, now_s))
    elif phase is Phase.STOPPING and sup.closing is None and child.slot is SlotState.RESTARTING:
        return sup.put(replace(child, phase=Phase.STARTING, row=0)), (StartChild(child.spec.id),)
    elif told:
        sup, effects = sup.put(child), ()
    elif over:
        child, effects = child.move(SlotEvent.ENDED, event.reason)
        sup = sup.put(child)
    elif phase is Phase.UP and is_logical(event.reason) and child.spec.on_logical == "park":
        child, effects = child.move(SlotEvent.PARK, event.reason)
        return sup.put(child), effects
    else:
        return _failed(sup, child, event, now_s, jitter)
    if phase is Phase.UP and not told and not in_restart and _ends_the_whole(sup, child):
        sup, stops = close(sup, SHUTDOWN)
        return sup, (*effects, *stops)
    return close_on(sup, effects)


def _ends_the_whole(sup: Supervisor, child: Child) -> bool:
    """Whether ``child``, which has ended by itself and for good, was the significant one, or the last of them."""
    if not child.spec.significant:  # as none is where auto_shutdown is never
        return False
    return sup.flags.auto_shutdown == "any_significant" or not sup.significant


def _fits(child: Child, event: StartFailed | Exited) -> bool:
    """Whether ``event`` is about the child's present incarnation, and not about an earlier one."""
    if not child.is_alive:
        return False
    if child.pid is None:
        return True
    return isinstance(event, Exited) and event.pid == child.pid


def _is_over(child: Child, phase: Phase, reason: str) -> bool:
    if phase is Phase.STARTING and not is_blameless(reason):
        return child.asked != ""  # who asked is told
    if is_logical(reason) and child.spec.on_logical == "end":
        return True
    return child.spec.restart == "transient" and is_orderly(reason)


def _restart_due(sup: Supervisor, id: str) -> Result:
    after = backed_off(sup, id)
    if after is not None:
        return after, ()
    child = sup.table.get(id)
    if child is None or child.phase is not Phase.WAITING:
        return sup, ()
    return sup.put(replace(child, phase=Phase.STARTING)), (StartChild(id),)


# Failures: charge, then restart by strategy, or the answer to excess


def _failed(
    sup: Supervisor, child: Child, event: StartFailed | Exited, now_s: float, jitter: float
) -> Result:
    child = child.rested(sup.flags, now_s)
    if sup.flags.on_exceed == "park":
        if not is_blameless(event.reason):
            child = replace(child, charges=(*_recent(child.charges, sup.flags, now_s), now_s))
        if len(child.charges) > sup.flags.intensity:
            child, effects = child.move(SlotEvent.EXCEEDED, event.reason)
            return sup.put(child), effects
    else:
        charges = tuple(charge for charge in sup.charges if now_s - charge[0] <= sup.flags.period_s)
        if _is_charged(sup, event, charges):
            charges = (*charges, (now_s, event.batch))
        sup = replace(sup, charges=charges)
        if len(charges) > sup.flags.intensity:
            return close(sup.put(child), SHUTDOWN)
    return STRATEGIES[sup.flags.strategy].restart(sup, child, event.reason, jitter)


def _is_charged(
    sup: Supervisor, event: StartFailed | Exited, charges: tuple[tuple[float, str | None], ...]
) -> bool:
    """Whether it counts for the whole, beside what has been charged."""
    if event.batch is None:
        return not is_blameless(event.reason)
    return event.batch != sup.pardoned and all(batch != event.batch for _, batch in charges)


def _recent(charges: tuple[float, ...], flags: Flags, now_s: float) -> tuple[float, ...]:
    return tuple(at for at in charges if now_s - at <= flags.period_s)


# Small parts


def _drop(sup: Supervisor, child: Child, why: str, effects: tuple[Effect, ...] = ()) -> Result:
    """``effects``, and the end of the slot: that comes when its mail and its memories have gone, so whoever would be
    begun again until then is said to be down first.
    """
    return sup.without(child.spec.id), (*effects, Dropped(child.spec.id, why))
