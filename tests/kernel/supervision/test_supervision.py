"""Supervision by the rules of Erlang/OTP. Names of OTP's own cases are given where a test has one."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kernel.errors import SupervisionError
from kernel.supervision.reducer import (
    INFINITY,
    STRATEGIES,
    Add,
    Child,
    ChildSpec,
    Dropped,
    Effect,
    Event,
    Exited,
    Flags,
    GiveUp,
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

ORDERLY = ["normal", "shutdown", "shutdown:done"]
ABNORMAL = ["crash", "killed", "cell_lost", "timeout", "no_progress", "refused"]
OTP = Flags(intensity=1, period_s=5.0)
PARK = Flags(intensity=2, period_s=10.0, on_exceed="park")
T = TypeVar("T")


def flags_of(strategy: str, template: ChildSpec | None = None, **fields: Any) -> Flags:
    """Flags of this strategy, with the template that it wants."""
    dynamic = STRATEGIES[strategy].dynamic
    return Flags(strategy=strategy, template=(template or ChildSpec("")) if dynamic else None, **fields)


class Shell:
    """Performs effects as the kernel does, in memory, but for timers. ``effects`` has all of them, in order.

    Children start at once unless their id is in ``failing`` and stop at once unless it is in ``stubborn``.
    ``manual`` leaves starts and stops to the test.
    """

    def __init__(self, flags: Flags = OTP, manual: bool = False) -> None:
        self.sup, _ = begin(flags)
        self.now_s = 1000.0
        self.manual = manual
        self.failing: set[str] = set()
        self.stubborn: set[str] = set()
        self.effects: list[Effect] = []
        self.pid = 100
        self.jitter = 0.0

    def do(self, event: Event) -> list[Effect]:
        """The effects of this event, and of what the shell did about them."""
        before = len(self.effects)
        self.sup, effects = step(self.sup, event, self.now_s, self.jitter)
        self.effects += effects
        if not self.manual:
            for effect in effects:
                self._perform(effect)
        return self.effects[before:]

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartChild(id) if id in self.failing:
                self.do(StartFailed(id, "crash"))
            case StartChild(id):
                self.pid += 1
                self.do(Started(id, self.pid))
            case StopChild(id, reason, _) if id not in self.stubborn:
                self.exit(id, reason)

    def add(self, *ids: str, **fields: Any) -> None:
        for id in ids:
            self.do(Add(ChildSpec(id, **fields)))

    def exit(self, id: str, reason: str = "crash", batch: str | None = None) -> list[Effect]:
        pid = self[id].pid
        assert pid is not None, f"{id} does not run"
        return self.do(Exited(id, pid, reason, batch))

    def refused(self, event: Event) -> str:
        """OTP's word for the refusal; the state must not have changed."""
        with pytest.raises(SupervisionError) as caught:
            self.do(event)
        return caught.value.word

    def __getitem__(self, id: str) -> Child:
        return self.sup.child(id)

    def pids(self) -> dict[str, int | None]:
        return {child.spec.id: child.pid for child in self.sup.children}


# Start


