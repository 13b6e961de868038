"""Flags and specs that are changed while a supervisor runs. Numbers are those of the list of OTP's cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.supervision.reducer import (
    ChangeFlags,
    ChangeSpec,
    ChildSpec,
    Flags,
    GiveUp,
    Phase,
    RestartDue,
    Shutdown,
    SlotState,
    StopChild,
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
    shell = family()
    shell.stubborn.add("b")
    shell.do(Shutdown())
    assert shell.refused(ChangeSpec(ChildSpec("a", "transient"))) == "shutdown"
    assert shell.refused(ChangeFlags(OTP)) == "shutdown"
