"""simple_one_for_one: children of one template that come and go. Numbers are those of the list of OTP's cases."""

from __future__ import annotations

import pytest

from kernel.errors import SupervisionError
from kernel.model.states import SlotState
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Dropped,
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
    Stop,
    StopChild,
    begin,
)
from tests.kernel.supervision.test_supervision import Shell, counted, flags_of

RESTARTS = pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])


def pool(ids: str = "abc", intensity: int = 100, manual: bool = False, **fields: object) -> Shell:
    """Children of one template, which run; nothing is noted of their starts."""
    template = ChildSpec("", **fields)  # type: ignore[arg-type]  # they are those of a spec
    shell = Shell(flags_of("simple_one_for_one", template, intensity=intensity))
    shell.add(*ids, **fields)
    shell.effects.clear()
    shell.manual = manual
    return shell


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (Flags(strategy="simple_one_for_one"), "makes its children of a template: say one"),
        (Flags(template=ChildSpec("")), "one_for_one, which has no template"),
        (Flags(strategy="one_for_all", template=ChildSpec("")), "one_for_all, which has no template"),
        (flags_of("simple_one_for_one", ChildSpec("", shutdown_s=-1)), "template: shutdown_s is -1"),
        (flags_of("simple_one_for_one", on_exceed="park"), "park, which is for unrelated children"),
    ],
)
def test_34_a_template_is_wanted_by_this_strategy_and_by_no_other(flags: Flags, fault: str) -> None:
    with pytest.raises(SupervisionError, match=fault) as caught:
        begin(flags)
    assert caught.value.word == "bad_flags"


@pytest.mark.parametrize("mode", ["any_significant", "all_significant"])
def test_65_significant_simple_the_whole_of_a_template_ends_by_no_childs_end(mode: str) -> None:
    with pytest.raises(SupervisionError, match="auto_shutdown") as caught:
        begin(flags_of("simple_one_for_one", auto_shutdown=mode))
    assert caught.value.word == "bad_combination"


def test_a_child_that_is_not_of_the_template_is_refused() -> None:
    shell = pool("a")
    assert shell.refused(Add(ChildSpec("b", restart="transient"))) == "bad_combination"
    assert shell.refused(Add(ChildSpec("a"))) == "already_started"


def test_29_child_adm_simple() -> None:
    shell = pool("ab")
    shell.stubborn.add("a")
    for event in (Start("a"), Remove("a"), Start("nobody"), Remove("nobody")):
        assert shell.refused(event) == "simple_one_for_one"
    assert shell.do(Stop("a")) == [
        SlotChanged("a", SlotState.STOPPED, "stop"),
        StopChild("a", "shutdown", 5.0),
    ]
    assert shell.do(Stop("a")) == []
    assert shell.exit("a", "shutdown") == [Dropped("a", "shutdown")]
    assert shell.refused(Stop("a")) == "not_found"
    assert [child.spec.id for child in shell.sup.children] == ["b"]


@RESTARTS
def test_a_stop_while_it_waits_for_its_restart_or_starts_leaves_nothing(restart: str) -> None:
    shell = pool("ab", restart=restart)
    shell.manual = True
    if restart != "temporary":
        shell.exit("a")
        shell.do(Started("a", 900))
        shell.exit("a")
        assert shell["a"].phase is Phase.WAITING
        assert shell.do(Stop("a")) == [SlotChanged("a", SlotState.STOPPED, "stop"), Dropped("a", "stop")]
        assert shell.do(RestartDue("a")) == []
    shell.add("c", restart=restart)
    shell.do(Stop("c"))
    assert shell.do(Exited("c", 0, "shutdown")) == [Dropped("c", "shutdown")]


@pytest.mark.parametrize("reason", ["normal", "shutdown", "shutdown:x"])
def test_59_a_transient_child_that_ends_in_order_is_removed_and_its_id_is_free(reason: str) -> None:
    shell = pool("a", restart="transient")
    assert shell.exit("a", reason) == [SlotChanged("a", SlotState.STOPPED, reason), Dropped("a", reason)]
    assert shell.do(Add(ChildSpec("a", restart="transient")))[0] == StartChild("a")


def test_59_each_restarts_by_itself_and_the_intensity_is_that_of_all() -> None:
    shell = pool("abc", intensity=2)
    before = shell.pids()
    shell.exit("a")
    shell.exit("b")
    assert shell.pids()["c"] == before["c"] and shell.pids()["a"] != before["a"]
    effects = shell.exit("c")
    assert {effect.id for effect in effects if isinstance(effect, StopChild)} == {"a", "b"}
    assert effects[-1] == GiveUp("shutdown")


def test_59_escalation_starts_that_fail_count_and_end_the_supervisor() -> None:
    shell = pool("ab", intensity=2)
    shell.failing.add("a")
    shell.exit("a")
    while not shell.sup.ended:
        assert isinstance(shell.effects[-1], StartChildAfter)
        shell.do(RestartDue("a"))
    assert shell.effects[-1] == GiveUp("shutdown")


def test_20_26_all_are_told_to_stop_at_once_and_have_their_time_together() -> None:
    shell = pool("abcd", shutdown_s=3.0)
    shell.manual = True
    shell.do(Stop("b"))
    assert shell.do(Shutdown()) == [StopChild(id, "shutdown", 3.0) for id in "acd"]
    assert {child.phase for child in shell.sup.children} == {Phase.STOPPING}
    assert shell.exit("d", "shutdown") == []
    assert shell.do(Shutdown()) == []
    for id in "ac":
        assert shell.exit(id, "killed") == []
    assert shell.exit("b", "shutdown") == [Dropped("b", "shutdown"), GiveUp("shutdown")]


def test_22_a_kill_of_the_whole_kills_all_at_once_also_those_that_were_told_to_stop() -> None:
    shell = pool("abc")
    shell.manual = True
    shell.do(Shutdown())
    assert shell.do(Shutdown("killed")) == [StopChild(id, "killed", 0.0) for id in "abc"]
    assert shell.exit("b", "killed") == []
    shell.exit("a", "killed")
    assert shell.exit("c", "killed") == [GiveUp("killed")]


def test_a_supervisor_that_begins_anew_has_those_that_are_meant_to_run_and_no_other() -> None:
    flags = flags_of("simple_one_for_one")
    states = (SlotState.RUNNING, SlotState.STOPPED, SlotState.RESTARTING, SlotState.PARKED)
    slots = [(ChildSpec(id), state) for id, state in zip("abcd", states, strict=True)]
    sup, effects = begin(flags, slots)
    assert effects == (StartChild("a"), Dropped("b", "stopped"), StartChild("c"), Dropped("d", "parked"))
    assert [child.spec.id for child in sup.children] == ["a", "c"]


def test_a_recorded_child_that_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(SupervisionError) as refused:
        begin(flags_of("simple_one_for_one"), [(ChildSpec("a", "never"), SlotState.RUNNING)])  # type: ignore[arg-type]
    assert refused.value.word == "bad_spec"
    assert str(refused.value).startswith("child 'a': ") and "never" in str(refused.value)


def test_the_end_of_thousands_takes_as_many_steps_for_each_as_that_of_few() -> None:
    def ended(count: int) -> int:
        slots = [(ChildSpec(f"c{number}"), SlotState.RUNNING) for number in range(count)]
        shell = Shell()
        shell.sup, _ = begin(flags_of("simple_one_for_one"), slots)
        for number in range(count):
            shell.do(Started(f"c{number}", number))
        return counted(lambda: shell.do(Shutdown()))[0]

    assert ended(3_000) < 15 * ended(300)