def counted(work: Callable[[], T]) -> tuple[int, T]:
    """How many calls of functions ``work`` takes, and what it gives."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        given = work()
    finally:
        sys.setprofile(before)
    return calls, given


def test_sup_start_normal_has_no_children_and_external_shutdown_ends_it() -> None:
    shell = Shell()
    assert shell.sup.counts() == {"specs": 0, "active": 0, "supervisors": 0, "workers": 0}
    assert shell.do(Shutdown()) == [GiveUp("shutdown")]
    assert shell.sup.ended


def test_sup_start_child_returns_error_nothing_is_kept() -> None:
    shell = Shell()
    shell.failing.add("a")
    shell.add("a")
    assert shell.effects == [StartChild("a"), Dropped("a", "crash")]
    assert shell.sup.children == ()
    shell.failing.clear()
    shell.add("a")
    assert shell["a"].phase is Phase.UP


def test_sup_start_restart_child_returns_error_spec_stays_with_no_pid() -> None:
    shell = Shell()
    shell.add("a")
    shell.do(Stop("a"))
    shell.failing.add("a")
    effects = shell.do(Start("a"))
    assert effects[-1] == SlotChanged("a", SlotState.STOPPED, "crash")
    assert (shell["a"].slot, shell["a"].phase, shell["a"].pid) == (SlotState.STOPPED, Phase.NONE, None)
    assert shell.sup.charges == ()  # who asked has the error; nothing is restarted


def test_sup_start_map_minimal_specs_get_the_defaults() -> None:
    shell = Shell()
    shell.add("a")
    assert shell["a"].spec == ChildSpec("a", restart="permanent", shutdown_s=5.0, type="worker")
    with pytest.raises(SupervisionError, match="there is no child 'b'") as caught:
        shell.sup.child("b")
    assert (caught.value.word, caught.value.code) == ("not_found", "not_found")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (ChildSpec(""), "id: name '' is not allowed"),
        (ChildSpec("12"), "id: name '12' is all digits"),
        (ChildSpec("a/b"), "id: name 'a/b' is not allowed"),
        (
            ChildSpec("a", restart="always"),  # type: ignore[arg-type]
            "restart is 'always', must be one of permanent, transient, temporary",
        ),
        (ChildSpec("a", significant=True), "significant is for a child that may end"),
        (ChildSpec("a", shutdown_s=-1), "shutdown_s is -1, must be 0 or more"),
        (ChildSpec("a", shutdown_s=float("nan")), "shutdown_s is nan, must be 0 or more"),
        (ChildSpec("a", type="agent"), "type is 'agent', must be one of worker, supervisor"),  # type: ignore[arg-type]
    ],
)
def test_child_specs_each_malformed_field_has_its_own_error(spec: ChildSpec, fault: str) -> None:
    assert len(spec.check()) == 1
    assert spec.check()[0].startswith(fault)
    shell = Shell()
    assert shell.refused(Add(spec)) == "bad_spec"
    assert shell.sup.children == ()
    with pytest.raises(SupervisionError, match=r"^child .*: (id|restart|shutdown_s|type|significant)"):
        begin(OTP, [(spec, SlotState.RUNNING)])


def test_child_specs_every_fault_is_told_at_once() -> None:
    assert len(ChildSpec("", "x", -1, "y").check()) == 4  # type: ignore[arg-type]
    assert ChildSpec("a", shutdown_s=INFINITY).check() == []


def test_child_specs_duplicate_ids_are_refused() -> None:
    with pytest.raises(SupervisionError, match="child 'a' is listed twice"):
        begin(OTP, [(ChildSpec("a"), SlotState.RUNNING), (ChildSpec("a"), SlotState.STOPPED)])


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (Flags(intensity=-1), "intensity is -1, must be a whole number, 0 or more"),
        (Flags(intensity=INFINITY), "intensity is inf, must be a whole number"),  # type: ignore[arg-type]
        (Flags(intensity=1.5), "intensity is 1.5, must be a whole number"),  # type: ignore[arg-type]
        (Flags(period_s=0), "period_s is 0, must be above 0 and finite"),
        (Flags(period_s=INFINITY), "period_s is inf, must be above 0 and finite"),
        (Flags(on_exceed="retry"), "on_exceed is 'retry', must be one of shutdown, park"),  # type: ignore[arg-type]
        (Flags(backoff_base_s=0), "backoff_base_s is 0 and backoff_max_s 30.0, must be above 0"),
        (Flags(backoff_base_s=40), "backoff_base_s is 40 and backoff_max_s 30.0, must be above 0"),
        (Flags(backoff_max_s=INFINITY), "backoff_base_s is 0.2 and backoff_max_s inf, must be above 0"),
    ],
)
def test_sup_flags_each_fault_has_its_own_error(flags: Flags, fault: str) -> None:
    assert len(flags.check()) == 1
    assert flags.check()[0].startswith(fault)
    with pytest.raises(SupervisionError) as caught:
        begin(flags)
    assert (caught.value.word, caught.value.code) == ("bad_flags", "invalid")


def test_sup_flags_default_is_five_in_a_minute_and_zero_intensity_is_allowed() -> None:
    assert (Flags().intensity, Flags().period_s, Flags().check()) == (5, 60.0, [])
    assert Flags(intensity=0).check() == []


def test_sup_flags_name_a_strategy_that_there_is() -> None:
    for strategy in STRATEGIES:
        assert begin(flags_of(strategy))[1] == ()
    words = "strategy is 'one_for_none', must be one of one_for_one, one_for_all, rest_for_one, simple_one_for_one"
    with pytest.raises(SupervisionError, match=words) as caught:
        begin(Flags(strategy="one_for_none"))
    assert (caught.value.word, caught.value.code) == ("bad_flags", "invalid")


# Stop


def test_sup_stop_infinity_is_allowed_for_workers() -> None:
    shell = Shell()
    shell.add("a", shutdown_s=INFINITY)
    assert shell.do(Shutdown())[0] == StopChild("a", "shutdown", INFINITY)


def test_sup_stop_timeout_the_child_that_had_to_be_killed_does_not_hinder() -> None:
    shell = Shell()
    shell.add("prompt", "slow", shutdown_s=1.0)
    shell.stubborn.add("slow")
    assert shell.do(Shutdown()) == [StopChild("slow", "shutdown", 1.0)]
    assert shell.exit("slow", "killed") == [StopChild("prompt", "shutdown", 1.0), GiveUp("shutdown")]


def test_sup_stop_brutal_kill_gives_no_time() -> None:
    shell = Shell()
    shell.add("a", shutdown_s=0)
    assert shell.do(Shutdown())[0] == StopChild("a", "shutdown", 0)


@pytest.mark.parametrize("restart", ["temporary", "transient", "permanent"])
@pytest.mark.parametrize("reason", [*ORDERLY, *ABNORMAL])
def test_sup_stop_race_children_that_end_by_themselves_meanwhile_are_not_restarted(
    restart: str, reason: str
) -> None:
    shell = Shell()
    shell.add("a", "b", "c", restart=restart)
    shell.stubborn.add("c")
    shell.do(Shutdown("shutdown:node stops"))
    shell.exit("a", reason)
    assert not shell.sup.ended
    effects = shell.exit("c", reason)
    assert StopChild("a", "shutdown", 5.0) not in shell.effects
    assert [e for e in effects if not isinstance(e, Dropped)] == [
        StopChild("b", "shutdown", 5.0),
        GiveUp("shutdown:node stops"),
    ]
    assert all(child.pid is None for child in shell.sup.children)


def test_thousands_of_children_begin_with_a_few_steps_each() -> None:
    """The whole is one step of the node's loop."""
    children = [
        (ChildSpec(f"a{number}", type="supervisor" if number % 4 == 0 else "worker"), slot)
        for number, slot in enumerate([SlotState.RUNNING, SlotState.PARKED] * 1000)
    ]
    calls, (sup, effects) = counted(lambda: begin(PARK, children))
    assert calls < 15 * len(children)
    assert sup.counts() == {"specs": 2000, "active": 1000, "supervisors": 500, "workers": 1500}
    assert [child.spec for child in sup.children] == [spec for spec, _ in children]
    assert effects == tuple(StartChild(spec.id) for spec, slot in children if slot is SlotState.RUNNING)
    assert step(sup, Add(ChildSpec("late")), 0.0, 0.0)[0].child("late").order == 2000


