"""Restarts of several children, by the rules of Erlang/OTP: numbers and names are those of the list of its cases."""

from __future__ import annotations

import pytest

from kernel.model.states import SlotState
from kernel.supervision.reducer import (
    STRATEGIES,
    Add,
    ChildSpec,
    Dropped,
    Effect,
    Exited,
    Flags,
    GiveUp,
    Phase,
    Remove,
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
    begin,
    step,
)
from tests.kernel.supervision.test_supervision import Shell, counted, flags_of

TOGETHER = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
MANY = 100


def family(strategy: str, ids: str = "abcd", intensity: int = MANY, **fields: object) -> Shell:
    """Children that run, in this order; nothing is noted of their starts."""
    template = ChildSpec("", **fields)  # type: ignore[arg-type]  # they are those of a spec
    shell = Shell(flags_of(strategy, template, intensity=intensity))
    shell.add(*ids, **fields)
    shell.effects.clear()
    return shell


def moves(effects: list[Effect]) -> list[str]:
    """Starts and stops, in short."""
    signs = {StartChild: "+", StopChild: "-"}
    return [
        signs[type(effect)] + effect.id for effect in effects if isinstance(effect, StartChild | StopChild)
    ]


def changed(shell: Shell, before: dict[str, int | None]) -> str:
    return "".join(id for id, pid in shell.pids().items() if before.get(id) != pid)


# 25, 53, 56: what is restarted, and in which order


def test_53_one_for_all_stops_the_others_in_reverse_order_and_starts_all_in_order() -> None:
    shell = family("one_for_all")
    before = shell.pids()
    assert moves(shell.exit("b")) == ["-d", "-c", "-a", "+a", "+b", "+c", "+d"]
    assert changed(shell, before) == "abcd"
    assert shell.sup.group is None and len(shell.sup.charges) == 1


def test_25_56_rest_for_one_leaves_those_before_the_one_that_failed() -> None:
    shell = family("rest_for_one")
    before = shell.pids()
    assert moves(shell.exit("b")) == ["-d", "-c", "+b", "+c", "+d"]
    assert changed(shell, before) == "bcd"
    assert shell.sup.group is None and len(shell.sup.charges) == 1


@TOGETHER
def test_25_nothing_is_told_to_stop_or_starts_before_the_one_before_it_has(strategy: str) -> None:
    shell = family(strategy)
    shell.manual = True
    assert moves(shell.exit("a")) == ["-d"]
    assert moves(shell.exit("d", "shutdown")) == ["-c"]
    assert moves(shell.exit("c", "killed")) == ["-b"]
    assert moves(shell.exit("b", "shutdown")) == ["+a"]
    for pid, id in enumerate("abc", 900):
        assert moves(shell.do(Started(id, pid))) == ["+" + "bcd"[pid - 900]]
    assert moves(shell.do(Started("d", 903))) == [] and shell.sup.group is None


@TOGETHER
def test_25_a_supervisor_begins_in_order_and_ends_in_strict_reverse_order(strategy: str) -> None:
    shell = Shell(manual=True)
    shell.sup, effects = begin(Flags(strategy=strategy), [(ChildSpec(id), SlotState.RUNNING) for id in "abc"])
    assert effects == (StartChild("a"),)
    assert shell.do(Started("a", 1))[-1] == StartChild("b")
    assert shell.do(Started("b", 2))[-1] == StartChild("c")
    shell.do(Started("c", 3))
    assert moves(shell.do(Shutdown())) == ["-c"]
    assert moves(shell.exit("c", "shutdown")) == ["-b"]
    assert moves(shell.exit("b", "shutdown")) == ["-a"]
    assert shell.exit("a", "shutdown") == [GiveUp("shutdown")]


