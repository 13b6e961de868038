"""The plan of an application: what is there becomes what is declared, and nothing else is touched."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from kernel.application.plan import Group, Plan, Present, Step, differences, grouped
from kernel.model.address import is_below, parent
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Budget

APP, ROOT = "shop", "/user/shop"
AT_RUN_TIME = ("restart", "intensity", "significant", "budget")


def worker(address: str, **fields: object) -> tuple[str, ProcessSpec]:
    return address, replace(ProcessSpec(address.rpartition("/")[2]), **fields)  # type: ignore[arg-type]


def supervisor(address: str, **fields: object) -> tuple[str, ProcessSpec]:
    return worker(address, type="supervisor", **fields)


def ours(address: str, spec: ProcessSpec, **fields: object) -> Present:
    return replace(Present(address, spec, APP), **fields)  # type: ignore[arg-type]


def plan_of(wanted: list[tuple[str, ProcessSpec]], there: list[Present]) -> Plan:
    plan = Plan(APP, AT_RUN_TIME)
    for address, spec in wanted:
        plan.want(address, spec)
    for slot in there:
        plan.see(slot)
    return plan


def steps(wanted: list[tuple[str, ProcessSpec]], there: list[Present]) -> list[Step]:
    plan = plan_of(wanted, there)
    assert plan.faults == []
    return list(plan.steps())


TREE = [supervisor(ROOT), worker(f"{ROOT}/a"), supervisor(f"{ROOT}/s"), worker(f"{ROOT}/s/b")]
THERE = [ours(*each) for each in TREE]


def test_of_nothing_all_is_added_parents_first() -> None:
    assert steps(TREE, []) == [Step("add", address) for address, _ in TREE]


def test_what_is_there_as_declared_needs_nothing() -> None:
    assert steps(TREE, THERE) == []


def test_it_says_how_many_children_more_each_will_have() -> None:
    wanted = [TREE[0], worker(f"{ROOT}/a", tools=("x",)), worker(f"{ROOT}/c"), worker(f"{ROOT}/d")]
    grows = plan_of(wanted, [*THERE, Present(f"{ROOT}/own", ProcessSpec("own"))]).grows
    assert +grows == {ROOT: 1} and -grows == {f"{ROOT}/s": 1}
    assert not +plan_of(TREE, THERE).grows and sum(plan_of([], THERE).grows.values()) == -len(THERE)


def test_what_is_not_declared_any_more_goes_with_all_below_it() -> None:
    assert steps(TREE[:2], THERE) == [Step("remove", f"{ROOT}/s", why="it is not declared")]


def test_the_last_that_was_made_goes_first() -> None:
    gone = [step.address for step in plan_of(TREE[:1], THERE).takes_away()]
    assert gone == [f"{ROOT}/s", f"{ROOT}/a"]


def test_what_can_change_while_it_runs_is_changed() -> None:
    wanted = [TREE[0], worker(f"{ROOT}/a", restart="temporary"), *TREE[2:]]
    assert steps(wanted, THERE) == [Step("change", f"{ROOT}/a", ("restart",))]


def test_what_cannot_is_replaced_and_what_is_below_it_comes_back() -> None:
    wanted = [*TREE[:2], supervisor(f"{ROOT}/s", strategy="one_for_all", restart="transient"), TREE[3]]
    plan = plan_of(wanted, THERE)
    both = ("restart", "strategy")
    assert list(plan.takes_away()) == [Step("replace", f"{ROOT}/s", both)]
    assert list(plan.makes.values()) == [
        Step("replace", f"{ROOT}/s", both),
        Step("replace", f"{ROOT}/s/b", why=f"it goes with {ROOT}/s"),
    ]


def test_what_is_down_is_started_also_when_it_is_changed() -> None:
    wanted = [TREE[0], worker(f"{ROOT}/a", restart="transient"), *TREE[2:]]
    there = [THERE[0], replace(THERE[1], down=True, state="parked"), *THERE[2:]]
    assert steps(wanted, there) == [
        Step("change", f"{ROOT}/a", ("restart",)),
        Step("start", f"{ROOT}/a", why="it is parked"),
    ]


def test_what_its_supervisor_would_not_take_is_replaced() -> None:
    wanted = [TREE[0], worker(f"{ROOT}/a", restart="temporary"), *TREE[2:]]
    for there in (replace(THERE[1], dynamic=True), replace(THERE[1], down=True, state="stopped")):
        assert steps(wanted, [THERE[0], there, *THERE[2:]]) == [Step("replace", f"{ROOT}/a", ("restart",))]


def test_a_child_becomes_significant_behind_its_supervisor_and_ceases_to_be_before_it() -> None:
    now, then = dict(TREE), dict(TREE)
    now[f"{ROOT}/a"], then[f"{ROOT}/s/b"] = (replace(ProcessSpec(name), significant=True) for name in "ab")
    then[f"{ROOT}/s"] = replace(then[f"{ROOT}/s"], intensity=(1, 1.0))
    plan = plan_of(list(then.items()), [ours(*each) for each in now.items()])
    assert [step.address for step in plan.changes()] == [f"{ROOT}/a", f"{ROOT}/s", f"{ROOT}/s/b"]


def test_what_budgets_have_less_comes_back_from_below_before_any_has_more() -> None:
    def tree(top: int, side: int, a: int) -> list[tuple[str, ProcessSpec]]:
        return [
            supervisor(ROOT, budget=Budget(tokens=top)),
            worker(f"{ROOT}/a", budget=Budget(tokens=a, tool_calls=top)),
            supervisor(f"{ROOT}/s", budget=Budget(tokens=side)),
        ]

    now, then = tree(100, 40, 60), tree(90, 50, 10)
    there = [replace(ours(*each), in_use={"tokens": 95}) for each in now]
    plan = plan_of(then, there)
    assert plan.faults == [] and not plan.makes
    assert [(step.address, step.fields, step.why, step.budget) for step in plan.changes()] == [
        (
            f"{ROOT}/a",
            ("budget",),
            "tool_calls 100 to 90, tokens 60 to 10 (95 are in use and stay)",
            Budget(tokens=10, tool_calls=90),
        ),
        (ROOT, ("budget",), "tokens 100 to 90 (95 are in use and stay)", Budget(tokens=90)),
        (f"{ROOT}/s", ("budget",), "tokens 40 to 50", Budget(tokens=50)),
    ]


def test_a_budget_and_what_else_differs_are_changed_one_after_the_other() -> None:
    wanted = [worker(ROOT, budget=Budget(tokens=5, money="1.0", then="stop"), restart="transient")]
    there = [ours(*worker(ROOT, budget=Budget(tokens=9, messages=3)))]
    assert [(step.fields, step.why) for step in plan_of(wanted, there).changes()] == [
        (("budget",), "messages 3 to no limit, tokens 9 to 5"),
        (("restart",), ""),
        (("budget",), "money no limit to 1, then wrap_up to stop"),
    ]
    [step] = steps([worker(ROOT)], there)
    assert (step.action, step.budget, step.why) == (
        "change",
        None,
        "messages 3 to no limit, tokens 9 to no limit",
    )


def test_what_is_measured_in_a_cell_is_for_what_is_made_anew() -> None:
    there = [ours(*worker(ROOT, budget=Budget(tokens=9)))]
    wanted = [worker(ROOT, budget=Budget(tokens=9, cpu_ms=5))]
    assert steps(wanted, there) == [Step("replace", ROOT, ("budget",))]
    less = [worker(ROOT, budget=Budget(cpu_ms=3))]
    assert steps(less, [ours(*worker(ROOT, budget=Budget(cpu_ms=5)))])[0].action == "change"


def test_what_others_made_beside_it_is_left_alone() -> None:
    stranger, agents = (
        Present(f"{ROOT}/x", ProcessSpec("x")),
        Present(f"{ROOT}/a/k", ProcessSpec("k"), agents=True),
    )
    assert steps(TREE, [*THERE, stranger, agents]) == []


def test_a_declared_place_that_somebody_else_has_is_a_fault() -> None:
    for there in (Present(*TREE[1]), Present(*TREE[1], app="other"), Present(*TREE[1], agents=True)):
        assert plan_of(TREE, [THERE[0], there]).faults == [
            f"{ROOT}/a is there, and application {APP} did not make it"
        ]


def test_nothing_goes_along_that_the_application_did_not_make_but_what_agents_did() -> None:
    kid = Present(f"{ROOT}/s/b/k", ProcessSpec("k"), agents=True)
    assert len(steps(TREE[:2], [*THERE, kid])) == 1
    stranger = Present(f"{ROOT}/s/x", ProcessSpec("x"))
    assert plan_of(TREE[:2], [*THERE, stranger]).faults == [
        f"{ROOT}/s/x would go with {ROOT}/s, and application {APP} did not make it"
    ]


def test_an_address_is_declared_once() -> None:
    assert plan_of([*TREE, TREE[1]], []).faults == [f"{ROOT}/a is declared twice"]


def test_differences_are_named_as_a_spawn_names_them() -> None:
    one = ProcessSpec("a", config={"model": "m", "provider": "p"})
    other = replace(one, tools=(), config={"model": "n", "provider": "p", "system_prompt": "s"})
    assert differences(one, other) == ("tools", "model", "system_prompt")
    assert differences(one, one) == ()


def test_replicas_are_told_together() -> None:
    added = [Step("add", f"{ROOT}/w-{number}") for number in range(1, 4)]
    others = [
        Step("add", f"{ROOT}/x"),
        Step("add", f"{ROOT}/y"),
        Step("start", f"{ROOT}/w-9", why="it is stopped"),
    ]
    assert [(each.address, each.last, each.count) for each in grouped([*added, *others])] == [
        (f"{ROOT}/w-1", f"{ROOT}/w-3", 3),
        (f"{ROOT}/x", f"{ROOT}/x", 1),
        (f"{ROOT}/y", f"{ROOT}/y", 1),
        (f"{ROOT}/w-9", f"{ROOT}/w-9", 1),
    ]
    assert grouped([]) == []
    assert grouped(added[1:], grouped(added[:1])) == [Group("add", f"{ROOT}/w-1", f"{ROOT}/w-3", 3, (), "")]


# -- for any two trees -------------------------------------------------------------------------------------------

NAMES = "abc"


@dataclass
class Tree:
    """Slots as a node would have them after the steps of plans."""

    slots: dict[str, Present]

    def carry_out(self, plan: Plan, wanted: dict[str, ProcessSpec]) -> None:
        for step in plan.takes_away():
            self.slots = {
                address: slot
                for address, slot in self.slots.items()
                if address != step.address and not is_below(address, step.address)
            }
        for step in plan.changes():
            assert set(step.fields) <= set(AT_RUN_TIME)
            self.slots[step.address] = replace(self.slots[step.address], spec=wanted[step.address])
        for step in plan.makes.values():
            assert step.address == ROOT or parent(step.address) in self.slots, "a parent comes first"
            if step.action == "start":
                self.slots[step.address] = replace(self.slots[step.address], down=False, state="running")
            else:
                assert step.address not in self.slots
                self.slots[step.address] = ours(step.address, wanted[step.address])


SPECS = st.builds(
    lambda restart, tools, intensity: {"restart": restart, "tools": tools, "intensity": intensity},
    st.sampled_from(["permanent", "transient", "temporary"]),
    st.sampled_from([(), ("calculator",)]),
    st.sampled_from([(5, 60.0), (1, 5.0)]),
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, ProcessSpec]:
    """A declared tree, parents before children."""
    tree = dict([supervisor(ROOT, **draw(SPECS))])
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        above = draw(
            st.sampled_from([address for address, spec in tree.items() if spec.type == "supervisor"])
        )
        make = supervisor if draw(st.booleans()) else worker
        tree |= dict([make(f"{above}/{name}", **draw(SPECS))])
    return tree


@st.composite
def presents(draw: st.DrawFn) -> Tree:
    """What there may be: an older version of the application, some of it down, with strangers and agents' children."""
    found: dict[str, Present] = {}
    for address, spec in draw(trees()).items():
        down = draw(st.booleans())
        found[address] = ours(address, spec, down=down, state="stopped" if down else "running")
        if draw(st.integers(0, 5)) == 0:
            found[f"{address}/x"] = Present(f"{address}/x", ProcessSpec("x"), agents=draw(st.booleans()))
    return Tree(draw(st.sampled_from([{}, found])))


@given(trees(), presents())
def test_any_tree_becomes_the_declared_one_and_a_second_plan_is_empty(
    wanted: dict[str, ProcessSpec], tree: Tree
) -> None:
    before = dict(tree.slots)
    plan = plan_of(list(wanted.items()), list(before.values()))
    if plan.faults:
        return
    tree.carry_out(plan, wanted)
    own = {address: slot.spec for address, slot in tree.slots.items() if slot.app == APP}
    assert own == wanted and not any(slot.down for slot in tree.slots.values())
    kept = {address for address, slot in before.items() if slot.app != APP and not slot.agents}
    assert kept <= set(tree.slots), "what others made is there still"
    again = plan_of(list(wanted.items()), list(tree.slots.values()))
    assert again.faults == [] and list(again.steps()) == [] and list(again.takes_away()) == []
