"""Which tools a question offers, all at once or on demand."""

from __future__ import annotations

import asyncio

from cognition.config.agent_config import AgentConfig, ExecutionConfig
from cognition.config.tools_config import ToolConfig
from cognition.stages.execute import execute
from cognition.stages.tool_split import tool_split
from cognition.turn.outcome import Continue
from kernel.abi import ModelAnswer, ToolCall
from tests.cognition.twins.scripted_node import Node, begun_turn

TOOLS = {name: lambda **arguments: "done" for name in ("ask", "file_read", "file_write", "look")}


def split(node: Node, config: AgentConfig) -> Continue:
    outcome = asyncio.run(tool_split(begun_turn("hi", node, config)))
    assert isinstance(outcome, Continue)
    return outcome


def test_what_does_not_fit_beside_the_answer_is_left_out_and_nothing_is_text_only() -> None:
    node = Node([], TOOLS)
    node.sizes = {"ask": 100, "file_read": 300, "file_write": 100, "look": 50}
    narrow = AgentConfig(context_window=1_300, max_tokens=300)
    assert split(node, narrow).turn.tools == ("ask", "file_write", "look")
    assert split(node, AgentConfig(context_window=9_000)).turn.tools == tuple(TOOLS)
    assert split(node, AgentConfig()).turn.tools == tuple(TOOLS)
    listed = AgentConfig(tools={"allow": ("look", "file_*"), "file_write": ToolConfig(enabled=False)})
    assert split(node, listed).turn.tools == ("look", "file_read")
    none = split(node, AgentConfig(tools=()))
    assert none.turn.tools == () and none.why == "text only: no tool may be offered"


def test_tools_are_loaded_by_the_model_and_the_node_hears_of_those_calls_alone() -> None:
    answers = [
        ModelAnswer("ok", "", (ToolCall("load_tools", '{"groups": ["file"]}', "1"),)),
        ModelAnswer(
            "ok", "", (ToolCall("file_read", "{}", "2"), ToolCall("load_tools", '{"groups": ["look"]}', "3"))
        ),
        ModelAnswer("ok", "There it is."),
    ]
    node, config = Node(answers, TOOLS), AgentConfig(execution=ExecutionConfig(load_tools=True))
    begun = split(node, config).turn
    assert begun.tools == ("load_tools",)
    outcome = asyncio.run(execute(begun))
    assert isinstance(outcome, Continue) and outcome.turn.reply is not None
    assert outcome.turn.reply.text == "There it is."
    assert [request.tools for request in node.requests] == [
        ("load_tools",),
        ("load_tools", "file_read", "file_write"),
        ("load_tools", "file_read", "file_write", "look"),
    ]
    assert "Groups: ask; file (file_read, file_write); look" in str(node.requests[0].messages)
    assert [call.name for round_ in node.rounds for call in round_] == ["file_read"]
    few = Node([], {"ask": TOOLS["ask"], "look": TOOLS["look"]})
    assert split(few, config).turn.tools == ("ask", "look")
