"""The agent and its providers: who is asked when one fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cognition.agent import Agent
from cognition.config.agent_config import PipelineConfig
from cognition.stages.table import agent_builder
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome
from kernel.abi import ErrorKind, Message, ModelAnswer, ModelRequest, ProcessInfo
from tests.cognition.test_agent import agent, call, says, turn
from tests.cognition.twins.scripted_node import Node


class Providers(Node):
    """Of each provider what is wrong with it; empty: it answers."""

    def __init__(self, **kinds: ErrorKind) -> None:
        super().__init__([], {"f": lambda: "x"})
        self.kinds = kinds

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        kind = self.kinds[request.provider]
        if kind:
            return ModelAnswer("error", f"{request.provider} failed", error_kind=kind)
        done = any(message["role"] == "tool" for message in request.messages)
        return says(f"from {request.provider}") if done else says("", call("f"))

    @property
    def asked(self) -> list[str]:
        return [request.provider for request in self.requests]


CHAIN: dict[str, Any] = {"provider": "a", "failover": {"fallback_order": ["b", "c/m"], "retry_delay_ms": 0}}


def test_two_that_fail_give_way_to_a_third_for_the_rest_of_the_turn() -> None:
    node = Providers(a="server", b="auth", c="")
    result = turn(node, of=agent(**CHAIN))
    assert (result.status, result.reply) == ("ok", "from c")
    assert node.asked == ["a", "a", "a", "b", "c", "c"]
    assert node.requests[-1].model == "m"
    assert {
        tuple(request.messages[:2]) == tuple(node.requests[0].messages[:2]) for request in node.requests
    } == {True}


def test_without_the_machine_the_gateway_is_left_to_try_again() -> None:
    node = Providers(a="server", b="", c="")
    config = {**CHAIN, "failover": {**CHAIN["failover"], "enabled": False}}
    result = turn(node, of=agent(**config))
    assert result.status == "error" and node.asked == ["a"] and node.requests[0].retry


@pytest.mark.parametrize("skip", [["failover_decide"], []])
def test_the_stage_can_be_left_out(skip: list[str]) -> None:
    node = Providers(a="auth", b="", c="")
    assert (turn(node, of=agent(**CHAIN, pipeline={"skip_stages": skip})).status == "error") == bool(skip)


def test_when_nobody_answers_the_reply_says_who_was_asked() -> None:
    node = Providers(a="auth", b="auth", c="auth")
    result = turn(node, of=agent(**CHAIN))
    assert result.status == "error" and "tried a: auth, b: auth, c/m: auth" in result.reply


def test_an_agent_s_ways_of_drawing_an_answer_reach_the_model() -> None:
    node = Node([says("ok")])
    turn(node, of=agent(temperature=0.1, top_p=0.5, top_k=3, max_tokens=77, output_schema=None))
    [asked] = node.requests
    assert (asked.temperature, asked.top_p, asked.top_k, asked.max_tokens) == (0.1, 0.5, 3, 77)
    node = Node([says("ok")])
    turn(node)
    [asked] = node.requests
    assert (asked.temperature, asked.top_p, asked.top_k, asked.max_tokens) == (0.7, 0.95, 40, 4_096)


def test_why_an_answer_ended_is_handled_by_its_name() -> None:
    assert turn(Node([ModelAnswer("ok", "half", stop_reason="length")])).reply.startswith(
        "half\n\n[weftos: the answer was cut"
    )
    assert "limit of tokens before" in turn(Node([ModelAnswer("ok", "", stop_reason="length")])).reply
    refused = turn(Node([ModelAnswer("ok", "ha", stop_reason="content_filter")]))
    assert refused.status == "error" and "content filter" in refused.reply


def test_where_a_tier_was_found_its_models_are_asked_and_not_those_of_the_configuration() -> None:
    async def found(turn: AgentTurn) -> Outcome:
        return Continue(replace(turn, provider="a", model="m", tier="free", fallbacks=("c/m",)))

    node = Providers(a="auth", b="", c="")
    info = ProcessInfo(7, "/user/a", "a", "agent", {"failover": {"fallback_order": ["b"]}})
    stages = agent_builder(PipelineConfig()).replaced("route", found)
    message = Message("m1", "operator", "do it", "default", True)
    result = asyncio.run(Agent(info, pipeline=stages).handle(message, node))
    assert result.reply == "from c" and node.asked == ["a", "c", "c"]