def test_the_end_of_the_last_of_many_is_seen_as_fast_as_that_of_the_last_of_few() -> None:
    def last(count: int) -> int:
        ids = [f"a{number}" for number in range(count)]
        shell = Shell(manual=True)
        shell.sup, _ = begin(OTP, [(ChildSpec(id), SlotState.RUNNING) for id in ids])
        for pid, id in enumerate(ids):
            shell.do(Started(id, pid))
        shell.do(Shutdown())
        for id in reversed(ids[1:]):
            shell.exit(id, "shutdown")
        calls, effects = counted(lambda: shell.exit(ids[0], "shutdown"))
        assert effects == [GiveUp("shutdown")]
        return calls

    assert last(300) < 2 * last(3)


def test_order_of_children_start_is_in_order_and_shutdown_in_strict_reverse() -> None:
    shell = Shell(manual=True)
    shell.sup, effects = begin(OTP, [(ChildSpec(id), SlotState.RUNNING) for id in "abc"])
    assert effects == (StartChild("a"), StartChild("b"), StartChild("c"))
    for pid, id in enumerate("abc"):
        shell.do(Started(id, pid))
    assert shell.do(Shutdown()) == [StopChild("c", "shutdown", 5.0)]  # the others not before c is gone
    assert shell.exit("c") == [StopChild("b", "shutdown", 5.0)]
    assert shell.exit("b") == [StopChild("a", "shutdown", 5.0)]
    assert shell.exit("a") == [GiveUp("shutdown")]


def test_shutdown_reaches_a_child_that_is_starting_and_one_that_waits() -> None:
    shell = Shell(Flags(), manual=True)
    shell.add("waits", "starts")
    shell.do(Started("waits", 1))
    shell.do(Exited("waits", 1, "crash"))
    shell.do(StartFailed("waits", "crash"))
    assert shell["waits"].phase is Phase.WAITING
    assert shell.do(Shutdown()) == [StopChild("starts", "shutdown", 5.0)]
    assert shell.do(RestartDue("waits")) == []
    shell.do(Started("starts", 2))  # the report crossed the signal
    assert shell.do(Exited("starts", 2, "shutdown"))[-1] == GiveUp("shutdown")


def test_an_ending_supervisor_refuses_children_and_gives_up_once() -> None:
    shell = Shell()
    shell.add("a", "b")
    shell.do(Stop("b"))
    shell.stubborn.add("a")
    shell.do(Shutdown("shutdown:first"))
    for event in (Add(ChildSpec("c")), Start("b"), Remove("b")):
        assert shell.refused(event) == "shutdown"
    assert shell.do(Shutdown("shutdown:second")) == []
    assert shell.exit("a", "killed") == [GiveUp("shutdown:first")]
    assert shell.do(Shutdown()) == []


def test_a_stop_while_the_supervisor_ends_keeps_the_order_and_is_remembered() -> None:
    shell = Shell()
    shell.add("a", "b")
    shell.stubborn.update("ab")
    shell.do(Shutdown())
    assert shell.do(Stop("a")) == [SlotChanged("a", SlotState.STOPPED, "stop")]
    assert shell.exit("b", "shutdown") == [StopChild("a", "shutdown", 5.0)]
    shell.exit("a", "shutdown")
    assert (shell["a"].slot, shell["b"].slot) == (SlotState.STOPPED, SlotState.RUNNING)


def test_a_supervisor_that_has_given_up_takes_no_stop_since_the_slots_may_have_been_read_already() -> None:
    shell = Shell()
    shell.add("a")
    shell.do(Shutdown())
    assert shell.refused(Stop("a")) == "shutdown"
    assert shell["a"].slot is SlotState.RUNNING


# Administration


