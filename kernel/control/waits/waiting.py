"""What a process waits for, since when, and when that ends at the latest. Pure: values in, a value out.

Times are seconds of the node's clock. Each wait has an end, but for these: for a message, for a person, for the end
of what may take for ever by its spec, and for a disk that takes nothing. In a turn none outlasts the turn's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kernel.model.states import ProcessState, SlotState
from kernel.process.live import LiveProcess
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Call
from kernel.supervision.reducer import INFINITY, Child, Phase

Kind = Literal[
    "message",
    "model",
    "provider_slot",
    "tool",
    "worker",
    "reply",
    "node",
    "disk",
    "person",
    "child",
    "parent",
    "sibling",
    "back_off",
    "cell",
]
"""``provider_slot``: a question's turn at its provider, which answers so many at once; ``worker``: a tool's turn in the
worker that runs it; ``node``: this one works on the call; ``sibling``: its turn in a restart of several.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """``of``: whom or what, in words, empty for what ``kind`` says already. ``since_s`` None: nobody knows; ``until_s``
    None: as long as it takes.
    """

    kind: Kind
    of: str
    since_s: float | None
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of an open call beside its record. ``asks``: who is to answer an ``ask``. ``begun_s``: when it was
    handed over, None: not yet. ``limit_s``: what it may take from then on; ``due_s``: when an ask is over, or when a
    question is put that its process wants put later. ``queued_s``: since when a question waits at its provider, None:
    it does not.
    """

    id: str
    since_s: float
    asks: str = ""
    begun_s: float | None = None
    limit_s: float | None = None
    due_s: float | None = None
    queued_s: float | None = None


def of_call(call: Call | None, facts: CallFacts, *, disk_refuses: bool) -> Waiting:
    """What one open call waits for; ``call`` None: it is not on record yet."""
    if disk_refuses and (call is None or call.outcome is not None):
        return Waiting("disk", "", facts.since_s)
    if call is None or call.outcome is not None:
        return Waiting("node", "", facts.since_s)
    if call.doubt:
        return Waiting("person", f"weftos doubts resolve {facts.id}", facts.since_s)
    if call.op == "model":
        whom = call.name.partition(" ")[0]
        if facts.due_s is not None:
            return Waiting("back_off", whom, facts.since_s, facts.due_s)
        if facts.queued_s is not None:
            return Waiting("provider_slot", whom, facts.queued_s)
        since_s = facts.since_s if facts.begun_s is None else facts.begun_s
        return Waiting("model", whom, since_s, _after(since_s, facts.limit_s))
    if call.name == "ask":
        return Waiting("reply", facts.asks, facts.since_s, facts.due_s)
    if facts.begun_s is None:
        return Waiting("worker", call.name, facts.since_s)
    return Waiting("tool", call.name, facts.begun_s, _after(facts.begun_s, facts.limit_s))


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside a slot, its process and what its supervisor has of it.

    ``calls``: what its open calls wait for. ``turn_until_s``: the end of its turn's time. ``ending``: its turn is over,
    and the disk has yet to take that. ``decision``: what a person is to decide of it, as a command, since ``asked_s``.
    ``down_s``: when its last incarnation ended, None: not known. ``below``: it ends, and something below it has yet to.
    ``start_s``: what its start may take; ``shutdown_s``: what its end may. ``failed``: the child because of which it is
    restarted with others, ``group_until_s``: the end of the back-off of that.
    """

    calls: tuple[Waiting, ...] = ()
    turn_until_s: float | None = None
    ending: bool = False
    has_mail: bool = False
    disk_refuses: bool = False
    decision: str = ""
    asked_s: float = 0.0
    down_s: float | None = None
    below: bool = False
    start_s: float = 0.0
    shutdown_s: float = 0.0
    failed: str = ""
    group_until_s: float | None = None


def waiting(slot: Slot, process: LiveProcess | None, child: Child | None, around: Around) -> Waiting | None:
    """What ``slot`` waits for; None: for nothing, it is stopped, works, or supervises."""
    if process is None:
        return _down(slot, child, around)
    if process.draining or process.state is ProcessState.STOPPING or around.below:
        return _ending(process, around)
    if process.state is ProcessState.STARTING:
        return Waiting("cell", "", process.started_s, process.started_s + around.start_s)
    if slot.spec.type == "supervisor":
        return None
    return _in_turn(process, around) if process.turn else _idle(process, around)


def _down(slot: Slot, child: Child | None, around: Around) -> Waiting | None:
    if slot.state == SlotState.STOPPED:
        return None
    if slot.state == SlotState.PARKED:
        return Waiting("person", f"weftos start {slot.address}", around.down_s)
    match None if child is None else child.phase:
        case None:
            return Waiting("parent", slot.parent, around.down_s)
        case Phase.WAITING:
            assert child is not None
            return Waiting("back_off", "", child.failed_s, child.due_s)
        case Phase.QUEUED if around.failed == slot.spec.name:
            assert child is not None
            return Waiting("back_off", "", child.failed_s, around.group_until_s)
        case Phase.QUEUED:
            return Waiting("sibling", around.failed, around.down_s, around.group_until_s)
    return Waiting("disk", "a PID", around.down_s)


def _ending(process: LiveProcess, around: Around) -> Waiting | None:
    since_s, limit_s = process.draining_s, around.shutdown_s
    until_s = None if since_s is None or limit_s >= INFINITY else since_s + limit_s
    if around.below:
        return Waiting("child", "", since_s, until_s)
    found = _in_turn(process, around) if process.turn else None
    return found and replace(found, until_s=_first(found.until_s, until_s))


def _in_turn(process: LiveProcess, around: Around) -> Waiting | None:
    if around.ending:
        return Waiting("disk", "", None)
    if not around.calls:
        return None
    found = min(around.calls, key=lambda call: call.since_s or 0.0)
    if found.kind == "person":
        return found
    return replace(found, until_s=_first(found.until_s, around.turn_until_s))


def _idle(process: LiveProcess, around: Around) -> Waiting | None:
    if around.decision:
        return Waiting("person", around.decision, around.asked_s)
    if around.has_mail:
        return Waiting("disk", "", process.since_s) if around.disk_refuses else None
    return Waiting("message", "", process.since_s)


def _after(since_s: float, limit_s: float | None) -> float | None:
    return None if limit_s is None else since_s + limit_s


def _first(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)