@TOGETHER
def test_each_is_stopped_with_its_own_time_and_told_why(strategy: str) -> None:
    shell = Shell(Flags(strategy=strategy))
    shell.add("a")
    shell.add("b", shutdown_s=0)
    shell.add("c", shutdown_s=7.0)
    stops = [effect for effect in shell.exit("a", "timeout") if isinstance(effect, StopChild)]
    why = f"{strategy}: a failed (timeout)"
    assert stops == [StopChild("c", "shutdown", 7.0, why), StopChild("b", "shutdown", 0, why)]


@TOGETHER
def test_the_slots_say_who_failed_and_who_only_goes_along(strategy: str) -> None:
    shell = family(strategy, "ab")
    said = [effect for effect in shell.exit("a") if isinstance(effect, SlotChanged)]
    assert said == [
        SlotChanged("a", SlotState.RESTARTING, "crash"),
        SlotChanged("b", SlotState.RESTARTING, f"{strategy}: a failed (crash)"),
    ]
    assert [shell[id].slot for id in "ab"] == [SlotState.RUNNING] * 2  # their starts have said so


@TOGETHER
@pytest.mark.parametrize("reason", ["normal", "shutdown"])
def test_an_end_that_is_no_failure_touches_nobody(strategy: str, reason: str) -> None:
    shell = family(strategy, restart="transient")
    assert moves(shell.exit("b", reason)) == []
    assert shell["b"].slot is SlotState.STOPPED
    shell = family(strategy, restart="temporary")
    assert shell.exit("b", "crash") == [Dropped("b", "crash")]


# 47


@TOGETHER
def test_47_temporary_bystander_is_stopped_and_dropped_and_its_id_is_free(strategy: str) -> None:
    shell = family(strategy, "a")
    shell.add("t", restart="temporary")
    shell.add("c")
    shell.effects.clear()
    effects = shell.exit("a")
    assert moves(effects) == ["-c", "-t", "+a", "+c"]
    assert [effect for effect in effects if not isinstance(effect, StartChild | StopChild | SlotChanged)] == [
        Dropped("t", "shutdown")
    ]
    assert "t" not in [effect.id for effect in effects if isinstance(effect, SlotChanged)]
    assert [child.spec.id for child in shell.sup.children] == ["a", "c"]
    assert shell.do(Add(ChildSpec("t", restart="temporary")))[0] == StartChild("t")


@TOGETHER
def test_who_was_told_to_stop_and_has_not_ended_stays_stopped(strategy: str) -> None:
    shell = family(strategy, "abc")
    shell.stubborn.add("b")
    shell.do(Stop("b"))
    effects = shell.exit("a")
    assert "b" not in [effect.id for effect in effects if isinstance(effect, SlotChanged)]
    assert moves(shell.exit("b", "shutdown")) == ["+a", "+c"]
    assert shell["b"].slot is SlotState.STOPPED and shell["b"].phase is Phase.NONE


@TOGETHER
def test_who_comes_up_while_the_others_stop_and_ends_then_is_restarting_by_its_slot(strategy: str) -> None:
    shell = family(strategy, "a")
    shell.manual = True
    shell.do(Add(ChildSpec("b")))
    shell.do(Add(ChildSpec("c")))
    shell.do(Started("c", 901))
    assert moves(shell.exit("a")) == ["-c"]
    shell.do(Started("b", 902))
    assert shell["b"].slot is SlotState.RUNNING
    said = SlotChanged("b", SlotState.RESTARTING, f"{strategy}: a failed (crash)")
    assert shell.exit("b", "timeout") == [said]


# 51 to 54, 57: intensity


