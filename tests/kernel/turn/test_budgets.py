"""What a process may use up holds over its restarts, those of its node, and for all that is below it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.budget.account import Line
from kernel.errors import Busy, Invalid, NotFound, Refused
from kernel.operations.messages import Messages
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budget, Budgets, OnExhausted, Resource
from kernel.operations.spawning import OnLogical, Spawning, SpawnRequest
from kernel.turn.turn_signals import BudgetsDue
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.books import faults
from tests.kernel.twins.kernel_twin import Delivery, Twin, answer_of, kernel_twin

SUM = {"expression": "1+1"}


def line(twin: Twin, address: str, resource: Resource) -> Line:
    found = twin.kernel.state.accounts.book.line(address, resource)
    assert found is not None
    assert list(faults(twin.kernel.state.accounts.book)) == []
    return found


async def turn_of(twin: Twin, name: str, text: str = "hi") -> Delivery:
    await twin.send(name, text)
    while (at := await twin.delivery()).message.kind == "budget":
        twin.finish(at)
    return at


async def ask(
    twin: Twin, at: Delivery, text: str, round_: int, tools: tuple[str, ...] = ()
) -> dict[str, Any]:
    twin.ask_model(at, [{"role": "user", "content": text}], round_, list(tools))
    return await twin.result()


def test_a_call_too_many_is_refused_and_no_restart_makes_it_one_of_few(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=3, then="refuse"))
        at = await turn_of(twin, "ada")
        for number in range(3):
            assert (await twin.call_tool(at, "calculator", SUM, number))["status"] == "ok"
        refused = await twin.call_tool(at, "calculator", SUM, 3)
        assert (refused["status"], refused["text"]) == (
            "denied",
            "budget: /user/ada has used up its 3 tool calls; answer from what is known",
        )
        twin.crash(at)
        again = await twin.delivery()
        for number in range(3):  # what is recorded costs nothing anew
            assert (await twin.call_tool(again, "calculator", SUM, number))["status"] == "ok"
        assert (await twin.call_tool(again, "calculator", SUM, 3))["status"] == "denied"
        assert (await twin.call_tool(again, "calculator", SUM, 4))["status"] == "denied"
        assert line(twin, "/user/ada", "tool_calls") == Line(3, spent=3)

    on_twin(tmp_path, body)

    async def booted(twin: Twin) -> None:
        at = await twin.delivery()
        for number in range(3):
            await twin.call_tool(at, "calculator", SUM, number)
        for number in range(3, 6):
            assert (await twin.call_tool(at, "calculator", SUM, number))["status"] == "denied"
        assert line(twin, "/user/ada", "tool_calls") == Line(3, spent=3)

    on_twin(tmp_path, booted)


def test_a_loop_that_spawns_ends_with_the_budget_of_the_uppermost(tmp_path: Path) -> None:
    """Children that crash and come back, under whatever PID and name, use up what they all have together."""

    async def body(twin: Twin) -> None:
        tools = ("spawn_agent", "send_message", "calculator")
        await twin.spawn("boss", tools=tools, budget=Budget(tool_calls=6, then="refuse"))
        at = await turn_of(twin, "boss")
        made = 0
        for number in range(4):
            arguments = {"name": f"k{number}", "tools": ["calculator"]}
            made += (await twin.call_tool(at, "spawn_agent", arguments, number))["status"] == "ok"
        sent = await twin.call_tool(at, "send_message", {"to": "k0", "text": "work"}, 4)
        assert (made, sent["status"]) == (4, "ok")
        kid = await twin.delivery()
        assert (await twin.call_tool(kid, "calculator", SUM))["status"] == "ok"
        assert (await twin.call_tool(kid, "calculator", SUM, 1))["status"] == "denied"
        assert (await twin.call_tool(at, "spawn_agent", {"name": "more"}, 5))["status"] == "denied"
        assert "/user/boss/more" not in twin.kernel.state.slots

    on_twin(tmp_path, body)


def test_messages_are_counted_of_who_sends_them(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("send_message",), budget=Budget(messages=1, then="refuse"))
        await twin.spawn("bob", tools=("send_message",))
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "send_message", {"to": "bob", "text": "1"}))["status"] == "ok"
        refused = await twin.call_tool(at, "send_message", {"to": "bob", "text": "2"}, 1)
        assert (refused["status"], refused["text"]) == (
            "error",
            "budget: /user/ada has used up its 1 messages",
        )
        await twin.send("ada", "a person's messages are no agent's")

    on_twin(tmp_path, body)


def test_a_question_reserves_what_it_may_use_and_its_answer_settles_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        free = asyncio.Event()

        async def answer(request: dict[str, Any]) -> dict[str, Any]:
            await free.wait()
            return answer_of("hello")

        twin.gateway.answer = answer
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tokens=2_000))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x" * 300}], 0, ["calculator"])
        await until(lambda: bool(twin.gateway.asked))
        held = line(twin, "/user/ada", "tokens")
        assert held.reserved and not held.spent
        assert 0 < twin.gateway.asked[0]["max_tokens"] < held.reserved < 2_000
        free.set()
        assert (await twin.result())["status"] == "ok"
        assert line(twin, "/user/ada", "tokens") == Line(2_000, spent=4)

    on_twin(tmp_path, body)


def test_the_model_is_told_what_is_left_and_the_ledger_what_it_was_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=2, messages=5))
        at = await turn_of(twin, "ada")
        for number in range(3):
            await ask(twin, at, f"question {number}", 2 * number, ("calculator",))
            await twin.call_tool(at, "calculator", SUM, 2 * number + 1)
        told = [request["note"] for request in twin.gateway.asked]
        assert told == [
            "[budget] Left: 2 of 2 tool calls, 5 of 5 messages.",
            "[budget] Left: 1 of 2 tool calls, 5 of 5 messages.",
            "[budget] Left: 0 of 2 tool calls, 5 of 5 messages. It is the last one: no tool is called after it.",
        ]
        assert [record.body["note"] for record in await twin.entries("budget.reserved")] == told
        await twin.spawn("free")
        await ask(twin, await turn_of(twin, "free"), "hello", 0)
        assert "note" not in twin.gateway.asked[-1]
        assert len(await twin.entries("budget.reserved")) == 3

    on_twin(tmp_path, body)


def test_the_last_question_of_what_is_left_has_no_tools_and_none_follows(tmp_path: Path) -> None:
    def expensive(request: dict[str, Any]) -> dict[str, Any]:
        return {**answer_of("so far"), "input_tokens": 40, "output_tokens": request["max_tokens"]}

    async def body(twin: Twin) -> None:
        twin.gateway.answer = expensive
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tokens=2_000))
        at = await turn_of(twin, "ada")
        first = await ask(twin, at, "begin", 0, ("calculator",))
        assert (first["status"], len(twin.gateway.asked[0]["tools"])) == ("ok", 1)
        last = await ask(twin, at, "go on", 1, ("calculator",))
        assert (last["status"], twin.gateway.asked[1]["tools"]) == ("ok", [])
        over = await ask(twin, at, "and on", 2, ("calculator",))
        assert (over["status"], len(twin.gateway.asked)) == ("error", 2)
        assert "budget: /user/ada has used up its 2000 tokens, and the last answer was given" in over["text"]
        twin.crash(at)
        again = await twin.delivery()
        assert (await ask(twin, again, "begin", 0, ("calculator",)))["text"] == "so far"
        assert (await ask(twin, again, "go on", 1, ("calculator",)))["text"] == "so far"
        assert len(twin.gateway.asked) == 2

    on_twin(tmp_path, body)


def test_who_has_used_up_its_calls_still_has_an_answer_of_what_it_knows(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=1))
        at = await turn_of(twin, "ada")
        await twin.call_tool(at, "calculator", SUM)
        assert (await twin.call_tool(at, "calculator", SUM, 1))["status"] == "denied"
        assert (await ask(twin, at, "so", 2, ("calculator",)))["status"] == "ok"
        assert twin.gateway.asked[0]["tools"] == []
        assert (await ask(twin, at, "and", 3))["status"] == "error"

    on_twin(tmp_path, body)


def test_a_question_whose_turn_ends_counts_as_all_that_was_reserved(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        async def never(request: dict[str, Any]) -> dict[str, Any]:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("it was answered")

        twin.gateway.answer = never
        await twin.spawn("ada", budget=Budget(tokens=2_000))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: bool(twin.gateway.asked))
        reserved = line(twin, "/user/ada", "tokens").reserved
        await control_of(twin)(Processes.cancel, "ada")
        assert line(twin, "/user/ada", "tokens") == Line(2_000, spent=reserved)

    on_twin(tmp_path, body)


def test_who_asks_another_pays_beside_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("ask", "calculator"), budget=Budget(tool_calls=3, then="refuse"))
        await twin.spawn("rich", tools=("calculator",), budget=Budget(tool_calls=100, then="refuse"))
        at = await turn_of(twin, "ada")
        twin.ask_tool(at, "ask", {"to": "rich", "text": "work for me"})
        rich = await twin.delivery()
        statuses = [(await twin.call_tool(rich, "calculator", SUM, number))["status"] for number in range(3)]
        assert statuses == ["ok", "ok", "denied"]
        assert line(twin, "/user/rich", "tool_calls").spent == 2
        assert line(twin, "/user/ada", "tool_calls").spent == 3

    on_twin(tmp_path, body)


def test_process_and_parent_are_told_at_80_and_100_in_a_hundred_once_each(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss", tools=("calculator",))
        await twin.spawn("kid", "/user/boss", tools=("calculator",), budget=Budget(tool_calls=5))
        at = await turn_of(twin, "kid")
        for number in range(4):
            await twin.call_tool(at, "calculator", SUM, number)
        boss = await twin.delivery()
        assert (boss.message.kind, boss.message.sender) == ("budget", "/user/boss/kid")
        said = json.loads(boss.message.text)
        assert (said["resource"], said["percent"], said["spent"], said["left"]) == ("tool_calls", 80, 4, 1)
        await twin.call_tool(at, "calculator", SUM, 4)
        twin.finish(boss)
        assert json.loads((await twin.delivery()).message.text)["percent"] == 100
        twin.finish(at)
        for percent in (80, 100):
            own = await twin.delivery()
            assert (own.message.kind, json.loads(own.message.text)["percent"]) == ("budget", percent)
            assert own.tools == []
            twin.finish(own)
        warned = [record.body for record in await twin.entries("budget.warned")]
        assert [body["percent"] for body in warned] == [80, 100]

    on_twin(tmp_path, body)


def test_the_agent_above_is_told_over_the_supervisors_in_between(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss", tools=("calculator",))
        await control_of(twin)(Spawning.spawn, "team", under="/user/boss", supervisor=True)
        budget = Budget(tool_calls=1, then="refuse")
        await twin.spawn("kid", "/user/boss/team", tools=("calculator",), budget=budget)
        at = await turn_of(twin, "kid")
        await twin.call_tool(at, "calculator", SUM)
        boss = await twin.delivery()
        assert (boss.message.kind, boss.message.sender) == ("budget", "/user/boss/team/kid")

    on_twin(tmp_path, body)


def test_children_of_a_supervisor_share_its_budget_and_the_agent_above_is_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("boss", tools=("calculator",))
        shared, team = Budget(tool_calls=5, then="refuse"), "/user/boss/team"
        await control(Spawning.spawn, "team", under="/user/boss", supervisor=True, budget=shared)
        for name in ("ada", "bob"):
            await control(Spawning.spawn, name, under=team, tools=("calculator",))
        with pytest.raises(Busy, match="/user/boss/team has 5 tool_calls left, and cannot give 6"):
            await control(Spawning.spawn, "eve", under=team, tools=(), budget=Budget(tool_calls=6))
        await control(Spawning.spawn, "eve", under=team, tools=(), budget=Budget(tool_calls=1))
        assert line(twin, "/user/boss/team", "tool_calls") == Line(5, handed=1)
        ada, bob = await turn_of(twin, "ada"), await turn_of(twin, "bob")
        for number in range(2):
            assert (await twin.call_tool(ada, "calculator", SUM, number))["status"] == "ok"
            assert (await twin.call_tool(bob, "calculator", SUM, number))["status"] == "ok"
        refused = await twin.call_tool(ada, "calculator", SUM, 3)
        assert refused["text"].startswith("budget: /user/boss/team has used up its 5 tool calls")
        notice = await twin.delivery()
        assert notice.message.kind == "budget" and notice.message.sender == "/user/boss/team"
        twin.finish(notice)
        twin.crash(ada)
        again = await twin.delivery()
        assert (await twin.call_tool(again, "calculator", SUM, 4))["status"] == "denied"
        [shown] = await control(Budgets.show, "/user/boss/team")
        assert (shown["account"], shown["spent"], shown["handed"]) == ("/user/boss/team", 4, 1)
        assert (await control(Budgets.show, "ada"))[0]["account"] == "/user/boss/team"
        [entry] = await twin.entries("budget.warned")
        assert (entry.body["address"], entry.body["percent"]) == ("/user/boss/team", 80)
        assert "/user/boss/team" not in twin.kernel.state.mail

    on_twin(tmp_path, body)


def test_a_supervisor_whose_budget_says_so_is_stopped_with_all_below_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "team", supervisor=True, budget=Budget(tool_calls=1, then="stop"))
        await control(Spawning.spawn, "ada", under="/user/team", tools=("calculator",))
        ada = await turn_of(twin, "ada")
        assert (await twin.call_tool(ada, "calculator", SUM))["status"] == "ok"
        await until(lambda: twin.kernel.state.slots["/user/team"].state == "stopped")
        with pytest.raises(Invalid, match="then=pause is for those below it"):
            await control(Spawning.spawn, "wait", supervisor=True, budget=Budget(tokens=1, then="pause"))

    on_twin(tmp_path, body)


def test_what_a_cancelled_question_used_up_is_told_at_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        async def never(request: dict[str, Any]) -> dict[str, Any]:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("it was answered")

        twin.gateway.answer = never
        await twin.spawn("ada", budget=Budget(tokens=400, then="stop"))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: bool(twin.gateway.asked))
        await control_of(twin)(Processes.cancel, "ada")
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == "stopped")
        assert [record.body["percent"] for record in await twin.entries("budget.warned")] == [100]

    on_twin(tmp_path, body)


def test_a_person_who_sends_a_dead_letter_again_spends_nothing_of_its_sender(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=("send_message",), budget=Budget(messages=1, then="refuse"))
        await twin.spawn("bob")
        await control(Processes.suspend, "bob")
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "send_message", {"to": "bob", "text": "hi"}))["status"] == "ok"
        await control(Processes.stop, "bob")
        await until(lambda: len(twin.kernel.state.dead) == 1)
        [letter] = twin.kernel.state.dead
        await control(Processes.start, "bob")
        await control(Messages.replay, letter)
        assert line(twin, "/user/ada", "messages") == Line(1, spent=1)

    on_twin(tmp_path, body)


def test_who_is_sent_the_last_message_of_a_budget_may_do_what_it_asks(tmp_path: Path) -> None:
    """Nothing that it does comes out of the sender's messages."""

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("send_message", "calculator"), budget=Budget(messages=1))
        await twin.spawn("bob", tools=("calculator",))
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "send_message", {"to": "bob", "text": "work"}))["status"] == "ok"
        bob = await twin.delivery()
        assert (await twin.call_tool(bob, "calculator", SUM))["status"] == "ok"
        assert (await ask(twin, bob, "so", 1, ("calculator",)))["status"] == "ok"
        assert len(twin.gateway.asked[0]["tools"]) == 1

    on_twin(tmp_path, body)


