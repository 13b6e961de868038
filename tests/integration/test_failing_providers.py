"""Two agents of ten calls each, two providers that fail in different ways in mid-turn, and one that does not."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from kernel.budget.price import Price
from tests.integration.live_node import WAIT_S, LiveNode
from weftos import Client

PRICE = Price(2_000_000, 10_000_000, 2_000_000)
OVERLOADED, CUT, GOOD = "whole/overloaded-later", "single/cut-later", "scripted/ten-calls"
EXTRA = "".join(
    f'[providers.{place.replace("/", ".prices.")}]\ninput = "2"\noutput = "10"\n'
    for place in (OVERLOADED, CUT, GOOD)
)
WAYS = {"ada": (OVERLOADED, CUT, GOOD), "bob": (CUT, OVERLOADED, GOOD)}
"""The one answers three rounds of calls and is overloaded then, the other answers six and breaks off in mid-stream."""
ASKED = {
    "ada": [
        (OVERLOADED, "", 3),
        (OVERLOADED, "server", 3),
        (CUT, "", 3),
        (CUT, "transport", 3),
        (GOOD, "", 5),
    ],
    "bob": [(CUT, "", 6), (CUT, "transport", 3), (OVERLOADED, "server", 3), (GOOD, "", 5)],
}
"""Who is asked how often in a row, and with which error."""


def spawn(node: LiveNode, name: str) -> None:
    first, *others = WAYS[name]
    provider, _, model = first.partition("/")
    told = ["--provider", provider, "--model", model, "--tools", "calculator"]
    for said in (f"failover.fallback_order={json.dumps(others)}", "failover.retry_delay_ms=1"):
        told += ["--set", said]
    status, _, err = node.command("spawn", name, *told)
    assert status == 0, err


def runs(calls: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Questions in a row that were put to the same and came out the same."""
    told = [(f"{call['provider']}/{call['model']}", call["error_kind"]) for call in calls]
    return [(*of, len(list(row))) for of, row in groupby(told)]


def test_who_fails_in_mid_turn_is_replaced_and_what_it_took_is_told(node: LiveNode) -> None:
    for name in WAYS:
        spawn(node, name)

    def work(name: str) -> dict[str, Any]:
        with Client(node.data) as client:
            return dict(client.send(name, "go", wait_s=WAIT_S))

    with ThreadPoolExecutor(len(WAYS)) as pool:
        answers = dict(zip(WAYS, pool.map(work, WAYS), strict=True))
    for name, answer in answers.items():
        assert (answer["status"], answer["reply"]) == ("ok", "All ten are done.")
        in_ledger = [one for one in node.entries("model.answered") if one["turn"] == answer["turn"]]
        assert runs(in_ledger) == ASKED[name]
        costs = [one["cost_millionths"] for one in in_ledger]
        counted = [PRICE.of(one["input_tokens"], one["output_tokens"], 0) for one in in_ledger]
        unknown = [one["error_kind"] == "transport" for one in in_ledger]
        assert costs == [-1 if lost else cost for cost, lost in zip(counted, unknown, strict=True)]
        assert all(counted[n] > 0 for n, one in enumerate(in_ledger) if one["status"] == "ok")

        metadata = answer["metadata"]
        assert f"{metadata['provider']}/{metadata['model']}" == GOOD
        assert (metadata["fallback_attempts"], metadata["tool_calls"], metadata["tool_rounds"]) == (6, 10, 10)
        assert (metadata["cost_millionths"], metadata["cost_unknown"]) == (sum(counted), 3)
        assert "completion 1.00, efficiency 0.14" in metadata["score"]
        *_, last = node.api.turns.events(answer["turn"])
        assert (last["event"], last["data"]["metadata"]) == ("response_complete", metadata)

        trace = json.loads(node.command("trace", "--pid", name, "--json")[1])
        assert runs(trace["model_calls"]) == ASKED[name]
        assert [call["status"] for call in trace["tool_calls"]] == ["ok"] * 10
        told = [call["cost_millionths"] for call in trace["model_calls"]]
        assert told == [None if lost else cost for cost, lost in zip(counted, unknown, strict=True)]
        shown = node.command("trace", "--pid", name)[1]
        assert "ok, 10 tokens read, 0 written, cost 0.00002" in shown
        assert "single cut-later" in shown and "error (transport)" in shown and "error (server)" in shown
        assert "6 questions not answered; answered by scripted ten-calls" in shown
