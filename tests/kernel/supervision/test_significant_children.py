"""Children whose own end ends their supervisor. Numbers are those of the list of OTP's cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.errors import SupervisionError
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Exited,
    Flags,
    GiveUp,
    RestartDue,
    Shutdown,
    SlotState,
    Started,
    Stop,
    StopChild,
    begin,
)
from tests.kernel.supervision.test_supervision import Shell

MODES = pytest.mark.parametrize("mode", ["any_significant", "all_significant"])
REASONS = ["normal", "shutdown", "shutdown:x", "crash", "killed"]


def family(mode: str, restart: str = "temporary", strategy: str = "one_for_one") -> Shell:
    """``a`` and ``b`` are significant, ``x`` is not; all run."""
    shell = Shell(Flags(intensity=100, auto_shutdown=mode, strategy=strategy))  # type: ignore[arg-type]
    shell.add("a", "b", restart=restart, significant=True)
    shell.add("x", restart=restart)
    return shell


@pytest.mark.parametrize(("restart", "reason"), [
    *(("temporary", reason) for reason in REASONS),
    *(("transient", reason) for reason in ("normal", "shutdown", "shutdown:x")),
])  # fmt: skip
def test_64_any_significant_the_end_of_one_ends_all(restart: str, reason: str) -> None:
    shell = family("any_significant", restart)
    effects = shell.exit("a", reason)
    assert [effect.id for effect in effects if isinstance(effect, StopChild)] == ["x", "b"]
    assert effects[-1] == GiveUp("shutdown")


@MODES
@pytest.mark.parametrize("reason", ["crash", "killed", "timeout"])
def test_64_a_transient_child_that_fails_is_restarted_instead(mode: str, reason: str) -> None:
    shell = family(mode, "transient")
    for id in "ab":
        before = shell[id].pid
        shell.exit(id, reason)
        assert shell[id].pid != before
    assert shell.sup.closing is None


def test_64_all_significant_waits_for_the_last_of_those_that_were_brought_back() -> None:
    spec = ChildSpec("a", "transient", significant=True)
    shell = Shell()
    shell.sup, _ = begin(
        Flags(auto_shutdown="all_significant"),
        [(spec, SlotState.RUNNING), (replace(spec, id="b"), SlotState.RUNNING)],
    )
    for pid, id in enumerate("ab", 900):
        shell.do(Started(id, pid))
    assert GiveUp("shutdown") not in shell.exit("a", "normal")
    assert shell.exit("b", "normal")[-1] == GiveUp("shutdown")


@pytest.mark.parametrize("restart", ["temporary", "transient"])
def test_64_all_significant_waits_for_the_last_also_when_that_is_being_restarted(restart: str) -> None:
    shell = family("all_significant", restart)
    shell.exit("a", "normal")
    assert shell.sup.closing is None
    if restart == "transient":
        for _ in range(2):
            shell.exit("b", "crash")
        shell.do(RestartDue("b"))
        assert shell.sup.closing is None
    assert shell.exit("b", "normal")[-1] == GiveUp("shutdown")


@MODES
@pytest.mark.parametrize("restart", ["temporary", "transient"])
def test_64_what_is_ended_by_name_does_not_count_as_its_own_end(mode: str, restart: str) -> None:
    shell = family(mode, restart)
    for id in "ab":
        shell.do(Stop(id))
        assert shell.sup.closing is None
    shell.add("c", restart=restart, significant=True)
    assert shell.exit("c", "normal")[-1] == GiveUp("shutdown")


@MODES
@pytest.mark.parametrize("restart", ["temporary", "transient"])
def test_64_nonsignificant_never_end_the_whole(mode: str, restart: str) -> None:
    shell = family(mode, restart)
    shell.exit("x", "normal")
    assert shell.sup.closing is None


def test_64_a_child_that_does_not_start_has_not_ended() -> None:
    shell = family("any_significant")
    shell.failing.add("c")
    shell.add("c", restart="temporary", significant=True)
    assert shell.sup.closing is None


def test_64_who_ends_while_the_whole_does_changes_nothing_of_that() -> None:
    shell = family("any_significant")
    shell.stubborn.update("abx")
    shell.do(Shutdown("shutdown:first"))
    for id in "abx":
        effects = shell.exit(id, "normal")
    assert effects[-1] == GiveUp("shutdown:first")


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("alone", [True, False])
def test_65_significant_bystander_of_a_restart_does_not_end_the_whole(strategy: str, alone: bool) -> None:
    shell = Shell(Flags(intensity=9, auto_shutdown="any_significant", strategy=strategy))
    shell.add("a")
    shell.add("t", restart="temporary", significant=True)
    shell.add("z")
    shell.manual = alone
    pid = shell["t"].pid or 0
    shell.exit("a")
    if alone:  # it dies before its turn to stop comes
        shell.do(Exited("t", pid, "crash"))
    assert shell.sup.closing is None and "t" not in shell.sup.table


def test_65_significant_simple_and_faulty_combinations_are_refused_with_a_word_of_their_own() -> None:
    shell = Shell(Flags())
    assert shell.refused(Add(ChildSpec("a", "transient", significant=True))) == "bad_combination"
    shell = Shell(Flags(auto_shutdown="any_significant"))
    assert shell.refused(Add(ChildSpec("a", significant=True))) == "bad_spec"
    with pytest.raises(SupervisionError, match="auto_shutdown never") as caught:
        begin(Flags(), [(ChildSpec("a", "transient", significant=True), SlotState.RUNNING)])
    assert caught.value.word == "bad_combination"
    with pytest.raises(
        SupervisionError, match="auto_shutdown is 'some', must be one of never, any_"
    ) as caught:
        begin(Flags(auto_shutdown="some"))  # type: ignore[arg-type]
    assert caught.value.word == "bad_flags"