def test_child_adm() -> None:
    shell = Shell()
    shell.add("a")
    assert shell.refused(Add(ChildSpec("a"))) == "already_started"
    assert shell.refused(Start("a")) == "running"
    assert shell.refused(Remove("a")) == "running"
    assert shell.do(Stop("a"))[-1] == StopChild("a", "shutdown", 5.0)
    assert shell.do(Stop("a")) == []  # idempotent
    assert shell.refused(Add(ChildSpec("a"))) == "already_present"
    assert shell.do(Start("a")) == [SlotChanged("a", SlotState.RUNNING, "start"), StartChild("a")]
    shell.do(Stop("a"))
    assert shell.do(Remove("a")) == [Dropped("a", "removed")]
    for event in (Start("a"), Stop("a"), Remove("a")):
        assert shell.refused(event) == "not_found"


def test_a_child_on_its_way_out_is_still_running_to_administration() -> None:
    shell = Shell()
    shell.add("a")
    shell.stubborn.add("a")
    shell.do(Stop("a"))
    assert shell["a"].slot is SlotState.STOPPED
    assert shell.refused(Add(ChildSpec("a"))) == "already_started"
    assert shell.refused(Start("a")) == "running"
    assert shell.refused(Remove("a")) == "running"
    assert shell.exit("a", "killed") == []
    assert shell.do(Start("a"))[-1] == StartChild("a")


def test_a_stop_is_kept_by_the_slot_before_the_child_is_gone() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    shell.do(Started("a", 1))
    assert shell.do(Stop("a")) == [
        SlotChanged("a", SlotState.STOPPED, "stop"),
        StopChild("a", "shutdown", 5.0),
    ]


def test_which_children_shows_stopped_and_restarting_and_agrees_with_lookup() -> None:
    shell = Shell(Flags())
    shell.add("a", "b", "c")
    shell.do(Stop("b"))
    shell.failing.add("c")
    shell.exit("c")
    assert [(child.spec.id, child.slot) for child in shell.sup.children] == [
        ("a", SlotState.RUNNING),
        ("b", SlotState.STOPPED),
        ("c", SlotState.RESTARTING),
    ]
    assert [shell.sup.child(id) for id in "abc"] == list(shell.sup.children)


@pytest.mark.parametrize("type_", ["worker", "supervisor"])
def test_count_children_and_count_children_supervisor(type_: str) -> None:
    shell = Shell(Flags(intensity=5000))
    for count in (1000, 2000):
        shell.add(*(f"child{n}" for n in range(count - 1000, count)), type=type_)
        counts = shell.sup.counts()
        assert counts == {
            "specs": count,
            "active": count,
            "supervisors": count if type_ == "supervisor" else 0,
            "workers": count if type_ == "worker" else 0,
        }
        assert shell.sup.counts() == counts
    for child in shell.sup.children:
        shell.do(Stop(child.spec.id))
    assert shell.sup.counts()["active"] == 0


def test_count_restarting_children_counts_a_failing_one_as_worker_but_not_active() -> None:
    shell = Shell(Flags(intensity=10))
    shell.add("a", "b")
    shell.failing.add("a")
    shell.exit("a")
    assert shell.sup.counts() == {"specs": 2, "active": 1, "supervisors": 0, "workers": 2}
    shell.failing.clear()
    shell.do(RestartDue("a"))
    assert shell.sup.counts()["active"] == 2


# Restart types


@pytest.mark.parametrize("reason", [*ORDERLY, *ABNORMAL])
def test_permanent_normal_shutdown_abnormal_is_always_restarted(reason: str) -> None:
    shell = Shell()
    shell.add("a", restart="permanent")
    old = shell["a"].pid
    assert shell.exit("a", reason) == [
        SlotChanged("a", SlotState.RESTARTING, reason),
        StartChild("a"),
    ]
    assert shell["a"].slot is SlotState.RUNNING  # its start has said so
    assert shell["a"].pid not in (old, None)


@pytest.mark.parametrize("reason", ORDERLY)
def test_transient_normal_and_transient_shutdown_is_kept_and_not_restarted(reason: str) -> None:
    shell = Shell()
    shell.add("a", restart="transient")
    assert shell.exit("a", reason) == [SlotChanged("a", SlotState.STOPPED, reason)]
    assert shell.do(Start("a"))[1] == StartChild("a")


@pytest.mark.parametrize("reason", ABNORMAL)
def test_transient_abnormal_is_restarted(reason: str) -> None:
    shell = Shell()
    shell.add("a", restart="transient")
    assert StartChild("a") in shell.exit("a", reason)


@pytest.mark.parametrize("reason", [*ORDERLY, *ABNORMAL])
def test_temporary_normal_shutdown_abnormal_is_dropped_at_once(reason: str) -> None:
    shell = Shell()
    shell.add("a", restart="temporary")
    assert shell.exit("a", reason) == [Dropped("a", reason)]
    assert shell.sup.children == ()


