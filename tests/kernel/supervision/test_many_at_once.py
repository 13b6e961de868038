"""Children that are added, and starts that are reported, together: as one by one, and the table is changed once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import SupervisionError
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Effect,
    Exited,
    Flags,
    RestartDue,
    Shutdown,
    SlotState,
    StartChild,
    Started,
    Stop,
    StopChild,
    Supervisor,
    add_all,
    all_started,
    begin,
    step,
)

IDS = ["a", "b", "c", "d", "e"]
STRATEGIES = ["one_for_one", "one_for_all", "rest_for_one"]
flags = st.builds(Flags, intensity=st.just(9), strategy=st.sampled_from(STRATEGIES))
specs = st.lists(
    st.builds(
        ChildSpec,
        st.sampled_from(IDS),
        st.sampled_from(["permanent", "transient"]),
        type=st.sampled_from(["worker", "supervisor"]),
    ),
    unique_by=lambda spec: spec.id,
)
before = st.lists(
    st.one_of(
        st.sampled_from(IDS).map(lambda id: Started(id, 7)),
        st.sampled_from(IDS).map(lambda id: Exited(id, 7, "crash")),
        st.sampled_from(IDS).map(Stop),
        st.just(Shutdown()),
    ),
    max_size=6,
)
starts = st.lists(st.builds(Started, st.sampled_from(IDS), st.integers(8, 9)))


def family(
    flags: Flags, children: list[ChildSpec], events: list[Started | Exited | Stop | Shutdown]
) -> Supervisor:
    supervisor, _ = begin(flags, [(spec, SlotState.RUNNING) for spec in children])
    for event in events:
        try:
            supervisor, _ = step(supervisor, event, 1.0, 0.5)
        except SupervisionError:
            continue
    return supervisor


@given(flags, specs, before, starts)
def test_starts_reported_together_are_as_reported_one_by_one(
    flags: Flags,
    children: list[ChildSpec],
    events: list[Started | Exited | Stop | Shutdown],
    reported: list[Started],
) -> None:
    supervisor = family(flags, children, events)
    together = all_started(supervisor, reported, 2.0)
    effects: tuple[Effect, ...] = ()
    for event in reported:
        supervisor, more = step(supervisor, event, 2.0, 0.0)
        effects += more
    assert together == (supervisor, effects)


@given(flags, specs, before, specs)
def test_children_added_together_are_as_added_one_by_one_or_none_of_them_is(
    flags: Flags,
    children: list[ChildSpec],
    events: list[Started | Exited | Stop | Shutdown],
    added: list[ChildSpec],
) -> None:
    supervisor = one_by_one = family(flags, children, events)
    effects: tuple[Effect, ...] = ()
    try:
        for spec in added:
            one_by_one, more = step(one_by_one, Add(spec), 2.0, 0.0)
            effects += more
    except SupervisionError as error:
        with pytest.raises(SupervisionError) as refused:
            add_all(supervisor, added)
        assert str(refused.value) == str(error)
    else:
        if added or supervisor.closing is None:
            assert add_all(supervisor, added) == (one_by_one, effects)


def test_who_is_added_twice_is_refused_with_all_of_them() -> None:
    supervisor, _ = begin(Flags())
    with pytest.raises(SupervisionError, match="added twice"):
        add_all(supervisor, [ChildSpec("a"), ChildSpec("b"), ChildSpec("a")])


def test_of_children_that_start_together_those_that_are_significant_are_counted_once() -> None:
    flags = Flags(auto_shutdown="all_significant")
    specs = [ChildSpec(id, "transient", significant=id != "c") for id in ("a", "b", "c")]
    supervisor, _ = begin(flags, [(spec, SlotState.RUNNING) for spec in specs[:1]])
    supervisor, _ = add_all(supervisor, specs[1:])
    starts = [Started(id, pid) for pid, id in enumerate(("a", "b", "c"), 1)]
    supervisor, _ = all_started(supervisor, starts, 0.0)
    assert supervisor.significant == 2
    supervisor, effects = step(supervisor, Exited("a", 1, "normal"), 1.0, 0.5)
    assert [each for each in effects if isinstance(each, StopChild)] == []
    supervisor, effects = step(supervisor, Exited("b", 2, "normal"), 1.0, 0.5)
    assert [each.id for each in effects if isinstance(each, StopChild)] == ["c"]


def test_children_added_together_start_in_their_order() -> None:
    supervisor, _ = begin(Flags(), [(ChildSpec("z"), SlotState.RUNNING)])
    supervisor, effects = add_all(supervisor, [ChildSpec("b"), ChildSpec("a")])
    assert effects == (StartChild("b"), StartChild("a"))
    assert [child.spec.id for child in supervisor.children] == ["z", "b", "a"]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_children_added_together_while_several_are_restarted_wait_for_that_as_one_by_one(
    strategy: str,
) -> None:
    running = [(ChildSpec(id), SlotState.RUNNING) for id in ("a", "b")]
    supervisor, _ = begin(Flags(strategy=strategy), running)
    supervisor, _ = all_started(supervisor, [Started("a", 1), Started("b", 2)], 0.0)
    supervisor, effects = step(supervisor, Exited("a", 1, "crash"), 1.0, 0.5)
    assert StopChild in {type(effect) for effect in effects}
    added = [ChildSpec("c"), ChildSpec("d")]
    one_by_one = supervisor
    for spec in added:
        one_by_one, told = step(one_by_one, Add(spec), 2.0, 0.0)
        assert told == ()
    assert add_all(supervisor, added) == (one_by_one, ())


def test_what_is_known_of_former_failures_stays_when_a_start_is_reported() -> None:
    supervisor, _ = begin(Flags(), [(ChildSpec("a"), SlotState.RUNNING)])
    for number in range(2):
        supervisor, _ = all_started(supervisor, [Started("a", number + 1)], float(number))
        supervisor, _ = step(supervisor, Exited("a", number + 1, "crash"), number + 0.5, 0.5)
    supervisor, _ = step(supervisor, RestartDue("a"), 3.0, 0.0)
    before = supervisor.child("a")
    after = all_started(supervisor, [Started("a", 3)], 4.0)[0].child("a")
    assert before.failed_s == after.failed_s == 1.5
    assert before.due_s == after.due_s > 1.5
    assert (before.row, before.charges) == (after.row, after.charges)