def test_children_that_are_made_together_get_no_more_than_there_is_together(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "boss", tools=(), budget=Budget(tool_calls=5))
        one = SpawnRequest("one", under="/user/boss", tools=(), budget=Budget(tool_calls=3))
        two = replace(one, name="two")
        with pytest.raises(Busy, match="two: budget: /user/boss has 2 tool_calls left, and cannot give 3"):
            await control(Spawning.spawn_all, spawns=(one, two))
        await control(Spawning.spawn_all, spawns=(one, replace(two, budget=Budget(tool_calls=2))))
        assert line(twin, "/user/boss", "tool_calls") == Line(5, handed=5)

    on_twin(tmp_path, body)


def test_what_was_not_told_when_the_node_died_is_told_by_the_next_boot(tmp_path: Path) -> None:
    async def body() -> None:
        async with kernel_twin(tmp_path) as twin:
            await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=1))
            at = await turn_of(twin, "ada")
            twin.kernel._budget_watch.look = lambda: None  # type: ignore[method-assign]  # it dies before that
            await twin.call_tool(at, "calculator", SUM)
            assert await twin.entries("budget.warned") == []
        async with kernel_twin(tmp_path) as twin:
            assert len(await twin.entries("budget.warned")) == 1

    asyncio.run(body())


def test_a_process_whose_budget_says_so_is_stopped_when_it_is_spent(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=1, then="stop"))
        at = await turn_of(twin, "ada")
        await twin.call_tool(at, "calculator", SUM)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == "stopped")
        twin.finish(at)
        await until(lambda: twin.kernel.live.at("/user/ada") is None)
        [warned] = [one for one in await twin.entries("budget.warned") if one.body["percent"] == 100]
        [exited] = await twin.entries("process.exited")
        said = (exited.entry.cause, exited.body["reason"], exited.body["detail"])
        assert said == (warned.entry.seq, "shutdown:budget", "stopped by its budget of tool calls")

    on_twin(tmp_path, body)


