"""A cell's calls: how a question to a model is told, and told again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgpack
import pytest

from kernel.abi import (
    Down,
    Linked,
    Message,
    ModelAnswer,
    ModelRequest,
    Monitored,
    Quote,
    ToolCall,
    ToolResult,
    TurnEnded,
)
from kernel.cell.link.frames import FrameError
from kernel.cell.protocol import MonitorRemoved, ToolOutcome, Trapped, Value
from kernel.cell.syscalls import CellSyscalls
from kernel.shapes import ShapeError, told

ANSWER = told(ModelAnswer("ok", "hm"))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(*messages: dict[str, Any]) -> ModelRequest:
    return ModelRequest(messages, ("ask",), "p", "m")


def test_a_question_goes_on_from_the_one_before_and_can_be_said_whole() -> None:
    async def body() -> None:
        sent: list[Any] = []
        calls = CellSyscalls(7, "t1", [], [], sent.append)
        first, changing = user("one"), user("two")
        asked = asyncio.ensure_future(calls.ask_model(request(first)))
        await asyncio.sleep(0)
        calls.say_whole(0, 0)  # it was
        calls.resolve(0, 0, ANSWER)
        assert (await asked).text == "hm"
        asked = asyncio.ensure_future(calls.ask_model(request(first, changing)))
        await asyncio.sleep(0)
        changing["content"] = "changed meanwhile"
        calls.say_whole(1, 0)
        calls.resolve(1, 0, ANSWER)
        await asked
        calls.say_whole(1, 0)  # it has its answer
        assert [frame[:6] for frame in sent] == [
            ["call", 7, "t1", round_, 0, "model"] for round_ in (0, 1, 1)
        ]
        whole, told, again = (frame[6] for frame in sent)
        rest = {
            "tools": ["ask"],
            "provider": "p",
            "model": "m",
            "terms": None,
            "options": None,
            "sections": [],
        }
        assert whole == {"messages": [user("one")], **rest}
        assert (told["messages"], told["terms"]["pieces"]) == ([changing], [[0, 1], 1])
        assert [msgpack.unpackb(message) for message in again.pop("messages")] == [user("one"), user("two")]
        assert again == rest

    asyncio.run(body())


def test_keys_that_are_no_text_are_told_as_they_are_read_back() -> None:
    async def body() -> None:
        sent: list[Any] = []
        calls = CellSyscalls(7, "t1", [], [], sent.append)
        asked = asyncio.ensure_future(calls.ask_model(request({**user("one"), "extra": [{9: "a", 10: "b"}]})))
        await asyncio.sleep(0)
        calls.resolve(0, 0, ANSWER)
        await asked
        assert sent[0][6]["messages"] == [{**user("one"), "extra": [{"9": "a", "10": "b"}]}]

    asyncio.run(body())


def test_a_question_that_cannot_be_made_leaves_nothing() -> None:
    async def body() -> None:
        calls = CellSyscalls(7, "t1", [], [], lambda frame: None)
        calls.end("over")
        try:
            await calls.ask_model(request(user("one")))
        except TurnEnded:
            calls.say_whole(0, 0)
        assert calls._whole == {}

    asyncio.run(body())


GIVEN: dict[str, Any] = {
    "tool": ToolOutcome("denied", "no", True),
    "model": ModelAnswer("ok", "hm", (ToolCall("ask", "{}", "c1"),), 3, 4),
    "now": Value(12.5),
    "random": Value(2**62),
    "monitor": Monitored("r5"),
    "demonitor": MonitorRemoved(True),
    "link": Linked("r6"),
    "unlink": MonitorRemoved(True),
    "trap_exits": Trapped(True),
    "quote": Quote(("", "cap: none left"), 7),
}
"""What each syscall gives."""


async def ask(calls: CellSyscalls, op: str) -> Any:
    match op:
        case "tool":
            return await calls.call_tool("ask", {})
        case "model":
            return await calls.ask_model(request(user("one")))
        case "now":
            return await calls.now()
        case "monitor":
            return await calls.monitor("bob")
        case "demonitor":
            return await calls.demonitor("r5", flush=True)
        case "link":
            return await calls.link("bob")
        case "unlink":
            return await calls.unlink("r6")
        case "trap_exits":
            return await calls.trap_exits()
        case "quote":
            return await calls.quote(["p/a", "p/b"], 100, 50)
    return await calls.random()


def test_what_is_given_is_what_was_told() -> None:
    async def body() -> None:
        calls = CellSyscalls(7, "t1", [], [], lambda frame: None)
        came = []
        for round_, (op, outcome) in enumerate(GIVEN.items()):
            asked = asyncio.ensure_future(ask(calls, op))
            await asyncio.sleep(0)
            calls.resolve(round_, 0, msgpack.unpackb(msgpack.packb(told(outcome))))
            came.append(await asked)
        assert came == [
            ToolResult("", "ask", "denied", "no", True),
            GIVEN["model"],
            12.5,
            2**62,
            Monitored("r5", ""),
            True,
            Linked("r6", ""),
            True,
            True,
            Quote(("", "cap: none left"), 7),
        ]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("op", "change", "words"),
    [
        (
            "tool",
            {"status": "changed"},
            "status is none of ok, error, timeout, killed, denied, lost, in_doubt",
        ),
        ("tool", {"text": b"no"}, "text is bytes, not str"),
        ("tool", {"truncated": 1}, "truncated is int, not bool"),
        ("tool", {"more": 1}, "not a map with exactly the fields status, text, truncated"),
        ("model", {"status": "lost"}, "status is none of ok, error"),
        (
            "model",
            {"tool_calls": [{"name": "ask", "arguments": {}, "id": "c1"}]},
            "tool_calls is arguments is dict",
        ),
        ("model", {"input_tokens": None}, "input_tokens is NoneType, not int"),
        ("now", {"value": "12.5"}, "value is str, not float"),
        ("random", {"value": None}, "value is NoneType, not float"),
        ("monitor", {"ref": 5}, "ref is int, not str"),
        ("demonitor", {"found": 1}, "found is int, not bool"),
    ],
)
def test_an_outcome_of_another_shape_is_refused_by_its_field(
    op: str, change: dict[str, Any], words: str
) -> None:
    async def body() -> None:
        calls = CellSyscalls(7, "t1", [], [], lambda frame: None)
        asked = asyncio.ensure_future(ask(calls, op))
        await asyncio.sleep(0)
        with pytest.raises(ShapeError, match=words):
            calls.resolve(0, 0, told(GIVEN[op]) | change)
        asked.cancel()

    asyncio.run(body())


def test_a_monitor_is_asked_for_in_its_place_among_the_calls() -> None:
    async def body() -> None:
        frames: list[Any] = []
        calls = CellSyscalls(7, "t1", [], [], frames.append)
        asked = [
            asyncio.ensure_future(made)
            for made in (calls.monitor("bob@n2"), calls.demonitor("r5"), calls.demonitor("r5", flush=True))
        ]
        await asyncio.sleep(0)
        assert frames == [
            ["call", 7, "t1", 0, 0, "monitor", {"target": "bob@n2"}],
            ["call", 7, "t1", 1, 0, "demonitor", {"ref": "r5", "flush": False}],
            ["call", 7, "t1", 2, 0, "demonitor", {"ref": "r5", "flush": True}],
        ]
        calls.end("it is over")
        assert [type(one) for one in await asyncio.gather(*asked, return_exceptions=True)] == [TurnEnded] * 3

    asyncio.run(body())


@pytest.mark.parametrize("wrong", [None, 7, b"bob", ["bob"]])
def test_a_monitor_of_no_text_is_an_error_in_the_behaviour_alone(wrong: Any) -> None:
    async def body() -> None:
        frames: list[Any] = []
        calls = CellSyscalls(7, "t1", [], [], frames.append)
        for made in (calls.monitor(wrong), calls.demonitor(wrong)):
            with pytest.raises(TypeError, match="expected str"):
                await made
        assert frames == []

    asyncio.run(body())


def test_a_monitor_that_is_too_large_to_be_asked_for_is_refused() -> None:
    def send(frame: list[Any]) -> None:
        raise FrameError("a frame of many bytes")

    async def body() -> None:
        calls = CellSyscalls(7, "t1", [], [], send)
        refused = await calls.monitor("x")
        assert (refused.ref, refused.why) == ("", "the call is too large to be made: a frame of many bytes")
        assert not await calls.demonitor("x")

    asyncio.run(body())


def test_a_down_says_what_ended() -> None:
    told_ = {"ref": "r5", "target": "bob", "address": "/user/bob", "pid": 9, "node": "", "reason": "crash"}
    message = Message("m1", "operator", json.dumps(told_), "main", wants_reply=False, kind="down")
    assert Down.of(message) == Down("r5", "bob", "/user/bob", 9, "", "crash")