@pytest.mark.parametrize("strategy", [name for name, row in STRATEGIES.items() if not row.dynamic])
def test_51_53_57_the_failure_after_the_last_allowed_stops_all_in_reverse_and_then_the_supervisor(
    strategy: str,
) -> None:
    shell = family(strategy, intensity=2)
    for _ in range(2):
        shell.exit("b")
        shell.do(RestartDue("b"))
        assert all(child.phase is Phase.UP for child in shell.sup.children)
    effects = shell.exit("b")
    assert moves(effects) == ["-d", "-c", "-a"] and effects[-1] == GiveUp("shutdown")
    assert shell.sup.ended


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_52_54_57_starts_that_fail_burn_intensity_and_lead_to_the_end(strategy: str) -> None:
    shell = family(strategy, intensity=3)
    shell.failing.add("b")
    shell.exit("b")
    while not shell.sup.ended:
        assert isinstance(shell.effects[-1], StartChildAfter)
        shell.do(RestartDue("b"))
    assert shell.effects.count(StartChild("b")) == 3
    assert shell.effects[-1] == GiveUp("shutdown")
    assert all(child.pid is None for child in shell.sup.children)


@TOGETHER
def test_a_failure_is_charged_once_however_many_are_restarted_for_it(strategy: str) -> None:
    shell = family(strategy, intensity=1)
    shell.exit("a")
    assert all(child.phase is Phase.UP for child in shell.sup.children)
    assert len(shell.sup.charges) == 1


@TOGETHER
def test_who_dies_before_its_turn_to_stop_is_part_of_the_restart_and_not_charged(strategy: str) -> None:
    shell = family(strategy, intensity=1)
    shell.manual = True
    assert moves(shell.exit("a")) == ["-d"]
    assert moves(shell.exit("b")) == []
    assert moves(shell.exit("d", "crash")) == ["-c"]
    assert moves(shell.exit("c", "shutdown")) == ["+a"]
    assert len(shell.sup.charges) == 1 and shell["b"].row == 0


@TOGETHER
def test_who_was_started_by_the_restart_and_dies_is_charged(strategy: str) -> None:
    """Else a child that crashes whenever the next one takes long to start would do so for ever."""
    shell = family(strategy, "ab", intensity=1)
    shell.stubborn.add("b")
    shell.exit("a")
    shell.manual = True
    shell.do(Exited("b", shell["b"].pid or 0, "shutdown"))
    shell.do(Started("a", 900))
    assert shell["b"].phase is Phase.STARTING
    assert moves(shell.exit("a")) == ["-b"]
    assert shell.sup.closing == "shutdown"


def test_an_earlier_sibling_that_fails_meanwhile_is_charged_and_widens_the_restart() -> None:
    shell = family("rest_for_one")
    shell.manual = True
    assert moves(shell.exit("c")) == ["-d"]
    assert moves(shell.exit("a")) == []  # d is being stopped already
    assert moves(shell.exit("d", "shutdown")) == ["-b"]
    assert moves(shell.exit("b", "shutdown")) == ["+a"]
    for pid, id in enumerate("abc", 900):
        assert moves(shell.do(Started(id, pid))) == ["+" + "bcd"[pid - 900]]
    assert len(shell.sup.charges) == 2


@TOGETHER
def test_one_cells_death_is_charged_once_in_whichever_order_its_children_are_reported(strategy: str) -> None:
    for order in ("abcd", "dcba", "bdac"):
        shell = family(strategy, intensity=1)
        shell.manual = True
        for id in order:
            shell.exit(id, "crash" if id == "c" else "cell_lost", batch="cell 1")
        if shell["d"].phase is Phase.STOPPING:  # it was to come back before the others were reported
            shell.do(StartFailed("d", "shutdown"))
        assert [child.phase for child in shell.sup.children] == [Phase.STARTING, *3 * [Phase.QUEUED]]
        assert len(shell.sup.charges) == 1


@TOGETHER
def test_what_is_lost_without_blame_is_not_charged(strategy: str) -> None:
    shell = family(strategy, intensity=0)
    for _ in range(5):
        shell.exit("a", "cell_lost")
        shell.do(RestartDue("a"))
    assert all(child.phase is Phase.UP for child in shell.sup.children) and shell.sup.charges == ()


# 55, 58: the restart itself fails