@pytest.mark.parametrize(("on_logical", "state"), [("park", "parked"), ("end", "stopped")])
def test_one_that_is_to_park_or_end_for_logical_reasons_does_so_of_its_budget(
    tmp_path: Path, on_logical: OnLogical, state: str
) -> None:
    """It ends in order, for the reason budget; so does the next one while there is nothing left, also after a boot."""

    async def body(twin: Twin) -> None:
        budget = Budget(tool_calls=1, then="stop")
        await twin.spawn("ada", tools=("calculator",), budget=budget, on_logical=on_logical)
        await twin.spawn("kid", "/user/ada", tools=())
        at = await turn_of(twin, "ada")
        await twin.call_tool(at, "calculator", SUM)
        await until(lambda: twin.kernel.live.at("/user/ada/kid") is None)
        assert twin.kernel.live.at("/user/ada") is not None, "its turn may still end"
        twin.finish(at)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == state)
        [warned] = [one for one in await twin.entries("budget.warned") if one.body["percent"] == 100]
        kid, ada = await twin.entries("process.exited")
        assert (ada.entry.cause, ada.body["reason"]) == (warned.entry.seq, "budget")
        assert ada.body["detail"] == "its budget of tool calls is spent"
        assert kid.body["reason"] == "shutdown"

    async def after(twin: Twin) -> None:
        control = control_of(twin)
        assert twin.kernel.state.slots["/user/ada"].state == state
        await control(Processes.start, "ada")
        await until(lambda: len(twin.cells.placed) > 0)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == state)
        await control(Budgets.grant, "ada", resource="tool_calls", amount=1)
        await control(Processes.start, "ada")
        await until(lambda: twin.kernel.live.at("/user/ada") is not None)
        assert (await twin.call_tool(await turn_of(twin, "ada"), "calculator", SUM))["status"] == "ok"

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_one_that_does_not_end_in_its_time_ends_for_its_budget_all_the_same(tmp_path: Path) -> None:
    """Killed it would be a failure, and start again."""

    async def body(twin: Twin) -> None:
        budget = Budget(tool_calls=1, then="stop")
        await twin.spawn("ada", tools=("calculator",), budget=budget, on_logical="park", shutdown_s=0.01)
        await twin.call_tool(await turn_of(twin, "ada"), "calculator", SUM)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == "parked")
        [exited] = await twin.entries("process.exited")
        assert exited.body["reason"] == "budget" and "did not stop within 0.01 s" in exited.body["detail"]

    on_twin(tmp_path, body)


