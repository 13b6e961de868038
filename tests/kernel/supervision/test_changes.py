"""Flags and specs that are changed while a supervisor runs. Numbers are those of the list of OTP's cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.supervision.reducer import (
    Add,
    ChangeFlags,
    ChangeSpec,
    ChildSpec,
    Flags,
    GiveUp,
    Phase,
    RestartDue,
    Shutdown,
    SlotState,
    StartChild,
    StopChild,
    begin,
)
from tests.kernel.supervision.test_supervision import OTP, Shell, flags_of


def family(flags: Flags = OTP, **fields: object) -> Shell:
    shell = Shell(flags)
    shell.add("a", "b", **fields)
    return shell


def test_66_a_change_has_no_effect_by_itself() -> None:
    shell = family()
    before = shell.pids()
    assert shell.do(ChangeSpec(ChildSpec("a", "temporary", 0.0))) == []
    assert shell.do(ChangeFlags(replace(OTP, strategy="rest_for_one", intensity=9))) == []
    assert shell.pids() == before
    shell.exit("b")
    assert shell["b"].pid != before["b"]


def test_66_restarts_that_were_charged_stay_so_and_count_at_the_next_failure() -> None:
    shell = family(Flags(intensity=5))
    for _ in range(2):
        shell.exit("a")
        shell.do(RestartDue("a"))
    shell.do(ChangeFlags(Flags(intensity=2)))
    assert shell.sup.closing is None
    assert shell.exit("b")[-1] == GiveUp("shutdown")


def test_66_a_child_is_stopped_as_its_new_spec_says() -> None:
    shell = family()
    shell.do(ChangeSpec(ChildSpec("a", shutdown_s=0.0)))
    stops = [effect for effect in shell.do(Shutdown()) if isinstance(effect, StopChild)]
    assert [(stop.id, stop.timeout_s) for stop in stops] == [("b", 5.0), ("a", 0.0)]


def test_66_significant_children_are_counted_by_their_new_specs() -> None:
    shell = family(Flags(auto_shutdown="all_significant"), restart="transient", significant=True)
    shell.do(ChangeSpec(ChildSpec("b", "transient")))
    assert shell.sup.significant == 1
    assert shell.exit("a", "normal")[-1] == GiveUp("shutdown")


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (replace(OTP, intensity=-1), "bad_flags"),
        (replace(OTP, strategy="none_for_none"), "bad_flags"),
        (replace(OTP, auto_shutdown="never"), "bad_combination"),
        (flags_of("simple_one_for_one"), "simple_one_for_one"),
    ],
)
def test_66_faulty_flags_are_refused_each_with_its_word(flags: Flags, word: str) -> None:
    shell = family(replace(OTP, auto_shutdown="any_significant"), restart="transient", significant=True)
    before = shell.sup
    assert shell.refused(ChangeFlags(flags)) == word
    assert shell.sup == before


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (ChildSpec("a", shutdown_s=-1.0), "bad_spec"),
        (ChildSpec("a", type="supervisor"), "bad_spec"),
        (ChildSpec("a", "transient", significant=True), "bad_combination"),
        (ChildSpec("nobody"), "not_found"),
    ],
)
def test_66_faulty_specs_are_refused_each_with_its_word(spec: ChildSpec, word: str) -> None:
    shell = family()
    before = shell.sup
    assert shell.refused(ChangeSpec(spec)) == word
    assert shell.sup == before


def test_66_what_does_not_run_cannot_become_temporary() -> None:
    shell = family(Flags(intensity=5))
    shell.exit("a")
    shell.exit("a")
    assert (shell["a"].phase, shell["a"].slot) == (Phase.WAITING, SlotState.RESTARTING)
    assert shell.refused(ChangeSpec(ChildSpec("a", "temporary"))) == "restarting"
    shell.stubborn.add("b")
    shell.exit("b", "shutdown")
    shell.do(ChangeSpec(ChildSpec("b", "temporary")))
    shell.exit("b", "crash")
    assert "b" not in shell.sup.table


def test_66_a_child_of_a_template_and_a_supervisor_that_ends_are_not_changed() -> None:
    dynamic = Shell(flags_of("simple_one_for_one"))
    dynamic.add("a")
    assert dynamic.refused(ChangeSpec(ChildSpec("a", "transient"))) == "simple_one_for_one"
    assert dynamic.do(ChangeFlags(flags_of("simple_one_for_one", intensity=7))) == []
    assert dynamic.refused(ChangeFlags(OTP)) == "simple_one_for_one"
    shell = family()
    shell.stubborn.add("b")
    shell.do(Shutdown())
    assert shell.refused(ChangeSpec(ChildSpec("a", "transient"))) == "shutdown"
    assert shell.refused(ChangeFlags(OTP)) == "shutdown"


def test_66_new_children_are_of_a_new_template_and_those_that_are_there_stay_as_they_were_made() -> None:
    shell = Shell(flags_of("simple_one_for_one", intensity=9))
    shell.add("a", "b")
    before = shell.pids()
    new = flags_of("simple_one_for_one", ChildSpec("", "transient", 1.0), intensity=9)
    assert shell.do(ChangeFlags(new)) == [] and shell.pids() == before
    assert shell.refused(Add(ChildSpec("c"))) == "bad_combination"
    shell.add("c", restart="transient", shutdown_s=1.0)
    shell.exit("c", "shutdown")
    shell.exit("a", "shutdown")
    assert "c" not in shell.sup.table and shell["a"].pid not in (None, before["a"])
    stops = [effect for effect in shell.do(Shutdown()) if isinstance(effect, StopChild)]
    assert {(stop.id, stop.timeout_s) for stop in stops} == {("a", 5.0), ("b", 5.0)}
    again, starts = begin(new, [(child.spec, SlotState.RUNNING) for child in (shell["b"],)])
    assert starts == (StartChild("b"),) and again.child("b").spec == ChildSpec("b")


@pytest.mark.parametrize(
    ("template", "word"),
    [
        (ChildSpec("", shutdown_s=-1.0), "bad_flags"),
        (ChildSpec("", "transient", on_logical="park"), "bad_combination"),
    ],
)
def test_66_a_faulty_template_is_refused_and_the_one_before_stays(template: ChildSpec, word: str) -> None:
    shell = Shell(flags_of("simple_one_for_one"))
    shell.add("a")
    before = shell.sup
    assert shell.refused(ChangeFlags(flags_of("simple_one_for_one", template))) == word
    assert shell.sup == before