@pytest.mark.parametrize("end", ["kill", "normal", "abnormal", "by supervisor"])
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_do_not_save_child_specs_for_temporary_children(restart: str, end: str) -> None:
    shell = Shell()
    shell.add("a", restart=restart)
    if end == "by supervisor":
        shell.do(Stop("a"))
    else:
        shell.exit("a", {"kill": "killed", "normal": "normal", "abnormal": "crash"}[end])
    again = Add(ChildSpec("a", restart=restart))  # type: ignore[arg-type]
    if restart == "temporary":
        assert shell.do(again)[0] == StartChild("a")
    else:
        assert shell.refused(again) == ("already_started" if shell["a"].pid else "already_present")


# Intensity


def test_multiple_restarts_old_restarts_are_forgotten() -> None:
    shell = Shell(Flags(intensity=1, period_s=1.0))
    shell.add("a")
    for _ in range(20):
        shell.exit("a")
        assert shell["a"].phase is Phase.UP
        shell.now_s += 2.1


def test_one_for_one_only_the_crashed_child_changes_its_pid() -> None:
    shell = Shell()
    shell.add("a", "b", "c")
    before = shell.pids()
    shell.exit("b")
    after = shell.pids()
    assert {id for id in before if before[id] != after[id]} == {"b"}


def test_one_for_one_the_exit_after_the_last_allowed_stops_all_in_reverse_and_then_the_supervisor() -> None:
    shell = Shell(Flags(intensity=2, period_s=5.0))
    shell.add("a", "b", "c")
    shell.exit("a")
    shell.now_s += 1
    shell.exit("b", "killed")
    shell.do(RestartDue("b"))
    shell.now_s += 4  # the first is 5 s old: still counted, as in OTP
    assert shell.exit("b") == [
        StopChild("c", "shutdown", 5.0),
        StopChild("a", "shutdown", 5.0),
        GiveUp("shutdown"),
    ]


def test_one_for_one_zero_intensity_allows_no_restart() -> None:
    shell = Shell(Flags(intensity=0))
    shell.add("a")
    assert shell.exit("a") == [GiveUp("shutdown")]


def test_one_for_one_escalation_starts_that_fail_burn_intensity_too() -> None:
    shell = Shell(Flags(intensity=3))
    shell.add("bystander", "a")
    shell.failing.add("a")
    shell.exit("a")
    while not shell.sup.ended:
        assert isinstance(shell.effects[-1], StartChildAfter)
        shell.do(RestartDue("a"))
    assert shell.effects.count(StartChild("a")) == 1 + 3
    assert shell.effects[-2:] == [StopChild("bystander", "shutdown", 5.0), GiveUp("shutdown")]


def test_exits_of_one_batch_are_charged_once() -> None:
    shell = Shell(Flags(intensity=1))
    shell.add("a", "b", "c", "d")
    shell.exit("a", "crash", batch="cell 1")
    shell.exit("b", "cell_lost", batch="cell 1")
    shell.exit("c", "cell_lost", batch="cell 1")
    assert all(child.phase is Phase.UP for child in shell.sup.children)
    shell.exit("d", "cell_lost", batch="cell 2")
    assert shell.sup.ended


@pytest.mark.parametrize("reason", ["cell_lost"])
def test_what_is_lost_with_no_cells_death_ends_no_supervisor_however_often(reason: str) -> None:
    shell = Shell(Flags(intensity=0), manual=True)
    shell.add("a", "b")
    for pid in range(1, 20):
        shell.do(Started("a", pid))
        assert not any(isinstance(effect, StopChild) for effect in shell.do(Exited("a", pid, reason)))
        shell.do(RestartDue("a"))
        assert not any(isinstance(effect, StopChild) for effect in shell.do(StartFailed("a", reason)))
        shell.do(RestartDue("a"))
    assert (shell.sup.charges, shell.sup.closing, shell["a"].row) == ((), None, 38)


def test_a_batch_that_exceeds_ends_the_supervisor_once() -> None:
    shell = Shell(Flags(intensity=0), manual=True)
    shell.add("a", "b")
    shell.do(Started("a", 1))
    shell.do(Started("b", 2))
    assert shell.do(Exited("a", 1, "crash", "cell 1")) == [StopChild("b", "shutdown", 5.0)]
    assert shell.do(Exited("b", 2, "cell_lost", "cell 1")) == [GiveUp("shutdown")]


# A supervisor's own restart (OTP's tree), and that of the node


def test_tree_after_its_own_restart_a_supervisor_brings_back_what_ran() -> None:
    slots = [
        (ChildSpec("ran"), SlotState.RUNNING),
        (ChildSpec("came_back", restart="transient"), SlotState.RESTARTING),
        (ChildSpec("parked"), SlotState.PARKED),
        (ChildSpec("stopped"), SlotState.STOPPED),
        (ChildSpec("gone", restart="temporary"), SlotState.RUNNING),
    ]
    sup, effects = begin(OTP, slots)
    assert effects == (StartChild("ran"), StartChild("came_back"), Dropped("gone", "temporary"))
    assert [child.slot for child in sup.children] == [
        SlotState.RESTARTING,
        SlotState.RESTARTING,
        SlotState.PARKED,
        SlotState.STOPPED,
    ]