def test_55_one_for_all_stops_what_had_come_up_and_begins_anew_with_the_first() -> None:
    shell = family("one_for_all", "abc")
    shell.failing.add("b")
    effects = shell.exit("c")
    assert moves(effects) == ["-b", "-a", "+a", "+b", "-a", "+a", "+b", "-a"]  # the first retry is immediate
    assert effects[-1] == StartChildAfter("b", 0.1)
    assert all(effect.reason == "shutdown" for effect in effects if isinstance(effect, StopChild))
    shell.failing.clear()
    assert moves(shell.do(RestartDue("b"))) == ["+a", "+b", "+c"]
    assert len(shell.sup.charges) == 3


def test_58_rest_for_one_begins_anew_with_the_one_that_did_not_start() -> None:
    shell = family("rest_for_one", "abc")
    shell.failing.add("c")
    effects = shell.exit("a")
    assert moves(effects) == ["-c", "-b", "+a", "+b", "+c", "+c"]
    assert effects[-1] == StartChildAfter("c", 0.1)
    before = shell.pids()
    shell.failing.clear()
    assert moves(shell.do(RestartDue("c"))) == ["+c"]
    assert changed(shell, before) == "c"


@TOGETHER
def test_the_back_off_is_that_of_the_child_that_failed_and_begins_when_the_others_are_gone(
    strategy: str,
) -> None:
    shell = family(strategy, "ab")
    shell.exit("a")
    shell.manual = True
    assert moves(shell.exit("a")) == ["-b"]
    assert shell.exit("b", "shutdown")[-1] == StartChildAfter("a", 0.1)
    assert shell.do(RestartDue("b")) == []
    assert shell.do(RestartDue("a")) == [StartChild("a")]
    shell = family(strategy, "ab")
    shell.exit("a")
    shell.now_s += 60.0  # quiet for all of them
    assert not any(isinstance(effect, StartChildAfter) for effect in shell.exit("a"))


@TOGETHER
def test_time_in_the_restart_is_not_quiet_for_those_who_go_along(strategy: str) -> None:
    shell = family(strategy, "ab")
    shell.exit("b")
    shell.manual = True
    shell.exit("a")
    shell.exit("b", "shutdown")
    shell.now_s += 100.0
    shell.do(Started("a", 900))
    shell.do(StartFailed("b", "crash"))
    assert shell["b"].row == 2


# 60, 61


def test_60_tree_when_a_supervisor_below_gives_up_the_one_above_applies_its_own_strategy() -> None:
    above = family("one_for_all", "ab", type="supervisor")
    below = family("rest_for_one", intensity=0)
    assert below.exit("b")[-1] == GiveUp("shutdown")
    assert moves(above.exit("a", "shutdown")) == ["-b", "+a", "+b"]


@TOGETHER
def test_60_deviation_what_was_stopped_stays_so_until_it_is_started_by_name(strategy: str) -> None:
    """OTP's one_for_all starts it again; here its messages are dead letters, and it may be a person who stopped it."""
    shell = family(strategy, restart="transient")
    shell.do(Stop("c"))
    shell.exit("d", "normal")
    assert moves(shell.exit("a")) == ["-b", "+a", "+b"]
    assert shell["c"].slot is shell["d"].slot is SlotState.STOPPED
    assert moves(shell.do(Start("c"))) == ["+c"]


def stuck(strategy: str, where: str) -> Shell:
    """A restart that ``a`` began, and that hangs: ``b`` does not stop, in the back-off, ``a`` does not start."""
    shell = family(strategy, "abc")
    shell.do(Stop("c"))
    if where == "back-off":
        shell.exit("a")
    if where == "stopping":
        shell.stubborn.add("b")
    shell.manual = where == "starting"
    shell.exit("a")
    if where == "starting":
        shell.exit("b", "shutdown")
    shell.manual = True
    shell.effects.clear()
    return shell


HANGS = pytest.mark.parametrize("where", ["stopping", "back-off", "starting"])