def test_a_process_whose_budget_says_so_waits_until_a_person_gives_enough(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=1, messages=9, then="pause"))
        at = await turn_of(twin, "ada")
        await twin.call_tool(at, "calculator", SUM)
        assert (await twin.call_tool(at, "calculator", SUM, 1))["status"] == "denied"
        await until(lambda: twin.kernel.state.slots["/user/ada"].suspended == "budget")
        twin.finish(at)
        waits = await twin.send("ada", "more")
        [warned] = [one for one in await twin.entries("budget.warned") if one.body["percent"] == 100]
        [paused] = await twin.entries("process.suspended")
        assert paused.entry.cause == warned.entry.seq
        found = (await control(Processes.inspect, "ada"))["waiting"]
        assert "weftos budget grant /user/ada RESOURCE AMOUNT, or weftos resume /user/ada" in str(found)
        await control(Budgets.grant, "ada", resource="messages", amount=1)
        assert twin.kernel.state.slots["/user/ada"].suspended
        await control(Budgets.grant, "ada", resource="tool_calls", amount=1)
        assert not twin.kernel.state.slots["/user/ada"].suspended
        [resumed] = await twin.entries("process.resumed")
        assert resumed.body["by"].startswith("operator")
        while (at := await twin.delivery()).message.kind == "budget":
            twin.finish(at)
        assert at.message.id == waits.id
        assert (await twin.call_tool(at, "calculator", SUM))["status"] == "ok"

    on_twin(tmp_path, body)


