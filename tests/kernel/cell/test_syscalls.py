"""A cell's calls: how a question to a model is told, and told again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack

from kernel.abi import ModelRequest, TurnEnded
from kernel.cell.syscalls import CellSyscalls

ANSWER = {"status": "ok", "text": "hm"}


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
        rest = {"tools": ["ask"], "provider": "p", "model": "m", "terms": None}
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