@TOGETHER
@HANGS
def test_61_hanging_restart_loop_answers_about_every_child(strategy: str, where: str) -> None:
    for id in "ab":
        shell = stuck(strategy, where)
        assert shell.refused(Add(ChildSpec(id))) == "already_started"
        assert shell.refused(Start(id)) == "restarting"
        assert shell.refused(Remove(id)) == "restarting"
        assert SlotChanged(id, SlotState.STOPPED, "stop") in shell.do(Stop(id))
    shell = stuck(strategy, where)
    assert shell.do(Remove("c")) == [Dropped("c", "removed")]


@TOGETHER
@HANGS
def test_61_what_is_added_or_started_meanwhile_comes_in_its_turn(strategy: str, where: str) -> None:
    shell = stuck(strategy, where)
    assert moves(shell.do(Add(ChildSpec("d")))) == []
    assert moves(shell.do(Start("c"))) == []
    shell.manual = False
    shell.stubborn.clear()
    if where == "stopping":
        assert moves(shell.exit("b", "shutdown")) == ["+a", "+b", "+c", "+d"]
    elif where == "back-off":
        assert moves(shell.do(RestartDue("a"))) == ["+a", "+b", "+c", "+d"]
    else:
        assert moves(shell.do(Started("a", 900))) == ["+b", "+c", "+d"]
    assert all(child.phase is Phase.UP for child in shell.sup.children)


@TOGETHER
@HANGS
def test_61_a_shutdown_comes_to_its_end(strategy: str, where: str) -> None:
    shell = stuck(strategy, where)
    shell.do(Add(ChildSpec("t", restart="temporary")))
    effects = shell.do(Shutdown())
    assert Dropped("t", "shutdown") in effects
    for id in ("b", "a"):
        if where == "starting" and id == "a":
            effects = shell.do(StartFailed("a", "shutdown"))
        elif shell[id].pid is not None:
            effects = shell.exit(id, "killed")
    assert effects[-1] == GiveUp("shutdown")
    assert [child.slot for child in shell.sup.children][:2] == 2 * [SlotState.RESTARTING]


@TOGETHER
def test_61_who_is_stopped_by_name_is_passed_over_wherever_the_restart_is(strategy: str) -> None:
    for where in ("stopping", "back-off", "starting"):
        for id in "ab":
            shell = stuck(strategy, where)
            shell.do(Stop(id))
            for other in ("b", "a"):
                if shell[other].pid is not None:
                    shell.exit(other, "shutdown")
            if shell["a"].phase is Phase.STOPPING:
                shell.do(StartFailed("a", "shutdown"))
            shell.do(RestartDue("a"))
            left = "b" if id == "a" else "a"
            assert shell[left].phase is Phase.STARTING, (where, id)
            shell.do(Started(left, 900))
            assert shell[id].phase is Phase.NONE and shell.sup.group is None


@TOGETHER
def test_61_a_stop_by_name_does_not_wait_for_the_turn_and_is_waited_for(strategy: str) -> None:
    shell = family(strategy)
    shell.manual = True
    assert moves(shell.exit("a")) == ["-d"]
    assert shell.do(Stop("b"))[-1] == StopChild("b", "shutdown", 5.0)
    assert moves(shell.exit("d", "shutdown")) == ["-c"]
    assert moves(shell.exit("c", "shutdown")) == []
    shell.manual = False
    assert moves(shell.exit("b", "shutdown")) == ["+a", "+c", "+d"]


@TOGETHER
def test_61_who_is_removed_and_added_anew_meanwhile_is_the_last(strategy: str) -> None:
    shell = stuck(strategy, "starting")
    for event in (Start("c"), Stop("b"), Remove("b"), Add(ChildSpec("b"))):
        shell.do(event)
    shell.manual = False
    assert moves(shell.do(Started("a", 900))) == ["+c", "+b"]