@pytest.mark.parametrize("then", ["pause", "stop"])
def test_tokens_that_suffice_for_no_question_more_are_used_up(tmp_path: Path, then: OnExhausted) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", budget=Budget(tokens=1_000, then=then))
        at = await turn_of(twin, "ada")
        assert (await ask(twin, at, "x" * 6_000, 0))["status"] == "error"  # too long for once
        slot = twin.kernel.state.slots["/user/ada"]
        assert (slot.suspended, slot.state) == ("", "running")
        twin.gateway.answer = lambda request: {**answer_of("much"), "output_tokens": 950}
        assert (await ask(twin, at, "hi", 1))["status"] == "ok"
        assert line(twin, "/user/ada", "tokens").percent < 100
        assert (await ask(twin, at, "hi", 2))["status"] == "error"
        [warned] = [one for one in await twin.entries("budget.warned") if one.body["percent"] == 100]
        assert warned.body["resource"] == "tokens"
        if then == "stop":
            await until(lambda: twin.kernel.state.slots["/user/ada"].state == "stopped")
            return
        assert twin.kernel.state.slots["/user/ada"].suspended == "budget"
        await control_of(twin)(Budgets.grant, "ada", resource="tokens", amount=1_000)
        assert not twin.kernel.state.slots["/user/ada"].suspended
        assert (await ask(twin, at, "hi", 3))["status"] == "ok"

    on_twin(tmp_path, body)