def test_tree_what_is_brought_back_is_counted_and_who_is_added_then_comes_behind() -> None:
    slots = [
        (ChildSpec("a"), SlotState.RUNNING),
        (ChildSpec("s", type="supervisor"), SlotState.RUNNING),
        (ChildSpec("c"), SlotState.STOPPED),
    ]
    shell = Shell()
    shell.sup, _ = begin(OTP, slots)
    assert shell.sup.counts() == {"specs": 3, "active": 2, "supervisors": 1, "workers": 2}
    shell.add("b")
    assert [child.spec.id for child in shell.sup.children] == ["a", "s", "c", "b"]


def test_tree_a_child_that_does_not_come_back_is_tried_again_and_the_others_stay() -> None:
    shell = Shell()
    shell.sup, _ = begin(Flags(), [(ChildSpec(id), SlotState.RUNNING) for id in "ab"])
    shell.do(Started("a", 7))
    assert shell.do(StartFailed("b", "crash"))[:1] == [StartChild("b")]
    assert (shell["a"].pid, shell["b"].phase) == (7, Phase.UP)


def test_tree_slots_survive_the_end_of_their_supervisor_as_they_were() -> None:
    shell = Shell(Flags(intensity=0))
    shell.add("a", "b", "c")
    shell.do(Stop("b"))
    del shell.effects[:]
    shell.exit("a")
    assert shell.sup.ended
    assert [child.slot for child in shell.sup.children] == [
        SlotState.RUNNING,
        SlotState.STOPPED,
        SlotState.RUNNING,
    ]
    assert not [effect for effect in shell.effects if isinstance(effect, SlotChanged)]


# hanging_restart_loop: while a child hangs or loops in restart the supervisor still answers


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.WAITING])
def test_hanging_restart_loop_still_answers(phase: Phase) -> None:
    shell = Shell(Flags(), manual=True)
    shell.add("a", "b")
    shell.do(Started("a", 1))
    shell.do(Started("b", 2))
    shell.do(Exited("a", 1, "crash"))
    if phase is Phase.WAITING:
        shell.do(StartFailed("a", "crash"))
    assert shell["a"].phase is phase
    assert shell.refused(Add(ChildSpec("a"))) == "already_started"
    assert shell.refused(Start("a")) == "restarting"
    assert shell.refused(Remove("a")) == "restarting"
    assert shell.do(Stop("a"))[0] == SlotChanged("a", SlotState.STOPPED, "stop")
    if phase is Phase.STARTING:
        shell.do(StartFailed("a", "timeout"))
    assert shell["a"].phase is Phase.NONE
    assert shell.do(RestartDue("a")) == []  # the timer was under way
    assert shell.do(Shutdown()) == [StopChild("b", "shutdown", 5.0)]


# Back-off


def delays(shell: Shell, id: str, times: int) -> list[float]:
    """Let ``id`` fail at once, again and again."""
    found = []
    for _ in range(times):
        effects = shell.exit(id)
        after = [effect for effect in effects if isinstance(effect, StartChildAfter)]
        found.append(after[0].delay_s if after else 0.0)
        if after:
            assert shell[id].slot is SlotState.RESTARTING
            shell.do(RestartDue(id))
    return found


