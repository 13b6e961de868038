"""Caps of cost on the way of a question: reserved before it is put, settled by its answer, never exceeded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kernel.budget.price import NOTHING, Price
from kernel.budget.spending import DAY_US, Cap, CostCaps, Spent, day_of
from kernel.cell.protocol import ModelOptions, Quoting
from kernel.cells.cell_events import CellAsked, CellCall
from kernel.operations.rights.budgets import Budgets
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_budgets import turn_of
from tests.kernel.turn.test_budgets_of_money import PRICE, never, priced, used
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin

MODEL = "twin/twin-1"
SHORT = ModelOptions(max_tokens=100)
TODAY_US = 20_000 * DAY_US


def put(twin: Twin, at: Delivery, round_: int = 0) -> None:
    twin.ask_model(at, [{"role": "user", "content": "x" * 300}], round_, options=SHORT)


def spent(twin: Twin, scope: str) -> Spent:
    return twin.kernel.state.accounts.book.spending.of(scope, day_of(twin.ledger.now_us()))


def caps(**given: Cap) -> CostCaps:
    tiers = {"premium": given["premium"]} if "premium" in given else {}
    senders = {"*": given["everybody"]} if "everybody" in given else {}
    return CostCaps(tiers, senders, {MODEL: "premium"})


def test_twenty_at_once_on_one_cap_never_exceed_it(tmp_path: Path) -> None:
    """A question may cost some 0.0014 (about 216 tokens read, 100 written): of 0.01 there is room for six."""
    free, answers = asyncio.Event(), []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await free.wait()
        return used(100, request["max_tokens"])

    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = answer
        for number in range(20):
            await twin.spawn(f"a{number}")
            await twin.send(f"a{number}")
        for at in [await twin.delivery() for _ in range(20)]:
            put(twin, at)
        reserved = [one.body for one in await twin.entries("budget.reserved")]
        assert {tuple(one["scopes"]) for one in reserved} == {("tier premium",)}
        await until(lambda: len(twin.gateway.asked) == len(reserved))
        assert len(reserved) == 10_000 // reserved[0]["money"]
        assert spent(twin, "tier premium").today == sum(one["money"] for one in reserved) <= 10_000
        free.set()
        answers.extend([await twin.result() for _ in range(20)])
        refused = [one for one in answers if one["status"] == "error"]
        assert len(refused) == 20 - len(reserved) and {one["error_kind"] for one in refused} == {"capped"}
        assert refused[0]["text"].startswith("cap: tier premium may cost 0.01 a day, ")
        assert spent(twin, "tier premium").today == len(reserved) * PRICE.of(100, 100)
        [row] = await control_of(twin)(Budgets.caps)
        assert (row["scope"], row["today"], row["daily"], row["monthly"]) == (
            "tier premium",
            len(reserved) * PRICE.of(100, 100),
            10_000,
            None,
        )

    on_twin(tmp_path, body, caps=caps(premium=Cap(10_000)))


def test_a_node_that_dies_over_a_question_has_it_reserved_and_settles_it_once(tmp_path: Path) -> None:
    limits = caps(everybody=Cap(None, 3_000))

    async def before(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never
        await twin.spawn("ada")
        put(twin, await turn_of(twin, "ada"))
        await until(lambda: bool(twin.gateway.asked))

    on_twin(tmp_path, before, caps=limits)

    async def after(twin: Twin) -> None:
        priced(twin)
        held = spent(twin, "sender operator").month
        assert 1_000 < held <= 3_000
        twin.gateway.answer = lambda request: used(100, 20)
        at = await twin.delivery()
        put(twin, at)
        assert (await twin.result())["status"] == "ok"
        assert spent(twin, "sender operator").month == PRICE.of(100, 20)
        assert len(await twin.entries("budget.reserved")) == 1

    on_twin(tmp_path, after, caps=limits)

    async def changed(twin: Twin) -> None:
        """What was spent is on record, whatever the configuration says by now."""
        priced(twin)
        at = await twin.delivery()
        put(twin, at)
        assert (await twin.result())["status"] == "ok" and twin.gateway.asked == []
        put(twin, at, 1)
        refused = await twin.result()
        assert refused["text"].startswith(
            "cap: sender operator may cost 0.0005 a day, 0.0001 of it left until "
        )

    on_twin(tmp_path, changed, caps=caps(everybody=Cap(500)))


def test_what_nobody_hears_of_is_spent_and_a_new_day_begins_with_nothing(tmp_path: Path) -> None:
    now_us = [TODAY_US]

    async def body(twin: Twin) -> None:
        priced(twin)
        twin.gateway.answer = never
        await twin.spawn("ada")
        at = await turn_of(twin, "ada")
        put(twin, at)
        await until(lambda: bool(twin.gateway.asked))
        held = spent(twin, "tier premium").today
        twin.finish(at)
        await until(lambda: at.turn not in twin.kernel.state.turns)
        assert spent(twin, "tier premium").today == held
        twin.gateway.answer = lambda request: used(100, 20)
        again = await turn_of(twin, "ada")
        put(twin, again)
        assert (await twin.result())["error_kind"] == "capped"
        now_us[0] += DAY_US
        put(twin, again, 1)
        assert (await twin.result())["status"] == "ok"
        now_us[0] -= DAY_US
        put(twin, again, 2)
        assert (await twin.result())["status"] == "ok"
        assert spent(twin, "tier premium") == Spent(
            20_001, 2 * PRICE.of(100, 20), held + 2 * PRICE.of(100, 20)
        )

    on_twin(tmp_path, body, caps=caps(premium=Cap(2_000)), now_us=lambda: now_us[0])


def test_a_model_without_a_price_is_refused_and_what_costs_nothing_is_not_counted(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        at = await turn_of(twin, "ada")
        put(twin, at)
        refused = await twin.result()
        assert refused["error_kind"] == "capped"
        assert refused["text"].startswith(
            "budget: tier premium has a cap of cost, and nothing says what twin/twin-1 costs"
        )
        priced(twin, **{"twin-1": NOTHING})
        put(twin, at, 1)
        assert (await twin.result())["status"] == "ok"
        assert await twin.entries("budget.reserved") == []

    on_twin(tmp_path, body, caps=caps(premium=Cap(0)))


def test_a_quote_says_what_there_is_no_room_for_and_is_told_again_as_it_was(tmp_path: Path) -> None:
    def quote(twin: Twin, at: Delivery) -> None:
        asked = Quoting(("twin/dear", "twin/cheap"), 100, 100)
        twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "quote", asked)))

    limits = CostCaps({"premium": Cap(10_000)}, {}, {"twin/dear": "premium", "twin/cheap": "free"})
    told: list[dict[str, Any]] = []

    async def body(twin: Twin) -> None:
        prices = {"dear": Price(0, 10**9), "cheap": Price(1, 1)}
        priced(twin, **prices)
        await twin.spawn("ada")
        quote(twin, await turn_of(twin, "ada"))
        told.append(await twin.result())
        assert told[0]["against"][0].startswith(
            "cap: tier premium may cost 0.01 a day, 0.01 of it left until "
        )
        assert (told[0]["against"][1], told[0]["number"]) == ("", 0)

    on_twin(tmp_path, body, caps=limits)

    async def resumed(twin: Twin) -> None:
        at = await twin.delivery()
        quote(twin, at)
        assert await twin.result() == told[0]
        twin.finish(at)

    on_twin(tmp_path, resumed)
