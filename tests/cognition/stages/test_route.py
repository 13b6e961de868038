"""The stages ``classify`` and ``route`` in an agent's turn, against the twin of the node."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from cognition.agent import Agent
from cognition.config.agent_config import AgentConfig
from cognition.config.check import parse
from cognition.config.routing_config import ToldRouting
from cognition.routing.router import Router
from cognition.stages.classify import classify
from cognition.stages.route import route
from cognition.turn.agent_turn import UNKNOWN_COMPLEXITY, AgentTurn
from cognition.turn.outcome import Abort, Continue, Skip
from kernel.abi import Message, ModelAnswer, ProcessInfo, TurnResult, ValueName
from tests.cognition.twins.scripted_node import Node, begun_turn

TOLD: dict[str, Any] = {
    "tiers": [{"name": "free", "models": ["p/small"]}, {"name": "premium", "models": ["p/large", "q/other"]}],
    "permissions": {"roles": {"agent": "free"}},
    "models": [{"name": "p/large", "context_window": 64_000}],
}


class Drawing(Node):
    """It counts what is asked of chance, and keeps what is logged."""

    def __init__(self) -> None:
        super().__init__([ModelAnswer("ok", "done")])
        self.drawn: list[ValueName] = []
        self.logged: list[str] = []

    async def value(self, name: ValueName) -> int:
        self.drawn.append(name)
        return 4

    def log(self, text: str) -> None:
        self.logged.append(text)


def routed(told: dict[str, Any] | None, turn: AgentTurn) -> AgentTurn | Skip | Abort:
    router = None if told is None else Router(parse(ToldRouting, told, "routing"))
    outcome = asyncio.run(route(replace(turn, router=router)))
    assert isinstance(outcome, Continue | Skip | Abort)
    return outcome.turn if isinstance(outcome, Continue) else outcome


def handled(config: dict[str, Any], text: str, node: Node, sender: str = "operator") -> TurnResult:
    agent = Agent(ProcessInfo(7, "/user/a", "a", "agent", config))
    return asyncio.run(agent.handle(Message("m1", sender, text, "default", True), node))


def test_a_message_has_a_type_and_a_complexity_and_the_trace_says_why() -> None:
    outcome = asyncio.run(classify(begun_turn("Write a poem about the sea")))
    assert isinstance(outcome, Continue)
    assert outcome.turn.task_type == "creative" and 0 <= outcome.turn.complexity < 0.4
    assert outcome.why.startswith("creative (")


def test_without_the_stage_a_task_counts_as_one_in_the_middle() -> None:
    turn = begun_turn("hello")
    assert turn.complexity == UNKNOWN_COMPLEXITY
    found = routed(TOLD, turn)
    assert isinstance(found, AgentTurn) and found.tier == "premium"


def test_the_model_of_the_tier_is_asked_and_the_others_are_kept_for_later() -> None:
    found = routed(TOLD, replace(begun_turn(), complexity=0.5))
    assert isinstance(found, AgentTurn)
    assert (found.provider, found.model) == ("p", "large")
    assert (found.tier, found.context_window, found.fallbacks) == ("premium", 64_000, ("q/other", "p/small"))


def test_static_routing_leaves_the_turn_as_it_is() -> None:
    assert routed(None, begun_turn()) == Skip("static: the provider and model of the configuration")


def test_a_model_that_the_configuration_names_is_not_chosen_again() -> None:
    named = AgentConfig(provider="p", model="own")
    assert routed(TOLD, begun_turn(config=named)) == Skip("the configuration names p/own")


def test_where_no_model_may_be_asked_the_sender_is_told_why() -> None:
    nothing = {**TOLD, "permissions": {"deny": ["*"]}}
    outcome = routed(nothing, begun_turn())
    assert isinstance(outcome, Abort)
    assert outcome.error.startswith("No model may be asked: complexity 0.50 wants premium")


def test_chance_is_asked_of_the_node_and_only_where_a_tier_wants_it() -> None:
    node = Drawing()
    routed(TOLD, begun_turn(node=node))
    assert node.drawn == []
    tiers = [{"name": "premium", "models": ["p/a", "p/b"], "selection": "random"}]
    routed({"tiers": tiers}, begun_turn(node=node))
    assert node.drawn == ["random"]


def test_the_node_is_asked_for_a_quote_where_there_are_caps_or_models_take_turns() -> None:
    node = Drawing()
    routed(TOLD, begun_turn(node=node))
    assert node.quoted == []
    node.against = {"p/large": "cap: none left", "q/other": "cap: none left"}
    down = routed({**TOLD, "capped": True}, begun_turn(node=node))
    assert isinstance(down, AgentTurn) and (down.tier, down.model, down.fallbacks) == ("free", "small", ())
    assert node.quoted == [("p/large", "q/other", "p/small")]
    tiers = [{"name": "premium", "models": ["p/a", "p/b"], "selection": "round_robin"}]
    found = [routed({"tiers": tiers}, begun_turn(node=node)) for _ in range(3)]
    assert [each.model for each in found if isinstance(each, AgentTurn)] == ["a", "b", "a"]


def test_an_agent_asks_a_cheaper_model_for_a_greeting_than_for_long_work_and_says_so() -> None:
    node = Drawing()
    handled({"routing": TOLD}, "hi there", node)
    hard = (
        "Design and implement a distributed rate limiter library in Rust. It must support several algorithms, then "
        "write property tests for each, then benchmarks with criterion, and finally documentation. Every endpoint must "
        "be covered, without unsafe code, and the architecture should be justified step by step. " * 3
    )
    handled({"routing": TOLD}, hard, node)
    assert [(asked.provider, asked.model) for asked in node.requests] == [("p", "small"), ("p", "large")]
    assert (
        node.logged[0].startswith("route: complexity 0.")
        and "p/small of free by preference" in node.logged[0]
    )
    handled({"routing": TOLD}, hard, node, sender="/user/b")
    assert node.requests[-1].model == "small"


def test_a_turn_that_may_ask_nobody_asks_nobody() -> None:
    node = Drawing()
    result = handled({"routing": {**TOLD, "permissions": {"allow": []}}}, "hello", node)
    assert result.status == "error" and result.reply.startswith("No model may be asked")
    assert node.requests == []


def test_without_the_stage_the_configured_model_is_asked() -> None:
    node = Drawing()
    handled({"routing": TOLD, "pipeline": {"skip_stages": ["route"]}}, "hello", node)
    assert node.requests[0].model == ""
