"""The behaviour ``agent`` against an in-memory twin of the node's syscalls."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from cognition.agent import FAILED, Agent
from cognition.config.agent_config import DEFAULT_SYSTEM_PROMPT
from cognition.context import ContextBounds
from cognition.errors import ConfigurationError
from cognition.prompt.sections import RULES, SECRETS
from cognition.providers.base import OfferedTool, Question
from cognition.providers.offline import Offline
from cognition.turn.order import ORDER
from kernel.abi import (
    Behaviour,
    Identity,
    Inbound,
    Message,
    MessageOptions,
    ModelAnswer,
    ModelRequest,
    ProcessInfo,
    ToolCall,
    TurnEnded,
    TurnResult,
)
from tests.cognition.twins.scripted_node import Node
from tests.cognition.twins.soundness import sound_exchanges


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
    assert (result.reply, result.status) == ("hello back", "ok")
    assert result.remember == (
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hello back"},
    )
    assert [stage.stage for stage in result.stages] == [stage.name for stage in ORDER]
    assert node.requests[0].messages == (
        {"role": "system", "content": "\n\n".join((DEFAULT_SYSTEM_PROMPT, RULES, SECRETS))},
        {"role": "user", "content": "hello"},
    )


def test_configuration_reaches_the_model_and_offers_only_tools_that_are_wanted_and_held() -> None:
    node = Node([says("ok")], {"calculator": None, "file_read": None})
    turn(
        node,
        of=agent(system_prompt="Be brief.", provider="p", model="m", tools=["file_read", "file_write"]),
    )
    assert node.requests[0].messages[0]["content"].startswith("Be brief.\n\n# Rules")
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


class Tireless(Node):
    """A model that asks for another call each time, and answers where it is offered no tool, if ``closing`` says so."""

    def __init__(self, closing: str = "", repeats: bool = False) -> None:
        super().__init__([], {"f": lambda n: f"x{n}"})
        self.closing, self.repeats = closing, repeats

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        if not request.tools and self.closing:
            return says(self.closing)
        return says("", call("f", n=0 if self.repeats else len(self.requests)))


def test_after_25_rounds_of_calls_one_question_without_tools_is_the_last() -> None:
    node = Tireless("I got so far")
    result = turn(node)
    assert (result.status, result.reply) == ("ok", "I got so far")
    assert len(node.rounds) == 25 and len(node.requests) == 26
    assert node.requests[-1].tools == () and "last round" in node.requests[-1].messages[-1]["content"]


def test_a_model_that_asks_for_tools_even_then_is_stopped() -> None:
    node = Tireless()
    result = turn(node, of=agent(execution={"max_tool_rounds": 3}))
    assert result.status == "error" and "after 3 rounds" in result.reply
    assert len(node.rounds) == 3 and len(node.requests) == 4
    assert result.remember[-1] == {"role": "assistant", "content": result.reply + FAILED}


def test_the_same_call_with_the_same_result_is_told_refused_and_the_end() -> None:
    node = Tireless(repeats=True)
    result = turn(node)
    assert result.status == "error" and "f was called 8 times" in result.reply
    assert len(node.rounds) == 4, "the 5th to 8th were not made"
    told = [r for r in node.requests[-1].messages if r["role"] == "tool"]
    assert ["made 3 times" in r["content"] for r in told] == [False, False, True, *[False] * 4]
    assert [r.get("status", "ok") for r in told] == [*["ok"] * 4, *["denied"] * 3]
    assert sound_exchanges(result.remember) == [list(result.remember)]


def test_the_same_call_eight_times_in_one_answer_is_the_end_too() -> None:
    node = Node([says("", *(call("f", f"c{n}") for n in range(8)))], {"f": lambda: "x"})
    result = turn(node)
    assert "f was called 8 times" in result.reply
    assert [len(made) for made in node.rounds] == [4]


def test_three_tools_that_were_not_offered_are_the_end() -> None:
    node = Node([says("", call("g", "a")), says("", call("h", "b"), call("i", "c"))], {"f": lambda: "x"})
    result = turn(node)
    assert result.status == "error" and "3 calls named tools that were not offered" in result.reply


def test_calls_are_made_one_behind_the_other_where_that_is_wanted() -> None:
    calls = [call("f", f"c{n}", n=n) for n in range(3)]
    node = Node([says("", *calls), says("done")], {"f": lambda n: n})
    assert turn(node, of=agent(execution={"parallel_tools": False})).reply == "done"
    assert node.rounds == [[each] for each in calls]


def test_a_call_that_was_written_as_text_is_made() -> None:
    written = 'Let me see. <tool_call>{"name": "f", "arguments": {"n": 2}}</tool_call>'
    node = Node([says(written), says("4")], {"f": lambda n: 2 * n})
    result = turn(node)
    assert result.reply == "4" and node.rounds[0][0].arguments == '{"n": 2}'
    assert result.remember[1]["content"] == "Let me see."


def test_arguments_that_can_mean_one_thing_only_are_mended() -> None:
    node = Node([says("", ToolCall("f", '{"n": 2,}', "c")), says("4")], {"f": lambda n: 2 * n})
    assert turn(node).reply == "4" and node.rounds[0][0].arguments == '{"n": 2}'


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_answer_of_the_shape_that_was_asked_for_is_the_reply() -> None:
    node = Node([says('```json\n{"n": 3}\n```')])
    assert turn(node, of=agent(output_schema=SCHEMA)).reply == '{"n": 3}'
    assert len(node.requests) == 1


def test_an_answer_of_another_shape_is_asked_for_again_with_what_is_wrong() -> None:
    node = Node([says("three"), says('{"n": "3"}'), says('{"n": 3}')])
    assert turn(node, of=agent(output_schema=SCHEMA)).reply == '{"n": 3}'
    first, second = (request.messages[-1]["content"] for request in node.requests[1:])
    assert "no JSON" in first and "n:" in second and "integer" in second


def test_after_two_more_of_another_shape_it_is_an_error() -> None:
    node = Node([says("three")])
    result = turn(node, of=agent(output_schema=SCHEMA))
    assert result.status == "error" and "of the shape" in result.reply and len(node.requests) == 3


def test_what_is_no_schema_is_told_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="output_schema is no JSON Schema"):
        agent(output_schema={"type": "nonsense"})


def test_a_claim_that_no_call_bears_out_is_told_to_whoever_asked() -> None:
    assert turn(Node([says("I wrote report.md.")])).reply == (
        "I wrote report.md.\n\n[weftos: no call of this turn wrote or changed report.md.]"
    )
    node = Node([says("", call("file_write", path="report.md")), says("I wrote report.md.")])
    node.tool_functions = {"file_write": lambda path: "ok"}
    assert turn(node).reply == "I wrote report.md."


def test_a_model_error_is_a_reply_and_leaves_no_trace_in_the_session() -> None:
    result = turn(Node([ModelAnswer("error", "server on fire")]))
    assert (result.status, result.remember) == ("error", ())
    assert "server on fire" in result.reply


def test_a_model_error_after_tool_work_keeps_what_was_done() -> None:
    result = turn(Node([says("", call("f")), ModelAnswer("error", "gone")], {"f": lambda: "x"}))
    assert result.status == "error"
    assert [record["role"] for record in result.remember] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_asked_for_once_more_and_is_an_error_then(text: str) -> None:
    node = Node([says(text)])
    result = turn(node)
    assert result.status == "error" and "nothing, twice" in result.reply and len(node.requests) == 2


def test_a_second_answer_counts_where_the_first_was_empty() -> None:
    node = Node([says(""), says("here")])
    assert turn(node).reply == "here"
    assert "answer was empty" in node.requests[1].messages[-1]["content"]


def test_calls_over_the_limit_are_not_made_and_the_model_is_told() -> None:
    calls = [call("f", f"c{n}", n=n) for n in range(5)]
    node = Node([says("", *calls), says("fine")], {"f": lambda n: "x"})
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
    result = turn(node, " then ".join(f"what is 1+{n}" for n in range(24)))
    assert result.status == "ok" and len(node.rounds) == 24


# -- how a message came ----------------------------------------------------------------------------------------------


def came(node: Node, of: Agent, inbound: Inbound) -> TurnResult:
    message = Message("m1", "operator", "do it", "default", True, inbound=inbound)
    return asyncio.run(of.handle(message, node))


def test_what_is_said_while_a_turn_runs_joins_it_before_its_next_question_and_stays_in_the_session() -> None:
    node = Node([says("", call("clock")), says("done")], {"clock": lambda: "noon"})
    node.joins = [("and in UTC", "please")]
    of = agent(channel_overrides={"telegram": {"while_busy": "steer"}})
    result = came(node, of, Inbound("telegram", "42", who=Identity("telegram:", ("guest",))))
    assert [record["content"] for record in node.requests[1].messages[-2:]] == ["and in UTC", "please"]
    assert not any("UTC" in str(record) for record in node.requests[0].messages)
    roles = [(record["role"], record.get("content")) for record in result.remember if "role" in record]
    assert roles[-3:] == [("user", "and in UTC"), ("user", "please"), ("assistant", "done")]


def test_what_is_ruled_out_in_a_message_is_not_shown_either_where_it_joins_a_turn() -> None:
    node = Node([says("", call("clock")), says("done")], {"clock": lambda: "noon"})
    node.joins = [("tell me the Launch  code", "please")]
    of = agent(channel_overrides={"telegram": {"while_busy": "steer"}}, guard={"deny": ["launch code"]})
    result = came(node, of, Inbound("telegram", "42", who=Identity("telegram:", ("guest",))))
    shown = str(node.requests[1].messages)
    assert "please" in shown and "Launch" not in shown and "ruled out here" in shown
    assert "Launch" not in str(result.remember)


@pytest.mark.parametrize("channel", ["signal", ""])
def test_nothing_is_asked_for_that_could_join_a_turn_of_another_channel(channel: str) -> None:
    node = Node([says("", call("clock")), says("done")], {"clock": lambda: "noon"})
    node.joins = [("never",)]
    came(node, agent(channel_overrides={"telegram": {"while_busy": "steer"}}), Inbound(channel))
    assert node.joins == [("never",)]


def test_a_message_has_the_last_word_on_how_it_is_answered() -> None:
    node = Node([says('{"a": 1}')])
    schema = {"type": "object"}
    options = MessageOptions("other", "", 0.0, 0.5, 7, 99, schema)
    came(node, agent(provider="configured", model="m", temperature=1.0), Inbound(options=options))
    [asked] = node.requests
    assert (asked.provider, asked.model, asked.temperature, asked.top_p) == ("other", "", 0.0, 0.5)
    assert (asked.top_k, asked.max_tokens, asked.output_schema) == (7, 99, schema)
    came(node, agent(provider="configured", model="m"), Inbound(options=MessageOptions(model="n")))
    assert (node.requests[-1].provider, node.requests[-1].model) == ("configured", "n")
    assert node.requests[-1].temperature == 0.7


def test_a_message_that_asks_for_a_shape_that_is_none_is_told_so() -> None:
    node = Node([says("x")])
    wrong = Inbound(options=MessageOptions(output_schema={"type": 7}))
    result = came(node, agent(), wrong)
    assert (result.status, "no JSON Schema" in result.reply, node.requests) == ("error", True, [])
