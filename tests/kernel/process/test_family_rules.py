"""What a spawn says of supervision, on the shell of the process tree: templates, significant children, times to end."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.errors import Invalid, Refused, SupervisionError
from kernel.model.spec import ProcessSpec
from kernel.operations.spawning import TEMPLATE
from tests.kernel.twins.tree_twin import Tree

POOL = "/user/pool"
TEAM = "/user/team"


def pool(*names: str, **fields: object) -> Tree:
    tree = Tree()
    template = ProcessSpec("", tools=("calculator",), **fields)  # type: ignore[arg-type]  # those of a spec
    tree.spawn("pool", type="supervisor", strategy=TEMPLATE, template=template)
    for name in names:
        tree.spawn(name, POOL)
    tree.ended.clear()
    return tree


def test_a_child_of_a_template_is_what_that_says_and_restarts_by_itself() -> None:
    tree = pool("a", "b")
    assert tree.state.slots[f"{POOL}/a"].spec.tools == ("calculator",)
    before = tree.pid(f"{POOL}/a"), tree.pid(f"{POOL}/b")
    tree.crash(f"{POOL}/a")
    tree.up()
    assert tree.pid(f"{POOL}/a") > before[0] and tree.pid(f"{POOL}/b") == before[1]


def test_a_child_that_is_not_of_the_template_is_refused() -> None:
    tree = pool()
    other = ProcessSpec("c", tools=("calculator", "file_read"))
    with pytest.raises(Invalid, match="/user/pool makes its children of a template: c is another"):
        tree.processes.admission.check_spawn(other, POOL)


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_what_is_stopped_below_a_template_is_gone_and_its_name_is_free(restart: str) -> None:
    tree = pool("a", restart=restart)
    below = tree.spawn("below", f"{POOL}/a", tools=())
    tree.processes.stop(f"{POOL}/a")
    tree.finish()
    assert f"{POOL}/a" not in tree.state.slots and below not in tree.state.slots
    assert tree.spawn("a", POOL) in tree.running()


@pytest.mark.parametrize("waits", [False, True])
def test_what_goes_below_a_template_is_said_to_be_down_before_its_mail_and_memories_go(waits: bool) -> None:
    """That takes rounds of the loop: a node that dies in between would start it again."""
    tree = pool("a", restart="transient")
    if waits:
        for _ in range(2):
            tree.up()
            tree.crash(f"{POOL}/a")
        tree.processes.stop(f"{POOL}/a")
    else:
        tree.crash(f"{POOL}/a", "normal")
    tree.finish()
    said = [draft.body["state"] for draft in tree.journal.drafts if draft.kind == "process.slot"]
    assert said[-2:] == ["stopped", "removed"]


def test_children_of_a_template_have_their_time_to_end_together() -> None:
    tree = pool(*"abcd", shutdown_s=3.0)
    for name in "abcd":
        tree.open_turn(f"{POOL}/{name}")
    tree.processes.stop(POOL)
    tree.clock.wind(2.9)
    assert not tree.ended
    tree.clock.wind(0.2)
    assert sorted(reason for _, _, reason in tree.ended) == ["killed"] * 4 + ["shutdown"]


def test_a_supervisor_with_a_template_that_comes_back_brings_its_children_along() -> None:
    tree = pool("a", "b")
    tree.processes.kill(POOL, "kill")
    tree.finish()
    tree.up()
    assert {f"{POOL}/a", f"{POOL}/b"} <= set(tree.running())


def test_a_child_of_a_template_is_neither_started_nor_removed_by_name() -> None:
    tree = pool("a")
    with pytest.raises(SupervisionError, match="they run or are gone") as caught:
        tree.processes.start(f"{POOL}/a")
    assert caught.value.word == "simple_one_for_one"
    with pytest.raises(Refused, match="is running; weftos stop"):
        tree.remove(f"{POOL}/a")


# Significant children


def team(mode: str, restart: str = "transient") -> Tree:
    tree = Tree()
    tree.spawn("team", type="supervisor", auto_shutdown=mode, restart=restart)
    tree.spawn("leader", TEAM, restart="transient", significant=True)
    tree.spawn("second", TEAM, restart="temporary", significant=True)
    tree.spawn("member", TEAM)
    tree.ended.clear()
    return tree


def test_64_the_end_of_a_significant_child_ends_its_supervisor_with_all_children() -> None:
    tree = team("any_significant")
    tree.crash(f"{TEAM}/leader", "normal")
    tree.finish()
    assert [(address.removeprefix(TEAM), reason) for address, _, reason in tree.ended] == [
        ("/leader", "normal"), ("/member", "shutdown"), ("/second", "shutdown"), ("", "shutdown"),
    ]  # fmt: skip
    assert tree.state.slots[TEAM].state == "stopped"


def test_64_all_significant_waits_for_the_last_and_a_stop_by_name_does_not_count() -> None:
    tree = team("all_significant")
    tree.processes.stop(f"{TEAM}/leader")
    tree.finish()
    assert TEAM in tree.running()
    tree.crash(f"{TEAM}/second")
    tree.finish()
    assert TEAM not in tree.running() and tree.state.slots[TEAM].state == "stopped"


@pytest.mark.parametrize(("significant", "ends"), [(True, True), (False, False)])
def test_65_the_end_of_a_significant_supervisor_ends_the_one_above(significant: bool, ends: bool) -> None:
    tree = Tree()
    tree.spawn("top", type="supervisor", auto_shutdown="any_significant", restart="transient")
    inner = tree.spawn(
        "team",
        "/user/top",
        type="supervisor",
        auto_shutdown="any_significant",
        restart="transient",
        significant=significant,
    )
    leader = tree.spawn("leader", inner, restart="temporary", significant=True)
    tree.spawn("bystander", "/user/top")
    tree.crash(leader)
    tree.finish()
    assert (tree.live.at("/user/top") is None) is ends
    assert (tree.live.at("/user/top/bystander") is None) is ends


@pytest.mark.parametrize(
    ("parent", "fields", "said"),
    [
        ("/user", {"restart": "transient", "significant": True}, "auto_shutdown never"),
        (TEAM, {"restart": "permanent", "significant": True}, "restart must be transient or temporary"),
        ("/user", {"type": "supervisor", "auto_shutdown": "some"}, "auto_shutdown 'some' is none of never"),
        (
            "/user",
            {"type": "supervisor", "strategy": TEMPLATE, "auto_shutdown": "any_significant"},
            "which must be never",
        ),
        ("/user", {"shutdown_s": -1.0}, "shutdown_s -1"),
        ("/user", {"shutdown_s": float("nan")}, "shutdown_s nan"),
        ("/user", {"type": "supervisor", "template": ProcessSpec("")}, "has no template"),
    ],
)
def test_what_does_not_go_together_is_refused_and_leaves_nothing(
    parent: str, fields: dict[str, Any], said: str
) -> None:
    tree = team("any_significant")
    before = list(tree.state.slots)
    with pytest.raises(Invalid, match=said):
        tree.spawn("faulty", parent, **fields)
    assert list(tree.state.slots) == before


# Times to end


def test_each_has_the_time_that_its_spec_says_and_none_at_all_is_a_kill() -> None:
    tree = Tree()
    for name, shutdown_s in (("now", 0.0), ("soon", 2.0), ("late", "infinity")):
        tree.open_turn(tree.spawn(name, shutdown_s=shutdown_s))
        tree.processes.stop(f"/user/{name}")
        tree.finish()
    assert [(address, reason) for address, _, reason in tree.ended] == [("/user/now", "killed")]
    tree.clock.wind(2.1)
    assert [address for address, *_ in tree.ended] == ["/user/now", "/user/soon"]
    tree.clock.wind(100_000.0)
    assert tree.pid("/user/late")
    tree.end_turn("/user/late")
    assert tree.ended[-1][::2] == ("/user/late", "shutdown")


def test_a_supervisor_with_a_time_to_end_is_killed_with_all_below_it_when_that_is_over() -> None:
    tree = Tree()
    tree.spawn("team", type="supervisor", shutdown_s=1.0)
    tree.open_turn(tree.spawn("slow", TEAM, shutdown_s="infinity"))
    tree.processes.stop(TEAM)
    tree.clock.wind(1.1)
    assert [reason for _, _, reason in tree.ended] == ["killed", "killed"] and TEAM not in tree.running()


def test_what_was_spawned_is_read_back_as_it_was() -> None:
    specs = (
        ProcessSpec("a", shutdown_s="infinity", restart="transient", significant=True),
        ProcessSpec("b", "supervisor", strategy=TEMPLATE, template=ProcessSpec("", shutdown_s=0.5)),
        ProcessSpec("c", "supervisor", auto_shutdown="all_significant"),
        ProcessSpec("d", on_logical="park"),
    )
    for spec in specs:
        assert ProcessSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    "faulty",
    [
        '"shutdown_s":"soon"',
        '"shutdown_s":true',
        '"significant":1',
        '"on_logical":7',
        '"template":7',
        '"template":{"tools":[]}',
    ],
)
def test_a_recorded_spec_of_a_wrong_shape_is_refused(faulty: str) -> None:
    text = ProcessSpec("a").to_json()
    name = faulty.partition(":")[0]
    value = {
        '"on_logical"': '"restart"',
        '"shutdown_s"': "null",
        '"significant"': "false",
        '"template"': "null",
    }[name]
    assert f"{name}:{value}" in text
    with pytest.raises(Invalid):
        ProcessSpec.from_json(text.replace(f"{name}:{value}", faulty))
