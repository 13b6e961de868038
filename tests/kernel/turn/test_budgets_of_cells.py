"""Processor time and memory are measured in a cell of its own, and written when it is worth it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kernel.budget.account import Line
from kernel.cells.cell_events import CellLeft, CellUsed
from kernel.errors import Invalid
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budget
from kernel.operations.spawning import Spawning
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_budgets import SUM, ask, line, turn_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin, TwinCells, kernel_twin


class Abroad(TwinCells):
    """Cells that are on other machines."""

    remote = True


def _is_gone(twin: Twin, pid: int) -> bool:
    return twin.kernel.live.get(pid) is None


def use(twin: Twin, pid: int, address: str, cpu_ms: int) -> None:
    twin.say(CellUsed(pid, address, cpu_ms))


def hold(twin: Twin, pid: int, address: str, memory_bytes: int) -> None:
    twin.say(CellUsed(pid, address, 0, memory_bytes))


def test_what_is_used_is_written_by_the_hundredth_and_held_over_a_restart(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", isolation="dedicated", budget=Budget(cpu_ms=10_000, then="refuse"))
        at = await turn_of(twin, "ada")
        for _ in range(25):
            use(twin, at.pid, "/user/ada", 10)
        assert [one.body["amount"] for one in await twin.entries("budget.used")] == [100, 100]
        assert line(twin, "/user/ada", "cpu_ms") == Line(10_000, spent=200)
        twin.crash(at)
        twin.say(CellUsed(at.pid, "/user/ada", 7, last=True))
        assert line(twin, "/user/ada", "cpu_ms") == Line(10_000, spent=257)
        again = await twin.delivery()
        use(twin, again.pid, "/user/ada", 53)
        assert line(twin, "/user/ada", "cpu_ms") == Line(10_000, spent=257)
        use(twin, again.pid, "/user/ada", 47)
        assert line(twin, "/user/ada", "cpu_ms") == Line(10_000, spent=357)

    on_twin(tmp_path, body)

    async def booted(twin: Twin) -> None:
        assert line(twin, "/user/ada", "cpu_ms") == Line(10_000, spent=357)

    on_twin(tmp_path, booted)


def test_many_that_use_little_each_pay_all_of_it_and_nothing_is_kept_of_them(tmp_path: Path) -> None:
    """Each is temporary, and has used less than anybody is told of while it runs."""

    async def body(twin: Twin) -> None:
        await twin.spawn("boss", isolation="dedicated", budget=Budget(cpu_ms=10_000, then="refuse"))
        for number in range(30):
            address = f"/user/boss/kid{number}"
            pid = await twin.spawn(
                f"kid{number}", "/user/boss", isolation="dedicated", restart="temporary", tools=()
            )
            use(twin, pid, address, 4)
            twin.say(CellLeft(pid, "normal"))
            await until(partial(_is_gone, twin, pid))
            twin.say(CellUsed(pid, address, 1, last=True))
        assert line(twin, "/user/boss", "cpu_ms") == Line(10_000, spent=150)
        assert not twin.kernel._budget_watch._measured

    on_twin(tmp_path, body)


def test_who_works_for_many_loses_nothing_of_what_each_has_to_pay(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("bob", isolation="dedicated")
        for number in range(15):
            budget = Budget(cpu_ms=10_000, then="refuse")
            await twin.spawn(f"a{number}", isolation="dedicated", tools=("send_message",), budget=budget)
            at = await turn_of(twin, f"a{number}")
            await twin.call_tool(at, "send_message", {"to": "bob", "text": "work"})
            twin.finish(at)
            bob = await twin.delivery()
            use(twin, bob.pid, "/user/bob", 9)
            twin.finish(bob)
        twin.say(CellUsed(bob.pid, "/user/bob", 0, last=True))
        assert {line(twin, f"/user/a{number}", "cpu_ms").spent for number in range(15)} == {9}

    on_twin(tmp_path, body)


def test_who_has_a_process_work_pays_its_processor_time_beside_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        budget = Budget(cpu_ms=1_000)
        await twin.spawn("ada", isolation="dedicated", tools=("send_message",), budget=budget)
        await twin.spawn("bob", isolation="dedicated", budget=budget)
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "send_message", {"to": "bob", "text": "work"}))["status"] == "ok"
        bob = await twin.delivery()
        use(twin, bob.pid, "/user/bob", 300)
        assert line(twin, "/user/bob", "cpu_ms").spent == line(twin, "/user/ada", "cpu_ms").spent == 300
        use(twin, at.pid, "/user/ada", 50)
        assert line(twin, "/user/ada", "cpu_ms").spent == 350

    on_twin(tmp_path, body)


def test_who_has_used_it_up_is_told_and_has_one_last_answer(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", isolation="dedicated", tools=("calculator",), budget=Budget(cpu_ms=1_000))
        at = await turn_of(twin, "ada")
        use(twin, at.pid, "/user/ada", 850)
        assert (await twin.call_tool(at, "calculator", SUM))["status"] == "ok"
        use(twin, at.pid, "/user/ada", 500)
        refused = await twin.call_tool(at, "calculator", SUM, 1)
        assert (
            refused["text"]
            == "budget: /user/ada has used up its 1000 ms of processor time; answer from what is known"
        )
        assert (await ask(twin, at, "so", 2, ("calculator",)))["status"] == "ok"
        assert twin.gateway.asked[0]["tools"] == []
        assert (await ask(twin, at, "and", 3))["status"] == "error"
        warned = [one.body for one in await twin.entries("budget.warned")]
        assert [(one["resource"], one["percent"]) for one in warned] == [("cpu_ms", 80), ("cpu_ms", 100)]

    on_twin(tmp_path, body)


def test_with_refuse_nothing_that_would_use_more_is_done_and_with_stop_it_is_stopped(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", isolation="dedicated", budget=Budget(cpu_ms=1_000, then="refuse"))
        at = await turn_of(twin, "ada")
        use(twin, at.pid, "/user/ada", 1_000)
        assert "has used up its 1000 ms of processor time" in (await ask(twin, at, "so", 0))["text"]
        await twin.spawn("bob", isolation="dedicated", budget=Budget(cpu_ms=1_000, then="stop"))
        bob = await turn_of(twin, "bob")
        use(twin, bob.pid, "/user/bob", 1_000)
        await until(lambda: twin.kernel.state.slots["/user/bob"].state == "stopped")

    on_twin(tmp_path, body)


def test_a_process_in_a_shared_cell_has_no_such_budget_and_is_below_none(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        spawn, budget = control_of(twin), Budget(cpu_ms=1_000)
        with pytest.raises(
            Invalid, match="it has a budget of cpu_ms, which is measured in a cell of its own alone"
        ):
            await spawn(Spawning.spawn, "ada", isolation="shared", budget=budget)
        await spawn(Spawning.spawn, "boss", isolation="dedicated", budget=budget)
        with pytest.raises(
            Invalid, match=r"/user/boss, above it, has a budget of cpu_ms.*--isolation dedicated"
        ):
            await spawn(Spawning.spawn, "kid", under="/user/boss", isolation="shared")
        await spawn(
            Spawning.spawn, "kid", under="/user/boss", isolation="dedicated", budget=Budget(cpu_ms=400)
        )
        assert line(twin, "/user/boss", "cpu_ms") == Line(1_000, handed=400)

    on_twin(tmp_path, body)


def test_what_nobody_pays_is_not_written(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", isolation="dedicated", budget=Budget(tool_calls=5))
        at = await turn_of(twin, "ada")
        use(twin, at.pid, "/user/ada", 9_000)
        assert await twin.entries("budget.used") == []

    on_twin(tmp_path, body)


def test_memory_is_what_is_held_now_and_is_told_again_when_it_comes_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        budget = Budget(memory_bytes=1_000)
        await twin.spawn("ada", isolation="dedicated", tools=("calculator",), budget=budget)
        at = await turn_of(twin, "ada")
        for memory in (500, 510, 540, 600, 850, 1_100):
            hold(twin, at.pid, "/user/ada", memory)
        held = [one.body["amount"] for one in await twin.entries("budget.held")]
        assert held == [500, 600, 850, 1_100]
        assert line(twin, "/user/ada", "memory_bytes").left == -100
        refused = await twin.call_tool(at, "calculator", SUM)
        assert "has used up its 1000 bytes of memory; answer from what is known" in refused["text"]
        hold(twin, at.pid, "/user/ada", 300)
        assert (await twin.call_tool(at, "calculator", SUM, 1))["status"] == "ok"
        hold(twin, at.pid, "/user/ada", 900)
        warned = [one.body["percent"] for one in await twin.entries("budget.warned")]
        assert warned == [80, 100, 80]
        twin.crash(at)
        again = await twin.delivery()
        assert line(twin, "/user/ada", "memory_bytes") == Line(1_000)
        hold(twin, at.pid, "/user/ada", 900)  # it was dead by then
        assert line(twin, "/user/ada", "memory_bytes") == Line(1_000)
        twin.kernel.processes.stop("/user/ada")
        twin.finish(again)
        await until(lambda: twin.kernel.live.at("/user/ada") is None)
        hold(twin, again.pid, "/user/ada", 900)  # nobody comes after it
        assert line(twin, "/user/ada", "memory_bytes") == Line(1_000)

    on_twin(tmp_path, body)


def test_memory_is_held_of_the_nearest_account_by_all_below_it_and_of_nobody_who_asks(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control, budget = control_of(twin), Budget(memory_bytes=1_000)
        await twin.spawn("team", isolation="dedicated", budget=budget)
        await twin.spawn("ada", isolation="dedicated", tools=("send_message",), budget=budget)
        for name, own in (("a", None), ("b", None), ("c", Budget(memory_bytes=300))):
            await twin.spawn(name, "/user/team", isolation="dedicated", budget=own)
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "send_message", {"to": "a", "text": "work"}))["status"] == "ok"
        a = await twin.delivery()
        hold(twin, a.pid, "/user/team/a", 200)
        b = await turn_of(twin, "b")
        hold(twin, b.pid, "/user/team/b", 300)
        assert line(twin, "/user/team", "memory_bytes") == Line(1_000, spent=500, handed=300)
        assert line(twin, "/user/ada", "memory_bytes") == Line(1_000)
        twin.finish(b)
        await control(Processes.stop, "/user/team/b")
        await until(lambda: line(twin, "/user/team", "memory_bytes").spent == 200)

    on_twin(tmp_path, body)


def test_what_was_held_when_the_node_died_is_held_no_more_when_it_has_booted(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", isolation="dedicated", budget=Budget(memory_bytes=1_000))
        at = await turn_of(twin, "ada")
        hold(twin, at.pid, "/user/ada", 1_000)
        assert line(twin, "/user/ada", "memory_bytes").spent == 1_000
        twin.kernel.state.apply_entry("node.booted", {}, 10**6, 10**6, bytes(16))
        assert line(twin, "/user/ada", "memory_bytes") == Line(1_000)
        assert not twin.kernel.state.accounts.book.accounts["/user/ada"].told.get("memory_bytes")

    on_twin(tmp_path, body)


def test_what_nobody_measures_on_other_machines_is_no_budget_there(tmp_path: Path) -> None:
    async def body() -> None:
        async with kernel_twin(tmp_path, make_cells=Abroad) as twin:
            for budget in (Budget(cpu_ms=1_000), Budget(memory_bytes=2**30)):
                with pytest.raises(Invalid, match="nobody measures that here: cells of this node may be on"):
                    await control_of(twin)(Spawning.spawn, name="ada", isolation="dedicated", budget=budget)
            await control_of(twin)(Spawning.spawn, name="ada", isolation="dedicated", budget=Budget(tokens=9))

    asyncio.run(body())
