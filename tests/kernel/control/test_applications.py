"""Applications are made what they declare: by one request, whatever was there before, and whatever cuts it off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.entry.kinds import KINDS
from kernel.bounds import Bounds
from kernel.budget.account import Line
from kernel.control import applications
from kernel.control.spawning import AT_A_TIME
from kernel.errors import Busy, Invalid, KernelError, NotFound, Refused
from kernel.operations.applications import Applications, Applied, DeclaredSpawn, OwnCode, Planned
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budget, Budgets, Resource
from kernel.operations.spawning import Spawning, SpawnRequest
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.books import faults
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin

ROOT = DeclaredSpawn("shop", supervisor=True)
CLERK = DeclaredSpawn("clerk", under="/user/shop", tools=[])
BACK = DeclaredSpawn("back", under="/user/shop", supervisor=True, strategy="one_for_all")
PACKER = DeclaredSpawn("packer", under="/user/shop/back", tools=[], replicas=3)
SHOP = (ROOT, CLERK, BACK, PACKER)


async def apply(control: Doors, *spawns: DeclaredSpawn, code: tuple[OwnCode, ...] = ()) -> Applied:
    return await asyncio.wait_for(control(Applications.apply, "shop", spawns, code=code), LIMIT_S)


async def plan(control: Doors, *spawns: DeclaredSpawn, code: tuple[OwnCode, ...] = ()) -> Planned:
    return await control(Applications.plan, "shop", spawns, code=code)


def running(twin: Twin) -> dict[str, int]:
    return {process.address: process.pid for process in twin.kernel.live.all() if "/shop" in process.address}


ALL = {"/user/shop", "/user/shop/clerk", "/user/shop/back"} | {
    f"/user/shop/back/packer-{n}" for n in (1, 2, 3)
}


def test_one_apply_makes_the_tree_and_a_second_has_nothing_to_do(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        told = await plan(control, *SHOP)
        assert running(twin) == {} and told["faults"] == [] and told["counts"] == {"add": 6}
        assert [(step["action"], step["address"], step["count"]) for step in told["steps"]] == [
            ("add", "/user/shop", 1),
            ("add", "/user/shop/clerk", 1),
            ("add", "/user/shop/back", 1),
            ("add", "/user/shop/back/packer-1", 3),
        ]
        done = await apply(control, *SHOP)
        assert done["steps"] == told["steps"] and done["failed"] == [] and set(running(twin)) == ALL
        assert {slot.made_by for slot in twin.kernel.state.slots.values() if "/shop" in slot.address} == {
            "app:shop"
        }
        [command] = await twin.entries("operator.command")
        assert '"add":6' in command.body["arguments"]
        before = running(twin)
        assert (await apply(control, *SHOP))["steps"] == [] and running(twin) == before

    on_control(tmp_path, body)


def test_an_apply_waits_for_the_disk_once_and_not_with_each_unit(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, ROOT, replace(CLERK, replicas=200))
        durable = twin.ledger.size  # as whoever has asked is told of it
        made = [one for one in await twin.entries("process.spawned") if "/shop" in one.body["address"]]
        assert len(made) == 201 and max(one.entry.seq for one in made) < durable
        assert not any(KINDS[one.entry.kind].is_durable(one.body) for one in made)
        await control(Spawning.spawn, "alone", tools=[])
        alone = (await twin.entries("process.spawned"))[-1]
        assert KINDS[alone.entry.kind].is_durable(alone.body)

    on_control(tmp_path, body)


def test_what_was_removed_stops_what_is_missing_starts_and_what_changed_is_replaced(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, *SHOP)
        await control(Processes.stop, "/user/shop/back/packer-2")
        before = running(twin)
        changed = replace(CLERK, model="better", tools=["calculator"])
        done = await apply(control, ROOT, changed, BACK, replace(PACKER, replicas=2))
        assert [(step["action"], step["address"], step["fields"]) for step in done["steps"]] == [
            ("remove", "/user/shop/back/packer-3", []),
            ("replace", "/user/shop/clerk", ["tools", "model"]),
            ("start", "/user/shop/back/packer-2", []),
        ]
        after = running(twin)
        assert set(after) == ALL - {"/user/shop/back/packer-3"}
        assert after["/user/shop/back/packer-1"] == before["/user/shop/back/packer-1"]
        assert after["/user/shop/clerk"] != before["/user/shop/clerk"]
        assert twin.kernel.state.slots["/user/shop/clerk"].spec.config == {"model": "better"}
        assert (await plan(control, ROOT, changed, BACK, replace(PACKER, replicas=2)))["steps"] == []

    on_control(tmp_path, body)


def test_what_can_change_while_it_runs_keeps_its_process(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, *SHOP)
        before = running(twin)
        wanted = (
            replace(ROOT, intensity=(2, 9.0)),
            replace(CLERK, restart="transient", shutdown_s=7.0),
            replace(BACK, auto_shutdown="any_significant"),
            replace(PACKER, restart="transient", significant=True),
        )
        done = await apply(control, *wanted)
        assert done["counts"] == {"change": 6} and running(twin) == before
        slots = twin.kernel.state.slots
        assert slots["/user/shop/clerk"].spec.shutdown_s == 7.0
        assert slots["/user/shop"].spec.intensity == (2, 9.0)
        assert slots["/user/shop/back/packer-3"].spec.significant
        assert (await plan(control, *wanted))["steps"] == []
        suits = replace(CLERK, shutdown_s=5.0)
        assert (await apply(control, ROOT, suits, BACK, PACKER))["counts"] == {"change": 6}
        assert (await plan(control, ROOT, CLERK, BACK, PACKER))["steps"] == [] and running(twin) == before

    on_control(tmp_path, body)


def lines(twin: Twin, resource: Resource = "tokens") -> dict[str, Line]:
    book = twin.kernel.state.accounts.book
    assert list(faults(book)) == []
    return {name: account.lines[resource] for name, account in book.accounts.items()}


def test_budgets_are_shared_below_their_supervisors_and_changed_while_all_runs(tmp_path: Path) -> None:
    root, back = replace(ROOT, budget=Budget(tokens=1000)), replace(BACK, budget=Budget(tokens=600))
    packer = replace(PACKER, budget=Budget(tokens=100))

    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, root, CLERK, back, packer)
        before = running(twin)
        assert lines(twin)["/user/shop"] == Line(1000, handed=600)
        assert lines(twin)["/user/shop/back"] == Line(600, handed=300)
        await control(Budgets.grant, "/user/shop", resource="tokens", amount=11)
        wanted = (
            replace(root, budget=Budget(tokens=500)),
            CLERK,
            replace(back, budget=Budget(tokens=400, then="refuse")),
            replace(packer, budget=Budget(tokens=120)),
        )
        done = await apply(control, *wanted)
        assert [(step["action"], step["address"], step["count"], step["why"]) for step in done["steps"]] == [
            ("change", "/user/shop/back", 1, "tokens 600 to 400"),
            ("change", "/user/shop", 1, "tokens 1000 to 500 (600 are in use and stay)"),
            ("change", "/user/shop/back", 1, "then wrap_up to refuse"),
            ("change", "/user/shop/back/packer-1", 3, "tokens 100 to 120"),
        ]
        assert running(twin) == before and (await plan(control, *wanted))["steps"] == []
        after = lines(twin)
        assert after["/user/shop"] == Line(511, handed=400)
        assert after["/user/shop/back"] == Line(400, handed=360)
        assert after["/user/shop/back/packer-2"] == Line(120)
        told = [entry.body for entry in await twin.entries("budget.changed")]
        assert told[0] == {
            "address": "/user/shop/back",
            "then": "wrap_up",
            "resources": ["tokens"],
            "amounts": [400],
        }
        none = await apply(control, ROOT, CLERK, BACK, PACKER)
        assert {step["why"] for step in none["steps"]} == {
            "tokens 120 to no limit",
            "tokens 400 to no limit",
            "tokens 500 to no limit",
        }
        assert lines(twin) == {} and running(twin) == before
        again = await apply(control, root, CLERK, back, packer)
        assert again["counts"] == {"change": 5} and lines(twin)["/user/shop/back"] == Line(600, handed=300)
        assert running(twin) == before

    on_control(tmp_path, body)

    async def booted(twin: Twin) -> None:
        control = control_of(twin)
        assert lines(twin)["/user/shop"] == Line(1000, handed=600)
        assert (await plan(control, root, CLERK, back, packer))["steps"] == []

    on_twin(tmp_path, booted)


def test_more_than_a_budget_has_is_a_fault_of_the_place_or_refused_in_words(tmp_path: Path) -> None:
    root = replace(ROOT, budget=Budget(tokens=100))

    async def body(twin: Twin, control: Doors) -> None:
        many = replace(PACKER, budget=Budget(tokens=40))
        told = await plan(control, root, BACK, many)
        assert [(fault["entry"], fault["why"]) for fault in told["faults"]] == [
            (
                0,
                "/user/shop: budget: it has 100 tokens, and what is declared below it is to have 120",
            )
        ]
        await apply(control, root, replace(CLERK, budget=Budget(tokens=10)))
        spent = twin.kernel.state.accounts.book
        spent.spend([spent.accounts["/user/shop"]], "tokens", 60)
        with pytest.raises(Refused, match="/user/shop has 30 tokens left, and cannot give 40"):
            await apply(control, root, replace(CLERK, budget=Budget(tokens=50)))

    on_control(tmp_path, body)


def test_who_was_paused_goes_on_when_more_is_declared(tmp_path: Path) -> None:
    tight = replace(CLERK, tools=["calculator"], budget=Budget(tool_calls=1, then="pause"))

    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, ROOT, tight)
        await twin.send("/user/shop/clerk")
        at = await twin.delivery()
        assert (await twin.call_tool(at, "calculator", {"expression": "1+1"}))["status"] == "ok"
        twin.finish(at)
        slots = twin.kernel.state.slots
        await until(lambda: slots["/user/shop/clerk"].suspended == "budget")
        await apply(control, ROOT, replace(tight, budget=Budget(tool_calls=9, then="pause")))
        assert not slots["/user/shop/clerk"].suspended
        assert (await twin.delivery()).message.kind == "budget"
        [resumed] = await twin.entries("process.resumed")
        [changed] = await twin.entries("budget.changed")
        assert resumed.entry.seq == changed.entry.seq + 1

    on_control(tmp_path, body)


def test_a_template_makes_its_replicas(tmp_path: Path) -> None:
    pool = replace(BACK, strategy="simple_one_for_one", tools=[], child_restart="transient")
    below = DeclaredSpawn("packer", under="/user/shop/back", replicas=4)

    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, ROOT, pool, below)
        made = twin.kernel.state.slots["/user/shop/back/packer-4"]
        assert made.spec.restart == "transient" and len(running(twin)) == 6
        assert (await plan(control, ROOT, pool, below))["steps"] == []
        fewer = await apply(control, ROOT, pool, replace(below, replicas=1))
        assert fewer["counts"] == {"remove": 3} and len(running(twin)) == 3

    on_control(tmp_path, body)


def test_a_template_is_changed_and_only_what_is_declared_of_it_is_made_anew(tmp_path: Path) -> None:
    pool = replace(BACK, strategy="simple_one_for_one", tools=[], child_restart="transient")
    below = DeclaredSpawn("packer", under="/user/shop/back", replicas=2)

    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, ROOT, pool, below)
        await control(Spawning.spawn, "own", under="/user/shop/back")
        before = running(twin)
        other = replace(pool, tools=["calculator"], child_restart="permanent")
        done = await apply(control, ROOT, other, below)
        assert [
            (step["action"], step["address"], step["count"], step["fields"]) for step in done["steps"]
        ] == [
            ("change", "/user/shop/back", 1, ["template"]),
            ("replace", "/user/shop/back/packer-1", 2, ["restart", "tools"]),
        ]
        after, slots = running(twin), twin.kernel.state.slots
        same = {address for address in before if after[address] == before[address]}
        assert same == {"/user/shop", "/user/shop/back", "/user/shop/back/own"}
        assert slots["/user/shop/back/own"].spec.tools == () != slots["/user/shop/back/packer-1"].spec.tools
        assert (await plan(control, ROOT, other, below))["steps"] == []
        none = replace(BACK, strategy="one_for_all")
        with pytest.raises(Invalid, match="/user/shop/back/own would go with /user/shop/back"):
            await apply(control, ROOT, none, replace(PACKER, replicas=2))
        await control(Processes.stop, "/user/shop/back/own")
        await until(lambda: "/user/shop/back/own" not in slots)
        assert (await apply(control, ROOT, none, replace(PACKER, replicas=2)))["counts"] == {"replace": 3}

    on_control(tmp_path, body)


def test_what_somebody_else_made_is_never_touched(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "shop", supervisor=True)
        with pytest.raises(Invalid, match="/user/shop is there, and application shop did not make it"):
            await apply(control, *SHOP)
        with pytest.raises(Refused, match="application shop did not make it"):
            await control(Applications.delete, "shop")
        await control(Processes.stop, "shop")
        await control(Processes.remove, "shop")
        await apply(control, *SHOP)
        await control(Spawning.spawn, "mine", under="/user/shop", tools=[])
        await control(Spawning.spawn, "own", under="/user/shop/back", tools=[])
        before = running(twin)
        with pytest.raises(Invalid, match="/user/shop/back/own would go with /user/shop/back"):
            await apply(control, ROOT, CLERK)
        with pytest.raises(Refused, match="/user/shop/mine would go with /user/shop"):
            await control(Applications.delete, "shop")
        assert running(twin) == before
        assert (await apply(control, *SHOP))["steps"] == []

    on_control(tmp_path, body)


def test_delete_takes_all_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        with pytest.raises(NotFound, match="there is no application shop"):
            await control(Applications.delete, "shop")
        await apply(control, *SHOP)
        assert await control(Applications.delete, "shop") == {"name": "shop", "removed": 6}
        assert running(twin) == {} and not any("/shop" in address for address in twin.kernel.state.slots)
        assert len((await apply(control, *SHOP))["steps"]) == 4

    on_control(tmp_path, body)


def test_an_apply_says_why_and_so_do_the_ends_that_it_brings(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, *SHOP)
        done = control(Applications.apply, "shop", (ROOT, BACK, PACKER), why="the clerk retires")
        await asyncio.wait_for(done, LIMIT_S)
        *_, command = await twin.entries("operator.command")
        assert '"why":"the clerk retires"' in command.body["arguments"]
        [ended] = [
            one for one in await twin.entries("process.exited") if one.body["address"].endswith("clerk")
        ]
        assert "the clerk retires" in ended.body["detail"] and ended.entry.cause == command.entry.seq

    on_control(tmp_path, body)


def test_what_is_told_to_be_done_is_on_the_disk(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, ROOT, CLERK)
        assert twin.ledger.size == twin.ledger.next_seq
        twin.kernel.processes.stop("/user/shop/clerk")
        assert (await apply(control, ROOT, CLERK))["counts"] == {"start": 1}
        assert twin.ledger.size == twin.ledger.next_seq
        assert (await apply(control, ROOT))["counts"] == {"remove": 1}
        assert twin.ledger.size == twin.ledger.next_seq
        assert (await control(Applications.delete, "shop"))["removed"] == 1
        assert twin.ledger.size == twin.ledger.next_seq

    on_control(tmp_path, body)


def test_every_fault_is_told_with_its_entry_and_nothing_is_done(tmp_path: Path) -> None:
    code = (
        OwnCode("tool", "weigh", "scales:weigh", ("/srv",)),
        OwnCode("behaviour", "agent", "own:Agent", ("/srv",)),
    )
    wrong = (
        ROOT,
        replace(CLERK, behaviour="none_such"),
        replace(CLERK, name="armed", tools=["no_tool"]),
        replace(CLERK, name="17"),
        replace(CLERK, name="x" * 62, replicas=100),
        replace(CLERK, name="twice", replicas=1),
        replace(CLERK, name="twice-1"),
        replace(CLERK, name="sig", significant=True),
        replace(BACK, strategy="all_for_none"),
        replace(CLERK, name="loose", provider="nobody"),
    )

    async def body(twin: Twin, control: Doors) -> None:
        told = await plan(control, *wrong, code=code)
        faults = {(fault["entry"], fault["why"]) for fault in told["faults"]}
        for entry, words in (
            (-1, "tool weigh is not configured on this node, which takes code from no request"),
            (-1, "behaviour agent is configured as "),
            (1, "/user/shop/clerk: behaviour 'none_such' is not configured"),
            (2, "/user/shop/armed: no tool no_tool"),
            (3, "name '17' is all digits"),
            (4, "has 66 characters"),
            (6, "/user/shop/twice-1 is declared twice"),
            (7, "significant"),
            (8, "all_for_none"),
            (9, "provider 'nobody' is not configured"),
        ):
            assert any(entry == at and words in why for at, why in faults), (words, faults)
        with pytest.raises(Invalid) as error:
            await apply(control, *wrong, code=code)
        assert "no tool no_tool" in str(error.value) and "is all digits" in str(error.value)
        assert running(twin) == {} and not await twin.entries("operator.command")

    on_control(tmp_path, body)


@pytest.mark.parametrize(
    "spawns, words",
    [
        ((), "1 to 100000 processes"),
        ((CLERK,), "the first entry must be the supervisor shop below /user"),
        ((ROOT, PACKER), "no supervisor /user/shop/back stands before it"),
        ((ROOT, replace(BACK, replicas=2)), "a supervisor has no replicas"),
        ((ROOT, replace(CLERK, on="n2")), "an application is of this node"),
        ((ROOT, replace(CLERK, auto_shutdown="any_significant")), "auto_shutdown belongs to a supervisor"),
        ((ROOT, *(replace(CLERK, name=f"c{n}", replicas=60_000) for n in (1, 2))), "1 to 100000 processes"),
    ],
)
def test_what_can_be_seen_without_the_node(spawns: tuple[DeclaredSpawn, ...], words: str) -> None:
    faults = Applications.plan.request("shop", spawns).check()
    assert any(words in fault for fault in faults)


def test_one_that_does_not_run_is_told_and_tried_again_by_the_next_apply(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        twin.cells.refuse = lambda placement: "it raised" if placement.name == "packer-2" else ""
        done = await apply(control, *SHOP)
        [failed] = done["failed"]
        assert done["not_running"] == 1 and "it raised" in failed["why"]
        twin.cells.refuse = lambda placement: ""
        again = await apply(control, *SHOP)
        assert [step["address"] for step in again["steps"]] == ["/user/shop/back/packer-2"]
        assert set(running(twin)) == ALL

    on_control(tmp_path, body)


def test_units_follow_one_another_while_those_before_them_start_and_no_more_than_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "MADE_AT_ONCE", 1)
    monkeypatch.setattr(applications, "BEGUN_AT_ONCE", 2)
    many = replace(CLERK, replicas=5)

    async def body(twin: Twin, control: Doors) -> None:
        held: list[Any] = []
        place = twin.cells.place
        monkeypatch.setattr(twin.cells, "place", held.append)
        applying = asyncio.create_task(apply(control, ROOT, many))
        while len(held) < 3:
            await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
        slots = twin.kernel.state.slots
        assert [f"/user/shop/clerk-{n}" in slots for n in range(1, 6)] == [True] * 3 + [False] * 2
        twin.cells.refuse = lambda placement: "it raised" if placement.name == "clerk-1" else ""
        monkeypatch.setattr(twin.cells, "place", place)
        for placement in held:
            place(placement)
        done = await applying
        assert [failed["address"] for failed in done["failed"]] == ["/user/shop/clerk-1"]
        assert set(running(twin)) == {"/user/shop", *(f"/user/shop/clerk-{n}" for n in range(2, 6))}

    on_control(tmp_path, body)


def cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upto: int) -> None:
    """A node that ends while ``upto`` units of an apply are written."""
    monkeypatch.setattr(applications, "MADE_AT_ONCE", 1)

    async def body(twin: Twin) -> None:
        control, seen = control_of(twin), 0
        halted = asyncio.Event()
        place: Callable[[Any], None] = twin.cells.place

        def placed(placement: Any) -> None:
            nonlocal seen
            seen += 1
            if seen > upto:
                halted.set()  # this one never starts, and nobody waits for it any more
            else:
                place(placement)

        monkeypatch.setattr(twin.cells, "place", placed)
        applying = asyncio.create_task(apply(control, *SHOP))
        await asyncio.wait_for(halted.wait(), LIMIT_S)
        with pytest.raises(Busy, match="application shop is being applied"):
            await control(Applications.delete, "shop")
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)

    on_twin(tmp_path, body)


@pytest.mark.parametrize("upto", [0, 1, 2, 3])
def test_an_apply_that_a_nodes_end_cuts_off_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upto: int
) -> None:
    cut_off(tmp_path, monkeypatch, upto)

    async def body(twin: Twin, control: Doors) -> None:
        made = [address for address in ALL if address in twin.kernel.state.slots]
        assert 0 < len(made) <= len(ALL)
        done = await apply(control, *SHOP)
        assert sum(done["counts"].values()) == len(ALL) - len(made)
        started = [twin.kernel.processes.when_started(address) for address in ALL]
        await asyncio.wait_for(asyncio.gather(*started), LIMIT_S)
        assert set(running(twin)) == ALL and (await plan(control, *SHOP))["steps"] == []

    on_control(tmp_path, body)


def test_an_apply_that_nobody_waits_for_any_more_has_begun_what_it_recorded(tmp_path: Path) -> None:
    many = replace(CLERK, replicas=3 * AT_A_TIME)

    async def body(twin: Twin, control: Doors) -> None:
        applying = asyncio.create_task(apply(control, ROOT, many))
        while f"/user/shop/clerk-{many.replicas}" not in twin.kernel.state.slots:
            await asyncio.sleep(0)
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)
        assert (await apply(control, ROOT, many))["steps"] == []
        made = [f"/user/shop/clerk-{number + 1}" for number in range(3 * AT_A_TIME)]
        begun = {process.address for process in twin.kernel.live.all()}
        assert begun.issuperset(made)

    on_control(tmp_path, body)


def test_what_a_person_makes_while_an_apply_begins_is_not_touched(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, *SHOP)
        slots, survived = twin.kernel.state.slots, 0
        for rounds in range(16):  # of the loop: before the plan, behind it, and when what is to go is stopped
            applying = asyncio.create_task(apply(control, ROOT, CLERK))
            for _ in range(rounds):
                await asyncio.sleep(0)
            made = True
            try:
                await control(Spawning.spawn, "mine", under="/user/shop/back", tools=[])
            except KernelError:
                made = False
            done = await asyncio.gather(applying, return_exceptions=True)
            assert made == ("/user/shop/back/mine" in slots), (rounds, done)
            if made:
                assert isinstance(done[0], Invalid | Refused) and "did not make it" in str(done[0])
                assert slots["/user/shop/back/packer-1"].state == slots["/user/shop/back"].state == "running"
                survived += 1
                await control(Processes.stop, "/user/shop/back/mine")
                await control(Processes.remove, "/user/shop/back/mine")
            await apply(control, *SHOP)
        assert survived

    on_control(tmp_path, body)


def test_what_there_is_no_room_for_is_said_before_anything_goes(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await apply(control, *SHOP)
        before = running(twin)
        more = (ROOT, replace(CLERK, model="better", replicas=6), BACK, PACKER)
        words = "/user/shop would have 7 children, and limits.children is 5"
        assert any(words in fault["why"] for fault in (await plan(control, *more))["faults"])
        with pytest.raises(Invalid, match=words):
            await apply(control, *more)
        much = (ROOT, CLERK, BACK, replace(PACKER, replicas=5), replace(BACK, name="b"))
        with pytest.raises(Invalid, match=r"the node would have 11 processes, and limits.processes is 10"):
            await apply(control, *much, replace(PACKER, under="/user/shop/b", replicas=1))
        assert running(twin) == before
        await apply(control, *much)

    on_control(tmp_path, body, bounds=Bounds(processes=10, children=5))


def test_an_entry_says_all_that_a_spawn_says() -> None:
    spawn = SpawnRequest("a", tools=["calculator"], significant=True, restart="transient")
    entry = DeclaredSpawn("a", tools=["calculator"], significant=True, restart="transient", replicas=2)
    assert all(getattr(entry, name) == getattr(spawn, name) for name in SpawnRequest.__dataclass_fields__)
