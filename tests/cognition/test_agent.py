"""The behaviour ``agent`` against an in-memory twin of the node's syscalls."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from cognition.agent import Agent
from cognition.config.agent_config import DEFAULT_SYSTEM_PROMPT
from cognition.context import ContextBounds
from cognition.errors import ConfigurationError
from cognition.providers.base import OfferedTool, Question
from cognition.providers.offline import Offline
from kernel.abi import (
    Behaviour,
    Message,
    ModelAnswer,
    ModelRequest,
    ProcessInfo,
    ToolCall,
    TurnEnded,
    TurnResult,
)
from tests.cognition.twins.scripted_node import Node


class OfflineNode(Node):
    """The same with the offline planner as its model."""

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        tools = tuple(OfferedTool(name, "", {}) for name in request.tools)
        question = Question(request.messages, tools)
        return await Offline().ask(question, Blind())


class Blind:
    def queued(self) -> None:
        raise AssertionError("nobody waits for a turn")

    def begun(self) -> None:
        raise AssertionError("nobody waits for a turn")

    def show(self, text: str) -> None:
        return

    def reset(self) -> None:
        return


def says(text: str, *calls: ToolCall) -> ModelAnswer:
    return ModelAnswer("ok", text, calls)


def call(name: str, ident: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments), ident)


def agent(bounds: ContextBounds | None = None, **config: Any) -> Agent:
    return Agent(ProcessInfo(7, "/user/a", "a", "agent", config), bounds)


def turn(node: Node, text: str = "do it", of: Agent | None = None) -> TurnResult:
    message = Message("m1", "operator", text, "default", True)
    return asyncio.run((of or agent()).handle(message, node))


def test_it_is_a_behaviour() -> None:
    assert isinstance(agent(), Behaviour)


def test_an_answer_without_tools_is_the_reply_and_both_are_remembered() -> None:
    node = Node([says("hello back")])
    result = turn(node, "hello")
    assert result == TurnResult(
        "hello back", ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello back"})
    )
    assert node.requests[0].messages == (
        {"role": "system", "content": DEFAULT_SYSTEM_PROMPT},
        {"role": "user", "content": "hello"},
    )


def test_configuration_reaches_the_model_and_offers_only_tools_that_are_wanted_and_held() -> None:
    node = Node([says("ok")], {"calculator": None, "file_read": None})
    turn(
        node,
        of=agent(system_prompt="Be brief.", provider="p", model="m", tools=["file_read", "file_write"]),
    )
    assert node.requests[0].messages[0] == {"role": "system", "content": "Be brief."}
    assert (node.requests[0].provider, node.requests[0].model) == ("p", "m")
    assert node.requests[0].tools == ("file_read",)


def test_without_a_list_every_held_tool_is_offered() -> None:
    node = Node([says("ok")], {"b": None, "a": None})
    turn(node, of=agent(tools=None))
    assert node.requests[0].tools == ("a", "b")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model": 7}, "model must be text"),
        ({"tools": "all"}, "tools must be a list"),
        ({"tools": [1]}, r"tools\[0\] must be text"),
    ],
)
def test_a_wrong_configuration_is_named_at_the_start(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        agent(**config)


def test_calls_of_one_answer_are_one_round_and_their_results_go_back_to_the_model() -> None:
    calls = (call("double", "x", n=2), call("double", "y", n=5))
    node = Node([says("Let me count.", *calls), says("4 and 10")], {"double": lambda n: 2 * n})
    result = turn(node)
    assert node.rounds == [list(calls)]
    asked, first, second = node.requests[1].messages[-3:]
    assert asked["content"] == "Let me count."
    assert [c["id"] for c in asked["tool_calls"]] == ["x", "y"]
    assert first == {"role": "tool", "tool_call_id": "x", "name": "double", "content": "4"}
    assert second["content"] == "10"
    assert result.reply == "4 and 10"
    assert [record["role"] for record in result.remember] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]


def test_each_request_of_a_turn_begins_with_the_one_before() -> None:
    node = Node([says("", call("f")), says("", call("f")), says("done")], {"f": lambda: "x"})
    node.records = [{"role": "user", "content": "old"}, {"role": "assistant", "content": "older"}]
    turn(node)
    messages = [request.messages for request in node.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(messages))


@pytest.mark.parametrize(
    ("proposed", "status"),
    [(ToolCall("nosuch", "{}", "c"), "denied"), (ToolCall("f", "{broken", "c"), "error")],
)
def test_a_refused_call_is_a_fact_for_the_model(proposed: ToolCall, status: str) -> None:
    node = Node([says("", proposed), says("I see")], {"f": lambda: "x"})
    assert turn(node).reply == "I see"
    assert node.requests[1].messages[-1]["status"] == status


def test_tool_calls_for_ever_end_after_25_rounds() -> None:
    node = Node([says("", call("f"))], {"f": lambda: "x"})
    result = turn(node)
    assert result.status == "error" and "25 rounds" in result.reply
    assert len(node.rounds) == len(node.requests) == 25
    assert result.remember[-1] == {"role": "assistant", "content": result.reply}


def test_a_model_error_is_a_reply_and_leaves_no_trace_in_the_session() -> None:
    result = turn(Node([ModelAnswer("error", "server on fire")]))
    assert (result.status, result.remember) == ("error", ())
    assert "server on fire" in result.reply


def test_a_model_error_after_tool_work_keeps_what_was_done() -> None:
    result = turn(Node([says("", call("f")), ModelAnswer("error", "gone")], {"f": lambda: "x"}))
    assert result.status == "error"
    assert [record["role"] for record in result.remember] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_an_error_reply(text: str) -> None:
    result = turn(Node([says(text)]))
    assert result.status == "error" and "nothing" in result.reply


def test_calls_over_the_limit_are_not_made_and_the_model_is_told() -> None:
    calls = [call("f", f"c{n}") for n in range(5)]
    node = Node([says("", *calls), says("fine")], {"f": lambda: "x"})
    turn(node, of=agent(ContextBounds(calls_per_round=3)))
    assert len(node.rounds[0]) == 3
    results = node.requests[1].messages[-5:]
    assert [record.get("status", "ok") for record in results] == ["ok", "ok", "ok", "denied", "denied"]
    assert "at most 3 calls" in results[-1]["content"]


def test_a_turn_that_grows_without_end_is_ended() -> None:
    node = Node([says("", call("f"))], {"f": lambda: "x" * 1000})
    result = turn(node, of=agent(ContextBounds(turn_bytes=3000)))
    assert result.status == "error" and "3000 bytes" in result.reply
    assert len(node.rounds) == 3


def test_a_huge_answer_is_shortened_to_what_a_reply_may_hold() -> None:
    result = turn(Node([says("é" * 300_000)]))
    assert len(result.reply.encode()) <= ContextBounds().reply_bytes
    assert result.reply.endswith("[shortened]")


def test_the_end_of_a_turn_passes_through() -> None:
    class Ending(Node):
        async def ask_model(self, request: ModelRequest) -> ModelAnswer:
            raise TurnEnded("cancelled")

    with pytest.raises(TurnEnded):
        turn(Ending([]))


def test_with_the_offline_planner_steps_build_on_each_other() -> None:
    files: dict[str, str] = {"notes.txt": "one\ntwo\n"}
    node = OfflineNode(
        [],
        {
            "calculator": lambda expression: {"17*23": 391, "(391)+1": 392}[expression],
            "file_write": lambda path, content: files.__setitem__(path, content),
            "file_read": lambda path: files[path],
        },
    )
    result = turn(
        node,
        "what is 17*23 then what is it+1, then write it to f.txt then read notes.txt and tell me how many lines",
    )
    assert files["f.txt"] == "392"
    assert result.reply == (
        "17*23 = 391\n(391)+1 = 392\nWrote 3 characters to f.txt.\nnotes.txt has 2 lines."
    )
    assert [calls[0].name for calls in node.rounds] == ["calculator", "calculator", "file_write", "file_read"]


def test_twenty_four_offline_steps_fit_into_one_turn() -> None:
    node = OfflineNode([], {"calculator": lambda expression: "2"})
    result = turn(node, " then ".join(["what is 1+1"] * 24))
    assert result.status == "ok" and len(node.rounds) == 24
