"""What a supervisor is asked for: a restart, with whom it is charged to and what it is told of; and each refusal, which
says what is wrong and what to do.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.errors import SupervisionError
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Dropped,
    Event,
    Exited,
    Flags,
    Phase,
    Remove,
    Restart,
    RestartDue,
    Shutdown,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
    begin,
    step,
)
from tests.kernel.supervision.test_supervision import OTP, PARK, Shell

SLOW = Flags(intensity=9, period_s=60.0, backoff_base_s=4.0)


def said(shell: Shell, event: Event) -> str:
    """The refusal, its word first."""
    with pytest.raises(SupervisionError) as caught:
        shell.do(event)
    return f"{caught.value.word}: {caught.value}"


# -- a restart -------------------------------------------------------------------------------------------------------


def test_a_restart_stops_the_child_with_its_own_limit_and_starts_it_when_it_is_gone() -> None:
    shell = Shell()
    shell.stubborn.add("a")
    shell.add("a", shutdown_s=3.0)
    asked = shell.do(Restart("a", "because", 7))
    assert asked == [
        SlotChanged("a", SlotState.RESTARTING, "restart", 7),
        StopChild("a", "shutdown", 3.0, "because", 7),
    ]
    assert (shell["a"].phase, shell["a"].pid) == (Phase.STOPPING, 101)
    assert shell.exit("a", "shutdown") == [StartChild("a")]
    assert (shell["a"].phase, shell["a"].pid, shell["a"].slot) == (Phase.UP, 102, SlotState.RUNNING)


@pytest.mark.parametrize("flags", [OTP, PARK])
def test_a_restart_that_is_asked_for_is_charged_to_nobody_and_begins_a_new_row(flags: Flags) -> None:
    shell = Shell(flags)
    shell.add("a", "b")
    shell.exit("a")
    row = shell["a"].row
    for _ in range(5):
        shell.do(Restart("a"))
    assert (row, shell["a"].row, shell["a"].phase) == (1, 0, Phase.UP)
    assert (shell.sup.counted(shell.now_s), shell["b"].pid) == (1, 102)


def test_who_asks_for_a_restart_needs_to_give_neither_words_nor_an_entry() -> None:
    shell = Shell()
    shell.add("a")
    changed, stopped, *_ = shell.do(Restart("a"))
    assert changed == SlotChanged("a", SlotState.RESTARTING, "restart")
    assert stopped == StopChild("a", "shutdown", ChildSpec("a").shutdown_s)


@pytest.mark.parametrize(
    ("phase", "events"),
    [
        ("starting", []),
        ("stopping", [Started("a", 7), Restart("a")]),
        ("none", [Started("a", 7), Stop("a"), Exited("a", 7, "shutdown")]),
        ("waiting", [Started("a", 7), Exited("a", 7, "crash"), Started("a", 8), Exited("a", 8, "crash")]),
    ],
)
def test_only_a_child_that_runs_is_restarted(phase: str, events: list[Event]) -> None:
    shell = Shell(SLOW, manual=True)
    shell.add("a")
    for event in events:
        shell.do(event)
    assert shell["a"].phase == phase
    words = f"restarting: child 'a' is {phase}: only one that runs is restarted"
    assert said(shell, Restart("a")) == words


def test_a_temporary_child_and_one_that_is_not_there_cannot_be_restarted() -> None:
    shell = Shell()
    shell.add("a", restart="temporary")
    assert said(shell, Restart("a")) == "bad_combination: child 'a' is temporary: it is gone with its end"
    assert said(shell, Restart("b")).startswith("not_found: there is no child 'b'")


def test_an_ending_supervisor_restarts_nobody() -> None:
    shell = Shell()
    shell.stubborn.add("a")
    shell.add("a")
    shell.do(Shutdown("killed"))
    assert said(shell, Restart("a")) == "shutdown: the supervisor is ending (killed): try again later"


def test_a_stop_overtakes_a_restart() -> None:
    shell = Shell()
    shell.stubborn.add("a")
    shell.add("a")
    shell.do(Restart("a"))
    assert shell.do(Stop("a", "enough", 4)) == [SlotChanged("a", SlotState.STOPPED, "stop", 4)]
    assert shell.exit("a", "shutdown") == []
    assert (shell["a"].phase, shell["a"].slot) == (Phase.NONE, SlotState.STOPPED)


def test_the_end_of_the_whole_overtakes_a_restart_and_the_slot_says_that_it_comes_back() -> None:
    shell = Shell()
    shell.stubborn.add("a")
    shell.add("a")
    shell.do(Restart("a"))
    shell.do(Shutdown())
    shell.exit("a", "shutdown")
    assert (shell.sup.ended, shell["a"].slot) == (True, SlotState.RESTARTING)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_flags_that_are_refused_are_said_to_be_flags() -> None:
    with pytest.raises(SupervisionError, match=r"^flags: ") as bad:
        begin(Flags(intensity=-1))
    template = ChildSpec("", on_logical="park")
    with pytest.raises(SupervisionError, match=r"^flags: ") as together:
        begin(Flags(strategy="simple_one_for_one", template=template))
    assert (bad.value.word, together.value.word) == ("bad_flags", "bad_combination")


def test_a_child_that_is_there_is_not_added_again() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    again = Add(ChildSpec("a"))
    assert said(shell, again) == "already_started: child 'a' exists and is starting"
    shell.do(Started("a", 7))
    shell.do(Stop("a"))
    shell.exit("a")
    words = "already_present: child 'a' exists and is stopped: start it, or remove it first"
    assert said(shell, again) == words


def test_what_runs_or_is_being_restarted_is_neither_started_nor_removed() -> None:
    shell = Shell(SLOW, manual=True)
    shell.add("a")
    shell.do(Started("a", 7))
    assert said(shell, Start("a")) == "running: child 'a' is up"
    assert said(shell, Remove("a")) == "running: child 'a' is up: stop it first"
    shell.exit("a")
    assert said(shell, Start("a")) == "restarting: child 'a' is being restarted already"
    assert said(shell, Remove("a")) == "restarting: child 'a' is being restarted: stop it first"


# -- how a supervisor begins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", [SlotState.STOPPED, SlotState.PARKED])
def test_what_was_down_is_down_when_its_supervisor_begins_again_and_can_be_started(slot: SlotState) -> None:
    sup, effects = begin(OTP, [(ChildSpec("a"), slot)])
    assert (sup.child("a").phase, sup.child("a").slot, effects) == (Phase.NONE, slot, ())
    _, effects = step(sup, Start("a"), 0.0, 0.0)
    assert effects == (SlotChanged("a", SlotState.RUNNING, "start"), StartChild("a"))


# -- since when a back-off goes on, and until when -------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_a_child_that_backs_off_says_since_when_and_until_when(strategy: str) -> None:
    shell = Shell(replace(SLOW, strategy=strategy))
    shell.add("a", "b")
    shell.exit("a")
    assert (shell["a"].failed_s, shell["a"].due_s) == (0.0, 0.0), "the first restart is immediate"
    shell.now_s += 5.0
    delay = next(effect for effect in shell.exit("a") if isinstance(effect, StartChildAfter))
    assert delay == StartChildAfter("a", 2.0)
    assert (shell["a"].failed_s, shell["a"].due_s) == (1005.0, 1007.0)
    assert (shell["b"].failed_s, shell["b"].due_s) == (0.0, 0.0)
    shell.now_s += 2.0
    shell.do(RestartDue("a"))
    assert shell["a"].phase is Phase.UP


def test_a_start_that_fails_says_why_it_is_dropped() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    assert shell.do(StartFailed("a", "refused")) == [Dropped("a", "refused")]
