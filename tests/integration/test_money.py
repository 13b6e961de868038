"""What agents spend at a model server over HTTP, with the death of the node in between, as a person sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.budget.price import Price
from kernel.operations.rights.budgets import Budget
from tests.integration.conftest import NodeMaker
from tests.integration.live_node import WAIT_S, LiveNode, until

PRICE = Price(2_000_000, 10_000_000, 500_000)
PRICES = "".join(
    f'[providers.scripted.prices.{model}]\ninput = "2"\noutput = "10"\ncached = "0.5"\n'
    for model in ("five-calls", "kept", "endless")
)


@pytest.fixture
def dear(new_node: NodeMaker) -> Iterator[LiveNode]:
    """A node whose configuration says what some models cost."""
    node = new_node(extra=PRICES)
    node.up()
    yield node
    node.down()


def lines(node: LiveNode, name: str) -> dict[str, Any]:
    return {row["resource"]: row for row in node.api.budgets.show(name)}


def spent(node: LiveNode, name: str, after: int = -1) -> int:
    """What the answers to a process come to, as the ledger has them."""
    pid = node.row(name)["pid"]
    answers = [
        one for one in node.entries("model.answered") if one["entry_pid"] == pid and one["seq"] > after
    ]
    return sum(PRICE.of(one["input_tokens"], one["output_tokens"], one["cached_tokens"]) for one in answers)


def test_what_models_cost_is_spent_once_over_the_death_of_the_node(dear: LiveNode) -> None:
    made = ("--provider", "scripted", "--model")
    status, _, err = dear.command("spawn", "ada", *made, "five-calls", "--budget", "money=0.5")
    assert status == 0, err
    assert dear.api.send("ada", "go", wait_s=WAIT_S)["status"] in ("ok", "error")
    money = lines(dear, "ada")["money"]
    assert money["spent"] == spent(dear, "ada") > 0 and money["reserved"] == 0
    status, out, _ = dear.command("budget", "show", "ada")
    assert status == 0 and "money" in out and " 0.5 " in out

    dear.api.spawn("bob", provider="scripted", model="kept", tools=(), budget=Budget(money="0.5"))
    assert dear.api.send("bob", "go", wait_s=WAIT_S)["status"] == "ok"
    assert lines(dear, "bob")["money"]["spent"] == PRICE.of(10, 4, 6) == 51

    dear.api.spawn("eve", provider="scripted", model="endless", tools=(), budget=Budget(money="0.5"))
    message = str(dear.api.send("eve", "go")["message"])
    reserved = until(lambda: lines(dear, "eve")["money"]["reserved"], "a question is put")
    turn = f"t{message[1:]}"
    until(
        lambda: [one for one in dear.entries("budget.reserved") if one["turn"] == turn], "that is on the disk"
    )
    dear.kill()
    dear.up()
    again = lines(dear, "eve")["money"]
    assert (again["reserved"], again["spent"]) == (reserved, 0)
    assert lines(dear, "ada")["money"] == money
    until(lambda: dear.row("eve")["state"] == "running", "it goes on")
    dear.api.cancel("eve", message=message)
    until(lambda: dear.ended(message), "the turn ends")
    assert lines(dear, "eve")["money"]["spent"] == reserved
    dear.kill()
    dear.up()
    assert lines(dear, "eve")["money"]["spent"] == reserved
    assert lines(dear, "bob")["money"]["spent"] == 51

    status, out, err = dear.command("budget", "grant", "bob", "money", "0.25", "--json")
    assert status == 0, err
    [row] = [row for row in json.loads(out) if row["resource"] == "money"]
    assert row["granted"] == 750_000
    status, _, err = dear.command("budget", "grant", "bob", "money", "much")
    assert status != 0 and "is no amount of money" in err


def test_a_model_of_which_nobody_has_said_the_price_is_not_asked(dear: LiveNode) -> None:
    dear.api.spawn("ada", provider="scripted", model="nothing", tools=(), budget=Budget(money="0.5"))
    answer = dear.api.send("ada", "go", wait_s=WAIT_S)
    assert answer["status"] == "error"
    assert (
        "nothing says what scripted/nothing costs: declare its price in the node's configuration"
        in answer["reply"]
    )
    dear.api.spawn("off", tools=("calculator",), budget=Budget(money="0.5"))
    assert dear.api.send("off", "1+1", wait_s=WAIT_S)["status"] == "ok"
    assert lines(dear, "off")["money"]["spent"] == 0