def test_the_first_restart_is_immediate_and_later_ones_back_off_to_the_greatest() -> None:
    shell = Shell(Flags(intensity=100, backoff_base_s=0.2, backoff_max_s=1.0))
    shell.add("a")
    shell.jitter = 1.0
    assert delays(shell, "a", 6) == [0.0, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_jitter_takes_away_up_to_half_of_the_delay() -> None:
    for jitter, expected in ((0.0, 0.1), (0.5, 0.15)):
        shell = Shell(Flags())
        shell.add("a")
        shell.jitter = jitter
        assert delays(shell, "a", 2) == [0.0, pytest.approx(expected)]


def test_after_a_quiet_period_the_next_restart_is_immediate_again() -> None:
    shell = Shell(Flags(intensity=100, period_s=10.0))
    shell.add("a")
    assert delays(shell, "a", 3)[1:] != [0.0, 0.0]
    shell.now_s += 9.9
    assert delays(shell, "a", 1) != [0.0]
    shell.now_s += 10.0
    assert delays(shell, "a", 1) == [0.0]


def test_time_spent_waiting_for_the_restart_is_not_quiet() -> None:
    shell = Shell(Flags(intensity=100, period_s=10.0))
    shell.add("a")
    shell.failing.add("a")
    shell.exit("a")
    for _ in range(3):
        shell.now_s += 30.0
        assert isinstance(shell.do(RestartDue("a"))[-1], StartChildAfter)


def test_back_off_stays_finite_however_long_the_row() -> None:
    shell = Shell(Flags(intensity=10**6, period_s=1.0, backoff_max_s=30.0))
    shell.add("a")
    shell.failing.add("a")
    shell.exit("a")
    for _ in range(3000):
        shell.now_s += 2
        shell.do(RestartDue("a"))
    assert shell.effects[-1] == StartChildAfter("a", 15.0)


def test_a_start_that_was_asked_for_begins_a_new_row() -> None:
    shell = Shell(Flags(intensity=100))
    shell.add("a")
    delays(shell, "a", 4)
    shell.do(Stop("a"))
    shell.do(Start("a"))
    assert delays(shell, "a", 1) == [0.0]


# Parked


def exceed(shell: Shell, id: str) -> list[Effect]:
    delays(shell, id, shell.sup.flags.intensity)
    return shell.exit(id)


def test_the_child_that_exceeds_is_parked_and_the_others_go_on() -> None:
    shell = Shell(PARK)
    shell.add("a", "b")
    assert exceed(shell, "a") == [SlotChanged("a", SlotState.PARKED, "crash")]
    assert (shell["a"].phase, shell["b"].phase) == (Phase.NONE, Phase.UP)
    assert not shell.sup.ended


def test_one_bad_child_does_not_use_up_what_its_siblings_may() -> None:
    shell = Shell(PARK)
    shell.add("bad", "good")
    exceed(shell, "bad")
    assert StartChild("good") in shell.exit("good")


def test_a_parked_child_waits_for_a_person_who_gives_it_a_clean_slate() -> None:
    shell = Shell(PARK)
    shell.add("a")
    exceed(shell, "a")
    assert shell.do(RestartDue("a")) == []
    assert shell.refused(Add(ChildSpec("a"))) == "already_present"
    assert shell.do(Start("a"))[:2] == [SlotChanged("a", SlotState.RUNNING, "start"), StartChild("a")]
    assert exceed(shell, "a")[-1] == SlotChanged("a", SlotState.PARKED, "crash")


def test_a_parked_child_can_be_stopped_or_removed() -> None:
    shell = Shell(PARK)
    shell.add("a", "b")
    exceed(shell, "a")
    assert shell.do(Stop("a")) == [SlotChanged("a", SlotState.STOPPED, "stop")]
    exceed(shell, "b")
    assert shell.do(Remove("b")) == [Dropped("b", "removed")]


def test_starts_that_fail_lead_to_parked_too() -> None:
    shell = Shell(PARK)
    shell.add("a")
    shell.failing.add("a")
    shell.exit("a")
    shell.do(RestartDue("a"))
    assert shell["a"].slot is SlotState.PARKED


@pytest.mark.parametrize("reason", ["cell_lost"])
def test_a_child_that_lost_its_cell_backs_off_but_is_never_parked_for_it(reason: str) -> None:
    shell = Shell(PARK)
    shell.add("a")
    for _ in range(20):
        shell.exit("a", reason)
        shell.do(RestartDue("a"))
    assert shell["a"].phase is Phase.UP
    assert shell["a"].row == 20


# Reports that come late or fit nothing


def test_a_late_exit_of_an_earlier_incarnation_is_ignored() -> None:
    shell = Shell()
    shell.add("a")
    old = shell["a"].pid
    assert old is not None
    shell.exit("a")
    for event in (Exited("a", old, "crash"), StartFailed("a", "crash"), Started("a", 999), RestartDue("a")):
        assert shell.do(event) == []
    assert shell["a"].phase is Phase.UP


def test_a_second_report_of_a_start_does_not_change_the_pid() -> None:
    shell = Shell()
    shell.add("a")
    shell.stubborn.add("a")
    pid = shell["a"].pid
    shell.do(Stop("a"))
    assert shell.do(Started("a", 999)) == []
    assert shell["a"].pid == pid


def test_reports_of_unknown_children_are_ignored() -> None:
    shell = Shell()
    for event in (Exited("x", 1, "crash"), StartFailed("x", "crash"), Started("x", 1), RestartDue("x")):
        assert shell.do(event) == []


def test_an_exit_before_the_report_of_the_start_is_a_start_that_failed() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    assert shell.do(Exited("a", 1, "crash", "cell 1")) == [Dropped("a", "crash")]


@pytest.mark.parametrize("reason", ["cell_lost"])
@pytest.mark.parametrize("report", [StartFailed, Exited])
def test_a_child_that_is_lost_before_it_ever_ran_and_without_blame_is_brought_back(
    report: Callable[..., Event], reason: str
) -> None:
    for restart in ("permanent", "transient"):
        shell = Shell(PARK, manual=True)
        shell.add("a", restart=restart)
        lost = StartFailed("a", reason) if report is StartFailed else Exited("a", 1, reason)
        assert shell.do(lost) == [SlotChanged("a", SlotState.RESTARTING, reason), StartChild("a")]
        assert shell.do(Started("a", 2)) == [] and shell["a"].slot is SlotState.RUNNING
    shell = Shell(PARK, manual=True)
    shell.add("a", restart="temporary")
    assert shell.do(StartFailed("a", reason)) == [Dropped("a", reason)]


def test_a_start_by_name_that_is_lost_without_blame_is_made_again() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    for event in (Started("a", 1), Stop("a"), Exited("a", 1, "shutdown"), Start("a")):
        shell.do(event)
    assert shell.do(StartFailed("a", "cell_lost"))[-1] == StartChild("a")
    assert shell["a"].slot is SlotState.RESTARTING


def test_a_child_that_a_shutdown_overtook_before_it_ran_keeps_its_slot() -> None:
    shell = Shell(manual=True)
    shell.add("a")
    assert shell.do(Shutdown()) == [StopChild("a", "shutdown", 5.0)]
    assert shell.do(StartFailed("a", "shutdown")) == [GiveUp("shutdown")]
    assert shell["a"].slot is SlotState.RUNNING


def test_a_kill_of_the_whole_kills_the_children_and_overtakes_an_orderly_end() -> None:
    shell = Shell()
    shell.add("a", "b")
    shell.stubborn.update("ab")
    assert shell.do(Shutdown("killed")) == [StopChild("b", "killed", 0.0)]
    assert shell.exit("b", "killed") == [StopChild("a", "killed", 0.0)]
    assert shell.exit("a", "killed") == [GiveUp("killed")]
    shell = Shell()
    shell.add("a", "b")
    shell.stubborn.update("ab")
    assert shell.do(Shutdown()) == [StopChild("b", "shutdown", 5.0)]
    assert shell.do(Shutdown("killed")) == [StopChild("b", "killed", 0.0)]
    assert shell.do(Shutdown("killed")) == [] == shell.do(Shutdown())
    assert shell.exit("b", "killed") == [StopChild("a", "killed", 0.0)]
    assert shell.exit("a", "killed") == [GiveUp("killed")]


def test_a_stop_during_the_start_waits_for_its_end_whichever_way_it_comes() -> None:
    for end in (StartFailed("a", "timeout"), Exited("a", 1, "shutdown")):
        for crossed in ([], [Started("a", 1)]):
            shell = Shell(manual=True)
            shell.add("a")
            assert StopChild("a", "shutdown", 5.0) in shell.do(Stop("a"))
            for event in crossed:
                shell.do(event)
            if crossed and isinstance(end, StartFailed):
                continue
            assert shell.do(end) == []
            assert (shell["a"].slot, shell["a"].phase) == (SlotState.STOPPED, Phase.NONE)


def test_a_step_leaves_the_state_it_was_given() -> None:
    shell = Shell()
    shell.add("a", "b")
    before, children, pid = shell.sup, shell.sup.children, shell["a"].pid
    assert pid is not None
    first = step(before, Exited("a", pid, "crash"), 1.0, 0.0)
    assert before.children == children
    assert step(before, Exited("a", pid, "crash"), 1.0, 0.0) == first


def test_a_child_that_was_told_to_stop_at_the_end_of_the_whole_is_not_told_again() -> None:
    shell = Shell()
    shell.add("a", "b")
    shell.manual = True
    assert shell.do(Shutdown()) == [StopChild("b", "shutdown", 5.0)]
    assert shell.exit("a", "crash") == []
    assert shell.exit("b", "shutdown") == [GiveUp("shutdown")]


@pytest.mark.parametrize(("event", "slot"), [(Stop, SlotState.STOPPED), (Restart, SlotState.RESTARTING)])
def test_who_asked_for_an_end_goes_along_with_all_that_follows_at_once(
    event: Callable[[str, str, int], Event], slot: SlotState
) -> None:
    shell = Shell(manual=True)
    shell.do(Add(ChildSpec("a", shutdown_s=3.0)))
    shell.do(Started("a", 1))
    word = "stop" if event is Stop else "restart"
    assert shell.do(event("a", "by a person", 7)) == [
        SlotChanged("a", slot, word, 7),
        StopChild("a", "shutdown", 3.0, "by a person", 7),
    ]
    ended = shell.do(Exited("a", 1, "shutdown"))  # what follows later is nobody's order
    assert ended == ([] if event is Stop else [StartChild("a")])


def test_what_changes_a_slot_by_itself_was_asked_for_by_nobody() -> None:
    shell = Shell(PARK, manual=True)
    shell.do(Add(ChildSpec("a")))
    shell.do(Started("a", 1))
    assert shell.do(Exited("a", 1, "crash"))[0] == SlotChanged("a", SlotState.RESTARTING, "crash", -1)


def test_children_are_numbered_as_they_are_added_and_no_number_comes_again() -> None:
    sup, _ = begin(OTP, [(ChildSpec("first"), SlotState.RUNNING)])
    for id in ("a", "b"):
        sup, _ = step(sup, Add(ChildSpec(id)), 0.0, 0.0)
    assert [(child.spec.id, child.order) for child in sup.children] == [("first", 0), ("a", 1), ("b", 2)]
    sup, _ = step(sup, Started("a", 7), 0.0, 0.0)
    sup, _ = step(sup, StartFailed("b", "crash"), 0.0, 0.0)
    assert sup.added == 3 and "b" not in sup.table
    sup, _ = step(sup, Add(ChildSpec("c")), 0.0, 0.0)
    assert sup.child("c").order == 3 and sup.added == 4


def test_one_that_has_ended_stays_so_whatever_is_put_into_it() -> None:
    sup, _ = begin(OTP, [(ChildSpec("a"), SlotState.RUNNING)])
    ended = replace(sup, ended=True, closing="shutdown")
    after = ended.put(replace(ended.child("a"), phase=Phase.NONE))
    assert after.ended is True and after.closing == "shutdown" and after.active == 0
