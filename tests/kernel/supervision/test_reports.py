"""What a supervisor makes of reports that come late, twice, or cross what it has asked for."""

from __future__ import annotations

import pytest

from kernel.supervision.reducer import (
    ChildSpec,
    Dropped,
    Exited,
    Flags,
    Phase,
    RestartDue,
    SlotChanged,
    SlotState,
    Started,
    Stop,
)
from kernel.supervision.specs import OnExceed
from tests.kernel.supervision.test_supervision import Shell


def test_a_child_that_began_while_it_was_told_to_stop_ends_with_its_own_incarnation_and_no_other() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    for event in (Stop("a"), Started("a", 7)):
        shell.do(event)
    assert (shell["a"].phase, shell["a"].pid) == (Phase.STOPPING, 7)
    assert (shell.do(Exited("a", 6, "shutdown")), shell["a"].phase) == ([], Phase.STOPPING)
    assert (shell.do(Exited("a", 7, "shutdown")), shell["a"].phase) == ([], Phase.NONE)


def test_a_second_report_of_an_end_is_charged_to_nobody() -> None:
    shell = Shell(Flags(intensity=3, period_s=60.0, backoff_base_s=4.0), manual=True)
    shell.add("a")
    for pid in (7, 8):
        shell.do(Started("a", pid))
        shell.do(Exited("a", pid, "crash"))
    before = shell.sup
    assert before.child("a").phase is Phase.WAITING
    assert shell.do(Exited("a", 8, "crash")) == []
    assert shell.sup == before


def test_a_report_of_an_end_to_a_child_that_is_down_changes_nothing() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    for event in (Started("a", 7), Stop("a"), Exited("a", 7, "shutdown")):
        shell.do(event)
    before = shell.sup
    assert (shell.do(Exited("a", 7, "crash")), shell.sup) == ([], before)


def test_a_charge_counts_until_its_period_is_over_and_at_that_moment_too() -> None:
    shell = Shell(
        Flags(intensity=2, period_s=10.0, on_exceed="park", backoff_base_s=0.001, backoff_max_s=0.002)
    )
    for id in ("a", "b"):
        shell.add(id)
        for at_s, last in ((0.0, False), (5.0, False), (10.0 if id == "a" else 10.5, True)):
            shell.now_s = 1000.0 + at_s
            if last:
                effects = shell.exit(id)
                assert (SlotChanged(id, SlotState.PARKED, "crash") in effects) == (id == "a")
            else:
                shell.exit(id)
                shell.do(RestartDue(id))


@pytest.mark.parametrize("on_exceed", ["park", "shutdown"])
def test_restarts_count_until_their_period_is_over_and_nobody_has_none(
    on_exceed: OnExceed,
) -> None:
    shell = Shell(Flags(intensity=3, period_s=10.0, on_exceed=on_exceed))
    assert shell.sup.counted(shell.now_s) == 0
    shell.add("a", "b")
    assert shell.sup.counted(shell.now_s) == 0
    shell.exit("a")
    assert [shell.sup.counted(shell.now_s + later_s) for later_s in (0.0, 10.0, 10.5)] == [1, 1, 0]


@pytest.mark.parametrize("reason", ["normal", "shutdown"])
def test_the_slot_of_a_child_of_a_template_is_down_before_it_is_dropped(reason: str) -> None:
    template = ChildSpec("", restart="transient")
    shell = Shell(Flags(strategy="simple_one_for_one", template=template), manual=True)
    shell.add("a", restart="transient")
    shell.do(Started("a", 7))
    assert shell.do(Exited("a", 7, reason)) == [
        SlotChanged("a", SlotState.STOPPED, reason),
        Dropped("a", reason),
    ]
