"""A start that was asked for, and is lost through no doing of the child's own, is made again as what it was: when it
then fails by itself, who asked is told, and it is charged to nobody. Numbers are those of the list of OTP's cases.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Dropped,
    Event,
    Exited,
    Flags,
    Phase,
    RestartDue,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
)
from kernel.supervision.strategies import STRATEGIES
from tests.kernel.supervision.test_supervision import PARK, Shell, flags_of

LOST = StartFailed("a", "cell_lost", "cell 1")
FAMILIES = [flags_of(strategy, intensity=2) for strategy in STRATEGIES] + [PARK]
GROUPS = [flags_of(name, intensity=2) for name, strategy in STRATEGIES.items() if strategy.in_order]


def having(flags: Flags, *events: Event) -> Shell:
    shell = Shell(flags, manual=True)
    for event in events:
        shell.do(event)
    return shell


def by_name() -> tuple[Event, ...]:
    """What leads to a start by name."""
    return Add(ChildSpec("a")), Started("a", 7), Stop("a"), Exited("a", 7, "shutdown"), Start("a")


@pytest.mark.parametrize("reason", ["crash", "timeout", "no_progress", "killed"])
@pytest.mark.parametrize("flags", FAMILIES, ids=lambda flags: f"{flags.strategy} {flags.on_exceed}")
def test_10_12_a_child_that_was_added_and_lost_and_then_does_not_start_is_dropped(
    flags: Flags, reason: str
) -> None:
    shell = having(flags, Add(ChildSpec("a")))
    assert shell.do(LOST)[-1] == StartChild("a")
    before = shell.sup.charges
    assert shell.do(StartFailed("a", reason))[-1] == Dropped("a", reason)
    assert "a" not in shell.sup.table
    assert (shell.sup.charges, shell.sup.closing, shell.sup.group) == (before, None, None)


@pytest.mark.parametrize("flags", FAMILIES, ids=lambda flags: f"{flags.strategy} {flags.on_exceed}")
def test_so_is_one_that_was_lost_again_and_again_with_back_off_in_between(flags: Flags) -> None:
    shell = having(flags, Add(ChildSpec("a")), LOST, StartFailed("a", "cell_lost"))
    assert isinstance(shell.effects[-1], StartChildAfter)
    shell.do(RestartDue("a"))
    assert shell.do(StartFailed("a", "crash"))[-1] == Dropped("a", "crash")
    assert len(shell.sup.charges) == (flags.on_exceed == "shutdown"), "the cell's death alone"


@pytest.mark.parametrize("flags", [Flags(), PARK, *GROUPS], ids=lambda flags: f"{flags.strategy}")
def test_11_one_that_was_started_by_name_and_lost_and_then_does_not_start_is_stopped(flags: Flags) -> None:
    shell = having(flags, *by_name())
    assert shell.do(LOST)[-1] == StartChild("a")
    before = shell.sup.charges
    assert shell.do(StartFailed("a", "crash")) == [SlotChanged("a", SlotState.STOPPED, "crash")]
    assert (shell["a"].phase, shell["a"].charges) == (Phase.NONE, ())
    assert (shell.sup.charges, shell.sup.closing, shell.sup.group) == (before, None, None)


@pytest.mark.parametrize("flags", FAMILIES, ids=lambda flags: f"{flags.strategy} {flags.on_exceed}")
def test_once_it_has_run_a_start_that_fails_is_charged(flags: Flags) -> None:
    shell = having(flags, Add(ChildSpec("a")), LOST, Started("a", 8), Exited("a", 8, "crash"))
    while shell["a"].phase is not Phase.STARTING:
        shell.do(RestartDue("a"))
    before = shell.sup.counted(shell.now_s)
    shell.do(StartFailed("a", "crash"))
    assert shell["a"].slot in (SlotState.RESTARTING, SlotState.PARKED) or shell.sup.ended
    assert shell.sup.counted(shell.now_s) == before + 1


@pytest.mark.parametrize("flags", [Flags(), PARK], ids=["shutdown", "park"])
def test_what_was_stopped_before_it_ran_is_kept_and_waits_to_be_started(flags: Flags) -> None:
    shell = having(flags, Add(ChildSpec("a")), LOST, Stop("a"))
    assert shell.do(StartFailed("a", "crash")) == []
    assert (shell["a"].slot, shell["a"].phase) == (SlotState.STOPPED, Phase.NONE)


@pytest.mark.parametrize("flags", GROUPS, ids=lambda flags: flags.strategy)
def test_one_that_a_restart_of_several_stops_before_it_ran_is_dropped_when_it_then_does_not_start(
    flags: Flags,
) -> None:
    shell = having(flags, Add(ChildSpec("x")), Started("x", 7), Add(ChildSpec("a")))
    assert shell.do(Exited("x", 7, "crash"))[-1] == StopChild(
        "a", "shutdown", 5.0, f"{flags.strategy}: x failed (crash)"
    )
    assert shell.do(StartFailed("a", "shutdown")) == [StartChild("x")]
    assert shell.do(Started("x", 8)) == [StartChild("a")]
    assert shell.do(StartFailed("a", "crash")) == [Dropped("a", "crash")]
    assert (shell["x"].pid, shell.sup.group, len(shell.sup.charges)) == (8, None, 1)


@pytest.mark.parametrize("flags", GROUPS, ids=lambda flags: flags.strategy)
def test_one_that_fails_by_itself_before_its_turn_to_stop_has_failed_for_who_asked(flags: Flags) -> None:
    for events, effect in (
        ((Add(ChildSpec("a")),), Dropped("a", "crash")),
        (by_name(), SlotChanged("a", SlotState.STOPPED, "crash")),
    ):
        shell = having(flags, Add(ChildSpec("x")), Started("x", 1), *events)
        for event in (Add(ChildSpec("z")), Started("z", 3), Exited("x", 1, "crash")):
            shell.do(event)
        assert (shell["z"].phase, shell["a"].phase) == (Phase.STOPPING, Phase.STARTING)
        assert effect in shell.do(StartFailed("a", "crash"))
        shell.do(Exited("z", 3, "shutdown"))
        assert shell.do(Started("x", 4)) == [StartChild("z")]


@pytest.mark.parametrize("flags", GROUPS, ids=lambda flags: flags.strategy)
def test_one_that_began_while_a_restart_of_several_stopped_it_has_run(flags: Flags) -> None:
    shell = having(flags, Add(ChildSpec("x")), Started("x", 7), Add(ChildSpec("a")), Exited("x", 7, "crash"))
    for event in (Started("a", 8), Exited("a", 8, "shutdown"), Started("x", 9), StartFailed("a", "crash")):
        shell.do(event)
    assert (shell["a"].slot, len(shell.sup.charges)) == (SlotState.RESTARTING, 2)


def test_of_a_thousand_that_lose_their_cell_ten_do_not_start_and_the_others_run() -> None:
    shell = Shell(Flags(), manual=True)
    names = [f"w-{number}" for number in range(1000)]
    for name in names:
        shell.do(Add(ChildSpec(name)))
    shell.do(StartFailed("w-0", "crash", "cell 1"))
    for name in names[1:]:
        shell.do(StartFailed(name, "cell_lost", "cell 1"))
    for pid, name in enumerate(names[1:], 1):
        shell.do(Started(name, pid) if pid > 10 else StartFailed(name, "crash"))
    assert shell.sup.counts()["active"] == 989 == len(shell.sup.table)
    assert (shell.sup.closing, shell.sup.counted(shell.now_s)) == (None, 0)


@pytest.mark.parametrize("events", [(Add(ChildSpec("a")),), by_name()], ids=["added", "by name"])
@pytest.mark.parametrize("restart", ["permanent", "temporary"])
def test_a_cells_death_by_a_start_that_was_asked_for_is_charged_to_nobody_and_the_next_one_is(
    restart: str, events: tuple[Event, ...]
) -> None:
    if restart == "temporary" and len(events) > 1:
        return
    shell = having(Flags(intensity=1), Add(ChildSpec("x")), Started("x", 1))
    for number in range(5):
        for event in events:
            own = isinstance(event, Add)
            again = ChildSpec(f"a-{number}", restart=restart)  # type: ignore[arg-type]
            shell.do(Add(again) if own else replace(event, id=again.id))  # type: ignore[arg-type]
        shell.do(StartFailed(f"a-{number}", "crash", f"cell {number}"))
        shell.do(Exited("x", 1 + number, "cell_lost", f"cell {number}"))
        shell.do(RestartDue("x"))
        shell.do(Started("x", 2 + number))
    assert (shell.sup.charges, shell.sup.closing, shell["x"].phase) == ((), None, Phase.UP)
    shell.do(Exited("x", 6, "cell_lost", "cell 5"))
    assert [batch for _, batch in shell.sup.charges] == ["cell 5"]


def test_a_cells_death_by_one_that_had_run_is_charged() -> None:
    shell = having(Flags(intensity=1), Add(ChildSpec("x")), Started("x", 1), Add(ChildSpec("a")), LOST)
    for event in (Started("a", 2), Exited("a", 2, "crash", "cell 2"), Exited("x", 1, "cell_lost", "cell 2")):
        shell.do(event)
    assert shell.sup.closing == "shutdown"
