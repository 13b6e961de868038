"""Supervisors that restart several children together, on the shell of the process tree: what it does and records."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernel.cells.cell_events import Placement
from kernel.errors import Invalid, Refused
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin
from tests.kernel.twins.tree_twin import Tree
from tests.patience import HANG_S

TEAM = "/user/team"
TOGETHER = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])


def team(strategy: str, *names: str) -> Tree:
    tree = Tree()
    tree.spawn("team", type="supervisor", strategy=strategy)
    for name in names:
        tree.spawn(name, TEAM)
    tree.ended.clear()
    return tree


def exits(tree: Tree) -> list[tuple[str, str, str]]:
    """Address below the team, reason and detail of each exit, as they were recorded."""
    bodies = [draft.body for draft in tree.journal.drafts if draft.kind == "process.exited"]
    return [(body["address"].removeprefix(f"{TEAM}/"), body["reason"], body["detail"]) for body in bodies]


def starts(tree: Tree) -> list[str]:
    return [
        draft.body["address"].removeprefix(f"{TEAM}/")
        for draft in tree.journal.drafts
        if draft.kind == "process.started"
    ]


@TOGETHER
def test_a_sibling_that_goes_along_ends_with_all_below_it_and_the_ledger_says_why(strategy: str) -> None:
    tree = team(strategy, "a", "b")
    tree.spawn("below", f"{TEAM}/b")
    tree.spawn("c", TEAM, type="supervisor")
    tree.spawn("kid", f"{TEAM}/c")
    begun = len(starts(tree))
    tree.crash(f"{TEAM}/a")
    tree.finish()
    tree.up()
    why = f"{strategy}: a failed (crash)"
    assert exits(tree) == [
        ("a", "crash", "the test said so"),
        ("c/kid", "shutdown", ""),
        ("c", "shutdown", why),
        ("b/below", "shutdown", ""),
        ("b", "shutdown", why),
    ]
    back = starts(tree)[begun:]
    assert [name for name in back if "/" not in name] == ["a", "b", "c"]
    assert sorted(back) == ["a", "b", "b/below", "c", "c/kid"]


@TOGETHER
def test_each_sibling_has_its_own_time_and_what_does_not_end_in_it_is_killed(strategy: str) -> None:
    tree = team(strategy, "a", "b", "c")
    for name in "bc":
        tree.open_turn(f"{TEAM}/{name}")
    tree.crash(f"{TEAM}/a")
    tree.clock.wind(4.9)
    assert [address for address, *_ in tree.ended] == [f"{TEAM}/a"]
    b = tree.live.at(f"{TEAM}/b")
    assert b is not None and not b.draining  # its turn to stop has not come
    tree.clock.wind(5.0)
    tree.clock.wind(5.0)
    why = f"{strategy}: a failed (crash): did not stop within 5 s"
    assert exits(tree)[1:] == [("c", "killed", why), ("b", "killed", why)]
    tree.finish()
    tree.up()
    assert {f"{TEAM}/{name}" for name in "abc"} <= set(tree.running())


@TOGETHER
def test_a_temporary_sibling_goes_for_good_with_its_slot(strategy: str) -> None:
    tree = team(strategy, "a")
    tree.spawn("t", TEAM, restart="temporary")
    tree.crash(f"{TEAM}/a")
    tree.finish()
    tree.up()
    assert f"{TEAM}/t" not in tree.state.slots and f"{TEAM}/a" in tree.running()


@TOGETHER
def test_one_cells_death_is_one_failure_of_the_group(strategy: str) -> None:
    tree = Tree()
    tree.spawn("team", type="supervisor", strategy=strategy, intensity=(1, 60.0))
    names = [tree.spawn(name, TEAM) for name in "abc"]
    before = tree.pid(TEAM)
    tree.cell_lost(names)
    tree.finish()
    tree.up()
    assert tree.pid(TEAM) == before and set(names) <= set(tree.running())


@TOGETHER
def test_a_restart_that_hangs_does_not_hold_up_the_stop_of_a_child_or_of_the_supervisor(
    strategy: str,
) -> None:
    tree = team(strategy, "a", "b")
    tree.crash(f"{TEAM}/a")
    tree.finish()  # the cell of a does not report
    tree.processes.stop(f"{TEAM}/b")
    assert tree.state.slots[f"{TEAM}/b"].state == "stopped"
    tree.processes.stop(TEAM)
    tree.finish()
    assert tree.running() == ["/", "/user"]


def test_whose_start_is_overtaken_by_a_restart_hears_of_the_next(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor", strategy="one_for_all", tools=())
        first = await twin.spawn("a", parent=TEAM)
        placed: list[Placement] = []
        place = twin.cells.place

        def place_silently(placement: Placement) -> None:
            placed.append(placement)

        twin.cells.place = place_silently  # type: ignore[method-assign]
        waits = asyncio.create_task(twin.spawn("b", parent=TEAM))
        while not placed:
            await asyncio.sleep(0)
        twin.cells.place = place  # type: ignore[method-assign]
        twin.kernel.processes.exit(first, "crash")
        pid = await asyncio.wait_for(waits, HANG_S)
        assert pid > placed[0].pid
        process = twin.kernel.live.at(f"{TEAM}/b")
        assert process is not None and process.pid == pid

    on_twin(tmp_path, body)


@pytest.mark.parametrize("ends", [f"{TEAM}/b", TEAM])
def test_who_waits_for_its_turn_is_told_when_it_is_stopped_or_the_supervisor_ends(
    tmp_path: Path, ends: str
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor", strategy="rest_for_one", tools=())
        first = await twin.spawn("a", parent=TEAM)
        twin.cells.place = lambda placement: None  # type: ignore[method-assign]
        twin.kernel.processes.exit(first, "crash")
        waits = asyncio.create_task(twin.spawn("b", parent=TEAM))
        while f"{TEAM}/b" not in twin.kernel.state.slots:
            await asyncio.sleep(0)
        twin.kernel.processes.stop(ends)
        with pytest.raises(Refused):
            await asyncio.wait_for(waits, HANG_S)

    on_twin(tmp_path, body)


def test_a_strategy_that_there_is_not_is_refused_with_those_there_are(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        with pytest.raises(
            Invalid, match="'one_for_none', must be one of one_for_one, one_for_all, rest_for_one"
        ):
            await twin.spawn("team", type="supervisor", strategy="one_for_none", tools=())

    on_twin(tmp_path, body)


@TOGETHER
def test_a_supervisor_that_comes_back_starts_its_children_one_after_the_other(strategy: str) -> None:
    tree = team(strategy, "c", "a", "b")
    tree.processes.kill(TEAM, "kill")
    tree.finish()
    for name in "cab":
        assert [process.address for process in tree.placed] == [f"{TEAM}/{name}"]
        tree.up_one(0)
        tree.finish()
    assert not tree.placed
