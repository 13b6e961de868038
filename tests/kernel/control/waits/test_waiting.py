"""What a process waits for: every kind, by plain values."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.control.waits.waiting import Around, CallFacts, Waiting, of_call, waiting
from kernel.model.machines.call_states import CallState
from kernel.model.spec import ProcessSpec
from kernel.model.states import ProcessState, SlotState
from kernel.process.live import LiveProcess
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Call
from kernel.supervision.reducer import (
    INFINITY,
    Add,
    Child,
    ChildSpec,
    Exited,
    Flags,
    Phase,
    Started,
    begin,
    step,
)

SLOT = Slot("/user/ada", "/user", ProcessSpec("ada"), 1)
MODEL = Waiting("model", "p/m", 5.0, 305.0)
TOOL = Waiting("tool", "pay", 7.0, 37.0)


def live(state: ProcessState = ProcessState.RUNNING, **fields: Any) -> LiveProcess:
    return LiveProcess(9, "/user/ada", SLOT.spec, 2.0, state, since_s=3.0, **fields)


def child(phase: Phase, **fields: Any) -> Child:
    return Child(ChildSpec("ada"), 0, SlotState.RESTARTING, phase, **fields)


def call(op: str = "tool", name: str = "pay", **fields: Any) -> Call:
    return Call("0.0", "h", op, 4, name, **fields)


@pytest.mark.parametrize(
    ("process", "around", "expected"),
    [
        (live(ProcessState.STARTING), Around(start_s=70.0), Waiting("cell", "", 2.0, 72.0)),
        (live(), Around(), Waiting("message", "", 3.0)),
        (live(), Around(has_mail=True), None),
        (live(), Around(has_mail=True, disk_refuses=True), Waiting("disk", "", 3.0)),
        (live(), Around(decision="weftos x", asked_s=4.0), Waiting("person", "weftos x", 4.0)),
        (live(turn="t1"), Around(turn_until_s=90.0), None),
        (live(turn="t1"), Around(calls=(TOOL, MODEL), turn_until_s=90.0), Waiting("model", "p/m", 5.0, 90.0)),
        (live(turn="t1"), Around(calls=(TOOL,), turn_until_s=90.0), TOOL),
        (live(turn="t1"), Around(calls=(TOOL,), ending=True), Waiting("disk", "", None)),
        (
            live(turn="t1"),
            Around(calls=(Waiting("person", "weftos y", 1.0),), turn_until_s=90.0),
            Waiting("person", "weftos y", 1.0),
        ),
        (
            live(turn="t1", draining=True, draining_s=10.0),
            Around(calls=(TOOL,), shutdown_s=5.0),
            Waiting("tool", "pay", 7.0, 15.0),
        ),
        (
            live(draining=True, draining_s=10.0),
            Around(below=True, shutdown_s=5.0),
            Waiting("child", "", 10.0, 15.0),
        ),
        (
            live(draining=True, draining_s=10.0),
            Around(below=True, shutdown_s=INFINITY),
            Waiting("child", "", 10.0),
        ),
        (live(draining=True, draining_s=10.0), Around(), None),
    ],
)
def test_a_live_process_waits_for(process: LiveProcess, around: Around, expected: Waiting | None) -> None:
    assert waiting(SLOT, process, child(Phase.UP), around) == expected


@pytest.mark.parametrize(
    ("slot", "of", "around", "expected"),
    [
        ("stopped", child(Phase.NONE), Around(), None),
        ("parked", child(Phase.NONE), Around(down_s=1.0), Waiting("person", "weftos start /user/ada", 1.0)),
        ("restarting", None, Around(down_s=1.0), Waiting("parent", "/user", 1.0)),
        (
            "restarting",
            child(Phase.WAITING, failed_s=1.0, due_s=4.0),
            Around(),
            Waiting("back_off", "", 1.0, 4.0),
        ),
        (
            "restarting",
            child(Phase.QUEUED, failed_s=1.0, due_s=4.0),
            Around(failed="ada", group_until_s=4.0),
            Waiting("back_off", "", 1.0, 4.0),
        ),
        ("restarting", child(Phase.QUEUED), Around(failed="bob", down_s=1.0), Waiting("sibling", "bob", 1.0)),
        ("running", child(Phase.STARTING), Around(), Waiting("disk", "a PID", None)),
    ],
)
def test_what_does_not_run_waits_for(
    slot: str, of: Child | None, around: Around, expected: Waiting | None
) -> None:
    place = Slot("/user/ada", "/user", SLOT.spec, 1, state=slot)
    assert waiting(place, None, of, around) == expected


def test_a_supervisor_waits_for_nothing_until_it_ends() -> None:
    above = Slot("/user/s", "/user", ProcessSpec("s", type="supervisor"), 1)
    process = LiveProcess(9, "/user/s", above.spec, 2.0, ProcessState.RUNNING)
    assert waiting(above, process, child(Phase.UP), Around()) is None
    assert waiting(above, process, child(Phase.UP), Around(below=True)) == Waiting("child", "", None)


ENDED = call(outcome={"status": "ok"})


@pytest.mark.parametrize(
    ("recorded", "facts", "refuses", "expected"),
    [
        (None, {}, False, Waiting("node", "", 5.0)),
        (None, {}, True, Waiting("disk", "", 5.0)),
        (ENDED, {}, False, Waiting("node", "", 5.0)),
        (ENDED, {}, True, Waiting("disk", "", 5.0)),
        (call("model", "p/m (a, b)"), {"limit_s": 300.0}, False, MODEL),
        (
            call("model", "p/m (a, b)"),
            {"limit_s": 300.0, "queued_s": 6.0},
            False,
            Waiting("provider_slot", "p/m", 6.0),
        ),
        (
            call("model", "p/m (a, b)"),
            {"limit_s": 300.0, "begun_s": 6.0},
            False,
            Waiting("model", "p/m", 6.0, 306.0),
        ),
        (
            call("model", "p/m (a, b)"),
            {"limit_s": 300.0, "due_s": 9.0},
            False,
            Waiting("back_off", "p/m", 5.0, 9.0),
        ),
        (call(), {}, False, Waiting("worker", "pay", 5.0)),
        (call(), {"begun_s": 7.0, "limit_s": 30.0}, False, TOOL),
        (
            call(name="ask"),
            {"asks": "/user/bob", "due_s": 35.0},
            False,
            Waiting("reply", "/user/bob", 5.0, 35.0),
        ),
        (
            call(state=CallState.IN_DOUBT),
            {},
            False,
            Waiting("person", "weftos doubts resolve t1:0.0", 5.0),
        ),
    ],
)
def test_an_open_call_waits_for(
    recorded: Call | None, facts: dict[str, Any], refuses: bool, expected: Waiting
) -> None:
    assert of_call(recorded, CallFacts("t1:0.0", 5.0, **facts), disk_refuses=refuses) == expected


def test_a_supervisor_knows_until_when_a_back_off_goes_on() -> None:
    flags = Flags()
    sup, _ = begin(flags)
    sup, _ = step(sup, Add(ChildSpec("ada")), 1.0, 0.0)
    sup, _ = step(sup, Started("ada", 1), 1.0, 0.0)
    sup, _ = step(sup, Exited("ada", 1, "crash"), 2.0, 0.5)  # the first restart is immediate
    sup, _ = step(sup, Started("ada", 2), 2.0, 0.0)
    sup, _ = step(sup, Exited("ada", 2, "crash"), 3.0, 0.5)
    waits = sup.child("ada")
    assert waits.phase is Phase.WAITING
    assert (waits.failed_s, waits.due_s) == (3.0, 3.0 + flags.backoff_s(1, 0.5))