def test_two_that_are_used_up_in_one_look_pause_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", budget=Budget(tool_calls=100, messages=100, then="pause"))
        book = twin.kernel.state.accounts.book
        account = book.accounts["/user/ada"]
        used_up = {resource: replace(line, spent=line.granted) for resource, line in account.lines.items()}
        book.accounts["/user/ada"] = replace(account, lines=used_up)
        book.due |= {(account.address, resource): None for resource in account.lines}
        twin.say(BudgetsDue())
        await until(lambda: twin.kernel.state.slots["/user/ada"].suspended == "budget")
        assert len(await twin.entries("budget.warned")) == 2
        assert len(await twin.entries("process.suspended")) == 1

    on_twin(tmp_path, body)


def test_whom_a_person_has_resumed_is_not_paused_again_for_the_same(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tool_calls=1, then="pause"))
        at = await turn_of(twin, "ada")
        await twin.call_tool(at, "calculator", SUM)
        await until(lambda: twin.kernel.state.slots["/user/ada"].suspended == "budget")
        twin.finish(at)
        await control_of(twin)(Processes.resume, "ada")
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "calculator", SUM))["status"] == "denied"
        assert not twin.kernel.state.slots["/user/ada"].suspended

    on_twin(tmp_path, body)


def test_the_time_of_turns_is_spent_and_ends_a_turn_that_has_none_left(tmp_path: Path) -> None:
    now = [1_000_000_000]

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",), budget=Budget(time_ms=10_000))
        first = await twin.send("ada")
        at = await twin.delivery()
        now[0] += 4_000_000
        twin.finish(at)
        await twin.end_of(first)
        assert 4_000 <= line(twin, "/user/ada", "time_ms").spent < 5_000
        second = await twin.send("ada")
        at = await twin.delivery()
        now[0] += 7_000_000
        twin.finish(at)
        await twin.end_of(second)
        third = await twin.send("ada")
        assert await twin.end_of(third) == {
            "status": "error",
            "reply": "the turn did not end within the time that its budget had left",
            "turn": f"t{third.seq}",
        }

    on_twin(tmp_path, body, now_us=lambda: now[0])