@TOGETHER
def test_61_a_temporary_child_that_waits_for_its_turn_is_dropped_when_it_is_stopped(strategy: str) -> None:
    shell = stuck(strategy, "starting")
    shell.do(Add(ChildSpec("t", restart="temporary")))
    assert shell.do(Stop("t")) == [Dropped("t", "stop")]


@TOGETHER
def test_a_child_that_was_added_meanwhile_and_does_not_start_is_dropped_and_hinders_nobody(
    strategy: str,
) -> None:
    shell = stuck(strategy, "starting")
    shell.do(Add(ChildSpec("bad")))
    shell.do(Add(ChildSpec("good")))
    shell.manual, shell.failing = False, {"bad"}
    effects = shell.do(Started("a", 900))
    assert moves(effects) == ["+b", "+bad", "+good"] and Dropped("bad", "crash") in effects
    assert len(shell.sup.charges) == 1


@TOGETHER
def test_a_start_that_a_restart_overtakes_is_made_again(strategy: str) -> None:
    shell = family(strategy, "a")
    shell.manual = True
    shell.add("b")
    assert moves(shell.exit("a")) == ["-b"]
    assert moves(shell.do(StartFailed("b", "shutdown"))) == ["+a"]
    assert moves(shell.do(Started("a", 900))) == ["+b"]


def test_a_start_by_name_before_the_restart_is_at_once() -> None:
    shell = family("rest_for_one")
    shell.do(Stop("a"))
    shell.stubborn.add("d")
    shell.exit("c")
    assert moves(shell.do(Start("a"))) == ["+a"]
    assert shell["a"].phase is Phase.UP


@TOGETHER
def test_a_restart_in_order_is_not_for_a_supervisor_of_unrelated_children(strategy: str) -> None:
    flags = Flags(strategy=strategy, on_exceed="park")
    with pytest.raises(Exception, match=f"strategy is {strategy} and on_exceed park"):
        begin(flags)


@TOGETHER
def test_a_failure_among_thousands_takes_a_few_steps_for_each(strategy: str) -> None:
    """The whole is one step of the node's loop."""
    ids = [f"a{number}" for number in range(2000)]
    sup, _ = begin(Flags(strategy=strategy), [(ChildSpec(id), SlotState.RUNNING) for id in ids])
    for pid, id in enumerate(ids):
        sup, _ = step(sup, Started(id, pid), 0.0, 0.0)
    calls, (after, effects) = counted(lambda: step(sup, Exited("a0", 0, "crash"), 0.0, 0.0))
    assert calls < 20 * len(ids)
    assert [effect.id for effect in effects if isinstance(effect, SlotChanged)] == ids
    assert moves([*effects]) == ["-a1999"]
    assert after.counts() == {"specs": 2000, "active": 1999, "supervisors": 0, "workers": 2000}


@TOGETHER
def test_the_last_of_many_is_started_as_fast_as_the_last_of_few(strategy: str) -> None:
    def last(count: int) -> int:
        ids = [f"a{number}" for number in range(count)]
        sup, _ = begin(Flags(strategy=strategy), [(ChildSpec(id), SlotState.RUNNING) for id in ids])
        for pid, id in enumerate(ids[:-2]):
            sup, _ = step(sup, Started(id, pid), 0.0, 0.0)
        calls, (_, effects) = counted(lambda: step(sup, Started(ids[-2], count), 0.0, 0.0))
        assert effects == (StartChild(ids[-1]),)
        return calls

    assert last(300) < 2 * last(3)


@TOGETHER
def test_who_is_added_while_thousands_wait_for_their_turn_takes_as_many_steps_as_among_few(
    strategy: str,
) -> None:
    def added(among: int) -> int:
        children = [(ChildSpec(f"a{number}"), SlotState.RUNNING) for number in range(among)]
        sup, _ = begin(Flags(strategy=strategy), children)
        return counted(lambda: step(sup, Add(ChildSpec("late")), 0.0, 0.0))[0]

    assert added(2000) == added(2)
