"""Children that end for a logical reason: restarted, parked or left, as each one's spec says, whatever the strategy."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.errors import SupervisionError
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Dropped,
    Exited,
    Flags,
    GiveUp,
    Phase,
    RestartDue,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    Started,
    StartFailed,
    Stop,
    StopChild,
    begin,
    step,
)
from tests.kernel.supervision.test_supervision import PARK, Shell, flags_of

LOGICAL = ["no_progress", "refused", "diverged", "budget"]
TECHNICAL = ["crash", "timeout", "killed", "cell_lost"]
KEPT = ["permanent", "transient"]
UNRELATED = ["one_for_one", "one_for_all", "rest_for_one"]
REASONS = pytest.mark.parametrize("reason", LOGICAL)
RESTARTS = pytest.mark.parametrize("restart", KEPT)
STRATEGIES = pytest.mark.parametrize("strategy", UNRELATED)
STATES = {"park": SlotState.PARKED, "end": SlotState.STOPPED}


def family(strategy: str, on_logical: str, restart: str = "permanent", intensity: int = 0) -> Shell:
    """``a``, ``b`` and ``c``, of which ``b`` is the one; no failure is allowed them."""
    shell = Shell(Flags(intensity=intensity, strategy=strategy))
    shell.add("a")
    shell.add("b", restart=restart, on_logical=on_logical)
    shell.add("c")
    return shell


@STRATEGIES
@RESTARTS
@REASONS
@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_it_is_parked_or_left_and_its_siblings_are_not_touched(
    strategy: str, restart: str, reason: str, on_logical: str
) -> None:
    shell = family(strategy, on_logical, restart)
    siblings = shell["a"], shell["c"]
    assert shell.exit("b", reason) == [SlotChanged("b", STATES[on_logical], reason)]
    assert (shell["b"].phase, shell["b"].pid) == (Phase.NONE, None)
    assert (shell["a"], shell["c"]) == siblings
    assert (shell.sup.charges, shell.sup.closing) == ((), None)


@STRATEGIES
@REASONS
def test_restart_is_as_after_any_failure(strategy: str, reason: str) -> None:
    crashed, ended = family(strategy, "restart", intensity=9), family(strategy, "restart", intensity=9)
    words = [str(effect).replace("crash", reason) for effect in crashed.exit("b", "crash")]
    assert [str(effect) for effect in ended.exit("b", reason)] == words
    assert ended.pids() == crashed.pids() and ended.sup.charges == crashed.sup.charges != ()


@pytest.mark.parametrize("reason", TECHNICAL)
@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_a_technical_end_restarts_it_whatever_is_said_of_logical_ones(on_logical: str, reason: str) -> None:
    shell = family("one_for_one", on_logical, intensity=9)
    assert StartChild("b") in shell.exit("b", reason)


@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_who_is_parked_or_left_is_started_by_name_and_ends_so_again(on_logical: str) -> None:
    shell = family("one_for_all", on_logical)
    for _ in range(3):
        shell.exit("b", "refused")
        assert shell["b"].slot is STATES[on_logical]
        assert [effect for effect in shell.do(Start("b")) if isinstance(effect, StartChild)] == [
            StartChild("b")
        ]
        assert shell["b"].phase is Phase.UP
    assert shell.sup.closing is None


@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_below_who_parks_what_fails_too_often_it_counts_for_no_intensity(on_logical: str) -> None:
    shell = Shell(PARK)
    shell.add("a", on_logical=on_logical)
    assert shell.exit("a", "no_progress") == [SlotChanged("a", STATES[on_logical], "no_progress")]
    assert shell["a"].charges == ()


@pytest.mark.parametrize("on_logical", ["restart", "end"])
@STRATEGIES
def test_a_temporary_one_is_gone_with_its_end(strategy: str, on_logical: str) -> None:
    shell = family(strategy, on_logical, "temporary")
    assert shell.exit("b", "refused") == [Dropped("b", "refused")]
    assert shell.sup.closing is None


@pytest.mark.parametrize("restart", [*KEPT, "temporary"])
def test_below_a_template_end_takes_the_slot_along(restart: str) -> None:
    template = ChildSpec("", restart, on_logical="end")  # type: ignore[arg-type]  # one of those
    shell = Shell(flags_of("simple_one_for_one", template, intensity=0))
    shell.add("a", "b", restart=restart, on_logical="end")
    said = [SlotChanged("a", SlotState.STOPPED, "no_progress")] if restart != "temporary" else []
    assert shell.exit("a", "no_progress") == [*said, Dropped("a", "no_progress")]
    assert set(shell.pids()) == {"b"} and shell.sup.closing is None


def test_below_a_template_restart_is_charged_to_the_whole() -> None:
    shell = Shell(flags_of("simple_one_for_one", ChildSpec(""), intensity=1))
    shell.add("a", "b")
    assert StartChild("a") in shell.exit("a", "refused")
    assert shell.exit("b", "refused")[-1] == GiveUp("shutdown")


def test_what_ends_so_while_a_restart_of_several_is_to_stop_it_is_part_of_that() -> None:
    shell = Shell(Flags(intensity=1, strategy="one_for_all"), manual=True)
    for pid, id in enumerate("abc", 1):
        shell.add(id, on_logical="end")
        shell.do(Started(id, pid))
    shell.do(Exited("a", 1, "crash"))  # c is told to stop, and b is not yet
    shell.do(Exited("b", 2, "refused"))
    assert (shell["b"].slot, shell["b"].phase) == (SlotState.RESTARTING, Phase.QUEUED)
    assert len(shell.sup.charges) == 1


@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_what_was_told_to_stop_keeps_what_it_was_told(on_logical: str) -> None:
    shell = family("one_for_one", on_logical)
    shell.stubborn.add("b")
    shell.do(Stop("b"))
    assert shell.exit("b", "refused") == []
    assert shell["b"].slot is SlotState.STOPPED


@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_a_start_that_fails_is_no_logical_end(on_logical: str) -> None:
    """A behaviour has not been asked anything yet."""
    shell = family("one_for_one", on_logical, intensity=9)
    shell.manual = True
    shell.exit("b", "crash")
    for failed in (
        StartFailed("b", "refused"),
        Exited("b", 1, "refused"),
    ):  # an exit before the start is such a one
        effects = shell.do(failed)
        assert shell["b"].slot is SlotState.RESTARTING and not any(
            isinstance(one, SlotChanged) for one in effects
        )
        shell.do(RestartDue("b"))


# Significant children


def significant(mode: str, on_logical: str) -> Shell:
    shell = Shell(Flags(intensity=9, auto_shutdown=mode))  # type: ignore[arg-type]  # one of those
    shell.add("a", "b", restart="transient", significant=True, on_logical=on_logical)
    shell.add("x")
    return shell


@REASONS
def test_end_is_its_own_end_for_good(reason: str) -> None:
    effects = significant("any_significant", "end").exit("a", reason)
    assert effects[0] == SlotChanged("a", SlotState.STOPPED, reason)
    assert [effect.id for effect in effects if isinstance(effect, StopChild)] == ["x", "b"]
    assert effects[-1] == GiveUp("shutdown")


def test_with_all_significant_the_last_end_is() -> None:
    shell = significant("all_significant", "end")
    shell.exit("a", "refused")
    assert shell.sup.closing is None
    assert shell.exit("b", "no_progress")[-1] == GiveUp("shutdown")


@pytest.mark.parametrize("mode", ["any_significant", "all_significant"])
def test_who_is_parked_has_not_ended_for_good(mode: str) -> None:
    """A person may start it: that the others have ended does not end the whole before."""
    shell = significant(mode, "park")
    shell.exit("a", "refused")
    shell.exit("b", "refused")
    assert (shell.sup.closing, shell.sup.significant) == (None, 2)


def test_beside_one_that_is_parked_nobody_is_the_last() -> None:
    shell = significant("all_significant", "park")
    shell.exit("a", "refused")
    shell.exit("b", "normal")
    assert shell.sup.closing is None
    shell.do(Start("a"))
    assert shell.exit("a", "normal")[-1] == GiveUp("shutdown")


def test_one_that_was_parked_before_the_supervisor_began_anew_waits_still() -> None:
    flags = Flags(auto_shutdown="all_significant")
    spec = ChildSpec("a", "transient", significant=True, on_logical="park")
    sup, _ = begin(
        flags, [(spec, SlotState.PARKED), (ChildSpec("b", "transient", significant=True), SlotState.RUNNING)]
    )
    sup, _ = step(sup, Started("b", 1), 0.0, 0.0)
    sup, _ = step(sup, Exited("b", 1, "normal"), 0.0, 0.0)
    assert sup.closing is None


# Specs


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"on_logical": "shrug"}, "on_logical is 'shrug', must be one of restart, park, end"),
        ({"on_logical": "park", "restart": "temporary"}, "a temporary one is gone with its end"),
        ({"on_logical": "end", "type": "supervisor"}, "a supervisor ends for no logical reason"),
    ],
)
def test_a_spec_that_cannot_be_kept_to_is_refused(fields: dict[str, Any], fault: str) -> None:
    [said] = ChildSpec("a", **fields).check()
    assert fault in said
    assert Shell().refused(Add(ChildSpec("a", **fields))) == "bad_spec"


def test_a_template_whose_children_would_be_parked_is_refused() -> None:
    with pytest.raises(SupervisionError, match="nobody could start such a child by name") as caught:
        begin(flags_of("simple_one_for_one", ChildSpec("", on_logical="park")))
    assert caught.value.word == "bad_combination"
