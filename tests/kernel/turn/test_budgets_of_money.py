"""What a process may spend on models: reserved before a question, settled by its answer, once, whatever dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.budget.account import Line
from kernel.budget.price import Price
from kernel.errors import Busy
from kernel.helper.helper import HelperAway, HelperLost, HelperRefused
from kernel.operations.node import Node
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budget, Budgets
from kernel.operations.rights.money import in_units
from kernel.operations.spawning import Spawning
from kernel.syscall.models import asking
from kernel.syscall.models.asking import ATTEMPTS
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_budgets import ask, line, turn_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import SlowDisk
from tests.kernel.twins.kernel_twin import Twin, answer_of, kernel_twin

PRICE = Price(2_000_000, 10_000_000, 500_000)
"""2 for a million tokens read, 10 for a million written, 0.5 where they were kept."""


def priced(twin: Twin, **prices: Price) -> None:
    twin.gateway.prices.update({"twin-1": PRICE, **prices})


async def never(request: dict[str, Any]) -> dict[str, Any]:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("it was answered")


def used(read: int, written: int, cached: int = 0) -> dict[str, Any]:
    tokens = {"input_tokens": read, "output_tokens": written, "cached_tokens": cached}
    return {**answer_of("so"), **tokens}


def test_a_question_reserves_its_greatest_answer_and_is_settled_by_what_came(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        free = asyncio.Event()

        async def answer(request: dict[str, Any]) -> dict[str, Any]:
            await free.wait()
            return used(100, 20, 60)

        priced(twin)
        twin.gateway.answer = answer
        await twin.spawn("ada", budget=Budget(money="0.01", then="refuse"))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x" * 300}])
        await until(lambda: bool(twin.gateway.asked))
        held, most = line(twin, "/user/ada", "money"), twin.gateway.asked[0]["max_tokens"]
        [reserved] = await twin.entries("budget.reserved")
        assert reserved.body["payers"] == ["/user/ada"] and reserved.body["accounts"] == []
        assert held.reserved == reserved.body["money"] == PRICE.most(reserved.body["input"], most)
        assert held.left >= 0 and PRICE.most(reserved.body["input"], most + 1) > held.granted
        free.set()
        assert (await twin.result())["status"] == "ok"
        assert line(twin, "/user/ada", "money") == Line(10_000, spent=80 + 30 + 200)
        [answered] = await twin.entries("model.answered")
        assert answered.body["cached_tokens"] == 60

    on_twin(tmp_path, body)


def test_a_model_without_a_price_is_refused_to_who_has_a_budget_of_money(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", budget=Budget(money="1"))
        at = await turn_of(twin, "ada")
        refused = await ask(twin, at, "hi", 0)
        assert (refused["status"], twin.gateway.asked) == ("error", [])
        assert refused["text"] == (
            "budget: /user/ada has a budget of money, and nothing says what twin/twin-1 costs: declare its price in "
            "the node's configuration ([providers.NAME.prices.MODEL], input and output), or ask a model that has one"
        )
        await twin.spawn("bob", budget=Budget(tokens=9_000))
        assert (await ask(twin, await turn_of(twin, "bob"), "hi", 0))["status"] == "ok"

    on_twin(tmp_path, body)


def test_no_answers_cost_more_than_was_granted_and_the_last_one_is_given_without_tools(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = lambda request: used(40, request["max_tokens"])
        await twin.spawn("ada", tools=("calculator",), budget=Budget(money="0.02"))
        at = await turn_of(twin, "ada")
        for number in range(3):
            answer = await ask(twin, at, f"question {number}", number, ("calculator",))
            assert line(twin, "/user/ada", "money").left >= 0
            if answer["status"] == "error":
                break
        assert [bool(request["tools"]) for request in twin.gateway.asked] == [True, False]
        assert "has used up its 0.02 units of money, and the last answer was given" in answer["text"]
        assert twin.gateway.asked[0]["note"].startswith(
            "[budget] Left: 0.02 of 0.02 units of money. This answer"
        )
        warned = [one.body for one in await twin.entries("budget.warned")]
        assert [(one["resource"], one["percent"]) for one in warned] == [("money", 80)]

    on_twin(tmp_path, body)


def test_tokens_and_money_bound_an_answer_together(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        await twin.spawn("ada", budget=Budget(money="0.01", tokens=100_000, then="refuse"))
        await twin.spawn("bob", budget=Budget(money="100", tokens=1_000, then="refuse"))
        for name in ("ada", "bob"):
            assert (await ask(twin, await turn_of(twin, name), "hi", 0))["status"] == "ok"
        ada, bob = (one.body for one in await twin.entries("budget.reserved"))
        assert ada["accounts"] == ada["payers"] == ["/user/ada"]
        assert ada["money"] <= 10_000 < PRICE.most(ada["input"], ada["tokens"] - ada["input"] + 1)
        assert bob["tokens"] == 1_000 and bob["money"] == PRICE.most(bob["input"], 1_000 - bob["input"])

    on_twin(tmp_path, body)


def test_the_status_of_a_node_says_what_all_accounts_of_money_come_to(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        control = control_of(twin)
        assert (await control(Node.status))["money"]["accounts"] == 0
        await twin.spawn("boss", budget=Budget(money="1"))
        await twin.spawn("kid", "/user/boss", budget=Budget(money="0.25"))
        await twin.spawn("bob", budget=Budget(money="0.5"))
        twin.gateway.answer = lambda request: used(100, 20)
        await ask(twin, await turn_of(twin, "kid"), "hi", 0)
        twin.gateway.answer = never
        twin.ask_model(await turn_of(twin, "bob"), [{"role": "user", "content": "x"}])
        await until(lambda: len(twin.gateway.asked) == 2)
        reserved = line(twin, "/user/bob", "money").reserved
        assert (await control(Node.status))["money"] == {
            "accounts": 3,
            "granted": "1.5",
            "spent": "0.0004",
            "reserved": in_units(reserved),
            "left": in_units(1_499_600 - reserved),
        }

    on_twin(tmp_path, body)


def test_a_question_whose_turn_is_cancelled_costs_all_that_was_reserved(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never
        await twin.spawn("ada", budget=Budget(money="0.02"))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: bool(twin.gateway.asked))
        reserved = line(twin, "/user/ada", "money").reserved
        await control_of(twin)(Processes.cancel, "ada")
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=reserved)

    on_twin(tmp_path, body)


BEGUN = {**used(0, 0), "status": "error", "text": "cut", "uncounted": True}


@pytest.mark.parametrize(
    "answer", [BEGUN, answer_of("y" * 20_000), None], ids=["broken off", "too large", "late"]
)
def test_a_question_of_which_nobody_says_what_it_came_to_costs_all_that_was_reserved(
    tmp_path: Path, answer: dict[str, Any] | None
) -> None:
    """It broke off, its answer was too large, or came too late: it was paid for all the same."""

    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never if answer is None else lambda request: answer
        await twin.spawn("ada", budget=Budget(money="0.02", tokens=100_000, then="refuse"))
        assert (await ask(twin, await turn_of(twin, "ada"), "x", 0))["status"] == "error"
        [reserved] = await twin.entries("budget.reserved")
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=reserved.body["money"])
        assert line(twin, "/user/ada", "tokens") == Line(100_000, spent=reserved.body["tokens"])

    bounds = Bounds(model_answer_bytes=10_000, model_timeout_s=300.0 if answer else 0.05)
    on_twin(tmp_path, body, bounds=bounds)


@pytest.mark.parametrize(
    ("faults", "costs"),
    [
        ([HelperLost("it died")] * ATTEMPTS, True),
        ([HelperLost("it died"), HelperRefused("malformed")], True),
        ([HelperLost("it died"), None], True),
        ([HelperAway("it is not running")] * ATTEMPTS, False),
    ],
    ids=["lost each time", "lost, then refused", "lost, then an error", "never there"],
)
def test_a_question_that_is_lost_with_its_gateway_costs_all_that_was_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[Exception | None], costs: bool
) -> None:
    """Each time somebody may have been paid for it; while there is no gateway nobody is asked."""

    async def body(twin: Twin) -> None:
        left = list(faults)

        def answer(request: dict[str, Any]) -> dict[str, Any]:
            if (fault := left.pop(0)) is not None:
                raise fault
            return {**BEGUN, "uncounted": False}

        priced(twin)
        twin.gateway.answer = answer
        await twin.spawn("ada", budget=Budget(money="0.02", tokens=100_000, then="refuse"))
        assert (await ask(twin, await turn_of(twin, "ada"), "x", 0))["status"] == "error"
        [reserved], [answered] = await twin.entries("budget.reserved"), await twin.entries("model.answered")
        spent = (reserved.body["money"], reserved.body["tokens"]) if costs else (0, 0)
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=spent[0])
        assert line(twin, "/user/ada", "tokens") == Line(100_000, spent=spent[1])
        assert answered.body["input_tokens"] + answered.body["output_tokens"] == spent[1]

    monkeypatch.setattr(asking, "AGAIN_S", 0.001)
    on_twin(tmp_path, body)


def test_nobody_is_paid_for_a_question_that_is_not_on_the_disk(tmp_path: Path) -> None:
    """A node that dies of it again and again would have it paid each time, and nothing would say so."""
    disk = SlowDisk()

    async def body() -> None:
        async with kernel_twin(tmp_path, disk=disk) as twin:
            try:
                priced(twin)
                await twin.spawn("ada", budget=Budget(money="0.02"))
                await twin.spawn("bob", budget=Budget(tokens=9_000))
                ada, bob = await turn_of(twin, "ada"), await turn_of(twin, "bob")
                disk.ready.clear()
                twin.ask_model(ada, [{"role": "user", "content": "paid"}])
                twin.ask_model(bob, [{"role": "user", "content": "free"}])
                await twin.result()
                assert [request["messages"][0]["content"] for request in twin.gateway.asked] == ["free"]
                disk.ready.set()
                await twin.result()
                assert [request["messages"][0]["content"] for request in twin.gateway.asked] == [
                    "free",
                    "paid",
                ]
                disk.ready.clear()
                twin.ask_model(ada, [{"role": "user", "content": "more"}], 1)
                twin.finish(ada)
                disk.ready.set()
                await until(lambda: ada.turn not in twin.kernel.state.turns)
                assert len(twin.gateway.asked) == 2
            finally:
                disk.ready.set()

    asyncio.run(body())


def test_a_question_that_was_refused_costs_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = lambda request: {**BEGUN, "uncounted": False}
        await twin.spawn("ada", budget=Budget(money="0.02"))
        assert (await ask(twin, await turn_of(twin, "ada"), "x", 0))["status"] == "error"
        assert line(twin, "/user/ada", "money") == Line(20_000)

    on_twin(tmp_path, body)


def test_a_question_that_is_put_again_after_the_nodes_death_is_settled_once(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never
        await twin.spawn("ada", budget=Budget(money="0.02"))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: bool(twin.gateway.asked))
        assert line(twin, "/user/ada", "money").reserved

    on_twin(tmp_path, before)

    async def after(twin: Twin) -> None:
        """What it costs was declared otherwise since: it is settled at what it was put for."""
        priced(twin, **{"twin-1": Price(9_000_000_000, 9_000_000_000)})
        twin.gateway.answer = lambda request: used(100, 20)
        at = await twin.delivery()
        assert (await ask(twin, at, "x", 0))["status"] == "ok"
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=400)
        assert len(await twin.entries("budget.reserved")) == 1

    on_twin(tmp_path, after)

    async def once_more(twin: Twin) -> None:
        at = await twin.delivery()
        assert (await ask(twin, at, "x", 0))["status"] == "ok"
        assert twin.gateway.asked == []
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=400)

    on_twin(tmp_path, once_more)


@pytest.mark.parametrize(
    ("price", "status"),
    [(Price(1_000_000, 5_000_000), "ok"), (Price(9_000_000, 99_000_000), "error"), (None, "error")],
)
def test_a_question_that_goes_to_another_model_after_a_boot_is_reserved_at_what_that_costs(
    tmp_path: Path, price: Price | None, status: str
) -> None:
    async def before(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never
        await twin.spawn("ada", budget=Budget(money="0.02", then="refuse"))
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: bool(twin.gateway.asked))

    on_twin(tmp_path, before)

    async def after(twin: Twin) -> None:
        if price is not None:
            priced(twin, other=price)
        twin.gateway.answer = lambda request: used(100, 20)
        twin.gateway.resolve = lambda provider, model: ("twin", "other")  # type: ignore[method-assign]
        at = await twin.delivery()
        answer = await ask(twin, at, "x", 0)
        assert answer["status"] == status
        spent = price.of(100, 20) if price is not None and status == "ok" else 0
        assert line(twin, "/user/ada", "money") == Line(20_000, spent=spent)
        words = {
            "ok": "so",
            "error": "this question may cost" if price else "nothing says what twin/other costs",
        }
        assert words[status] in answer["text"]

    on_twin(tmp_path, after)


def test_a_childs_money_comes_out_of_its_parents_and_who_asks_pays_beside(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        priced(twin)
        twin.gateway.answer = lambda request: used(1_000, 100)
        await control(Spawning.spawn, "boss", tools=("send_message",), budget=Budget(money="0.1"))
        await control(
            Spawning.spawn, "kid", under="/user/boss", tools=(), budget=Budget(money="0.04", then="refuse")
        )
        assert line(twin, "/user/boss", "money") == Line(100_000, handed=40_000)
        with pytest.raises(Busy, match=r"/user/boss has 0\.06 money left, and cannot give 0\.07"):
            await control(Spawning.spawn, "two", under="/user/boss", tools=(), budget=Budget(money="0.07"))
        await twin.spawn("rich", budget=Budget(money="5"))
        at = await turn_of(twin, "boss")
        assert (await twin.call_tool(at, "send_message", {"to": "rich", "text": "work"}))["status"] == "ok"
        rich = await twin.delivery()
        assert (await ask(twin, rich, "so", 0))["status"] == "ok"
        assert line(twin, "/user/rich", "money").spent == line(twin, "/user/boss", "money").spent == 3_000
        [own] = await control(Budgets.grant, "/user/boss/kid", resource="money", amount=10_000)
        assert (own["granted"], own["left"]) == (50_000, 50_000)

    on_twin(tmp_path, body)


def test_a_process_whose_money_is_too_little_for_a_question_is_paused_until_there_is_more(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = lambda request: used(900, 800)
        await twin.spawn("ada", budget=Budget(money="0.01", then="pause"))
        at = await turn_of(twin, "ada")
        assert (await ask(twin, at, "hi", 0))["status"] == "ok"
        refused = await ask(twin, at, "hi", 1)
        assert (
            "/user/ada has 0.0002 of 0.01 units of money left, and this question alone may cost"
            in refused["text"]
        )
        await until(lambda: twin.kernel.state.slots["/user/ada"].suspended == "budget")
        await control_of(twin)(Budgets.grant, "ada", resource="money", amount=10_000)
        assert not twin.kernel.state.slots["/user/ada"].suspended

    on_twin(tmp_path, body)


def test_a_server_that_does_not_count_is_paid_for_about_what_it_said(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = lambda request: {**answer_of("y" * 900), "input_tokens": 0, "output_tokens": 0}
        await twin.spawn("ada", budget=Budget(money="1"))
        assert (await ask(twin, await turn_of(twin, "ada"), "hi", 0))["status"] == "ok"
        assert line(twin, "/user/ada", "money").spent >= 300 * 10

    on_twin(tmp_path, body)
