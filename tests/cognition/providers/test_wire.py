"""Questions as the JSON that servers take."""

from __future__ import annotations

import json
from typing import Any

from cognition.providers.base import OfferedTool, Question
from cognition.providers.openai_compatible import request_body
from cognition.providers.wire import wire_message


def body(question: Question, **more: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(
        request_body(question, question.model or "default-model", more.get("stream", False))
    )
    return sent


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_question_is_a_chat_completion_request() -> None:
    question = Question(
        ({"role": "user", "content": "hi"},), (OfferedTool("f", "does f", {"type": "object"}),)
    )
    assert body(question) == {
        "model": "default-model",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}},
            }
        ],
    }
    assert body(Question((), (), "mine"), stream=True) == {
        "model": "mine",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_failed_or_cut_result_says_so_in_words() -> None:
    record = {
        "role": "tool",
        "tool_call_id": "c",
        "name": "f",
        "content": "no",
        "status": "denied",
        "truncated": True,
    }
    sent = wire_message(record)
    assert sent.keys() == {"role", "tool_call_id", "content"}
    assert sent["content"].startswith("The call ended with status denied: no")
    assert "longer" in sent["content"]


def test_past_calls_that_no_server_would_take_are_made_acceptable() -> None:
    calls: list[Any] = [call("f", '{"a": 1}'), call("file read/" * 20, "{broken"), call("", "[1]"), "junk"]
    sent = wire_message({"role": "assistant", "content": "", "tool_calls": calls})["tool_calls"]
    assert [c["function"]["arguments"] for c in sent] == ['{"a": 1}', "{}", "{}", "{}"]
    assert sent[0]["function"]["name"] == "f"
    assert sent[1]["function"]["name"] == ("file_read_" * 20)[:64]
    assert sent[2]["function"]["name"] == "unnamed"


def test_unknown_keys_and_lone_surrogates_do_not_break_a_request() -> None:
    question = Question(({"role": "user", "content": "\ud800", "secret": 1},))
    assert body(question)["messages"] == [{"role": "user", "content": "\ud800"}]