def test_time_that_runs_when_the_account_that_pays_it_goes_is_paid_by_the_one_above(tmp_path: Path) -> None:
    now = [1_000_000_000]

    async def body(twin: Twin) -> None:
        await twin.spawn("boss", budget=Budget(time_ms=10_000))
        await twin.spawn("kid", "/user/boss", tools=("send_message",), budget=Budget(time_ms=5_000))
        await twin.spawn("worker")
        kid = await turn_of(twin, "kid")
        assert (await twin.call_tool(kid, "send_message", {"to": "worker", "text": "work"}))["status"] == "ok"
        work = await twin.delivery()
        twin.finish(kid)
        twin.kernel.processes.stop("/user/boss/kid")
        await until(lambda: twin.kernel.live.at("/user/boss/kid") is None)
        await twin.kernel.processes.remove("/user/boss/kid", False)
        spent = line(twin, "/user/boss", "time_ms").spent
        now[0] += 3_000_000
        twin.finish(work)
        await until(lambda: not twin.kernel.state.turns)
        assert line(twin, "/user/boss", "time_ms").spent == spent + 3_000

    on_twin(tmp_path, body, now_us=lambda: now[0])


def test_more_is_granted_out_of_the_account_above(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        small = Budget(tool_calls=2, then="refuse")
        await control(Spawning.spawn, "boss", tools=("calculator",), budget=Budget(tool_calls=5))
        await control(Spawning.spawn, "kid", under="/user/boss", tools=("calculator",), budget=small)
        with pytest.raises(Busy, match="/user/boss has 3 tool_calls left, and cannot give 4"):
            await control(Spawning.spawn, "two", under="/user/boss", tools=(), budget=Budget(tool_calls=4))
        at = await turn_of(twin, "/user/boss/kid")
        for number in range(2):
            await twin.call_tool(at, "calculator", SUM, number)
        assert (await twin.call_tool(at, "calculator", SUM, 2))["status"] == "denied"
        [own] = await control(Budgets.grant, "/user/boss/kid", resource="tool_calls", amount=3)
        assert (own["granted"], own["spent"], own["left"]) == (5, 2, 3)
        assert (await twin.call_tool(at, "calculator", SUM, 3))["status"] == "ok"
        with pytest.raises(Refused, match="has 0 tool_calls left, and cannot give 1: give it more first"):
            await control(Budgets.grant, "/user/boss/kid", resource="tool_calls", amount=1)
        with pytest.raises(NotFound, match="has no budget of tokens"):
            await control(Budgets.grant, "boss", resource="tokens", amount=1)
        assert (await control(Processes.inspect, "boss"))["budget"] == [
            {
                "account": "/user/boss",
                "resource": "tool_calls",
                "granted": 5,
                "spent": 0,
                "reserved": 0,
                "handed": 5,
                "left": 0,
                "then": "wrap_up",
            }
        ]
        await control(Processes.stop, "/user/boss/kid")
        await until(lambda: not twin.kernel.processes.supervisors.is_up("/user/boss/kid"))
        await until(lambda: not twin.kernel.state.mail.get("/user/boss/kid"))
        await control(Processes.remove, "/user/boss/kid")
        assert line(twin, "/user/boss", "tool_calls") == Line(5, spent=3)

    on_twin(tmp_path, body)


def test_no_tool_is_called_after_the_last_answer_of_a_turn(tmp_path: Path) -> None:
    """A model may ask for tools that it was not offered, and have left some of its tokens."""
    spent = iter((1_600, 1))

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {**answer_of("so far"), "input_tokens": 40, "output_tokens": next(spent)}

    async def body(twin: Twin) -> None:
        twin.gateway.answer = answer
        await twin.spawn("ada", tools=("calculator",), budget=Budget(tokens=2_000))
        at = await turn_of(twin, "ada")
        assert (await twin.call_tool(at, "calculator", SUM))["status"] == "ok"
        await ask(twin, at, "begin", 1, ("calculator",))
        await ask(twin, at, "go on", 2, ("calculator",))
        assert twin.gateway.asked[1]["tools"] == [] and line(twin, "/user/ada", "tokens").left > 300
        refused = await twin.call_tool(at, "calculator", SUM, 3)
        assert (refused["status"], refused["text"]) == (
            "denied",
            "budget: the last answer of this turn was given, and no tool is called after it",
        )

    on_twin(tmp_path, body)


def test_what_is_done_for_who_has_its_budget_from_oneself_is_paid_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control, tools = control_of(twin), ("calculator", "send_message")
        await twin.spawn("boss", tools=tools, budget=Budget(tool_calls=9, then="refuse"))
        await twin.spawn("kid", "/user/boss", tools=tools, budget=Budget(tool_calls=3, then="refuse"))
        at = await turn_of(twin, "kid")
        assert (await twin.call_tool(at, "send_message", {"to": "boss", "text": "help"}))["status"] == "ok"
        boss = await twin.delivery()
        assert (await twin.call_tool(boss, "calculator", SUM))["status"] == "ok"
        twin.finish(boss)
        twin.finish(at)
        await control(Processes.stop, "/user/boss/kid")
        await until(lambda: not twin.kernel.processes.supervisors.is_up("/user/boss/kid"))
        await until(lambda: not twin.kernel.state.mail.get("/user/boss/kid"))
        await control(Processes.remove, "/user/boss/kid")
        assert line(twin, "/user/boss", "tool_calls") == Line(9, spent=2)

    on_twin(tmp_path, body)


def test_who_is_told_of_the_time_of_another_has_its_own(tmp_path: Path) -> None:
    now = [1_000_000_000]

    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", "/user/boss", budget=Budget(time_ms=5_000))
        at = await turn_of(twin, "kid")
        now[0] += 9_000_000
        twin.finish(at)
        while (boss := await twin.delivery()).pid == at.pid:
            pass
        assert boss.message.sender == "/user/boss/kid" and "time_ms" in boss.message.text
        twin.ask_model(boss, [{"role": "user", "content": "what now"}])
        assert (await twin.result())["status"] == "ok"
        twin.finish(boss)

    on_twin(tmp_path, body, now_us=lambda: now[0])


@pytest.mark.parametrize("notices", [1, 2])
def test_a_notice_that_nobody_handles_is_no_lost_work(tmp_path: Path, notices: int) -> None:
    """It is dropped, and counted, when its process is down; a message of somebody else becomes a dead letter."""

    async def body(twin: Twin) -> None:
        control = control_of(twin)
        granted = {1: 10, 2: 5}[notices]  # with 10 calls a hundredth part comes later than 80
        budget = Budget(tool_calls=granted, then="refuse")
        await twin.spawn("ada", tools=("calculator",), budget=budget)
        at = await turn_of(twin, "ada")
        for number in range({1: 8, 2: 5}[notices]):
            await twin.call_tool(at, "calculator", SUM, number)
        await until(lambda: len(twin.kernel.state.mail.get("/user/ada", {})) == notices + 1)
        other = await twin.send("ada", "work")
        await control(Processes.stop, "ada")
        await until(lambda: not twin.kernel.state.mail.get("/user/ada"))
        dead, tally = twin.kernel.state.dead, twin.kernel.state.tally
        assert other.id in dead and not [one for one in dead.values() if one.mail.kind == "budget"]
        assert (tally.dropped, tally.archived, tally.dead) == (notices, 0, len(dead))
        assert tally.accepted == tally.acknowledged + tally.dead + tally.dropped + tally.in_flight
        said = await twin.entries("message.dropped")
        assert [one.body["by"] for one in said] == ["policy"] * notices

    on_twin(tmp_path, body)
