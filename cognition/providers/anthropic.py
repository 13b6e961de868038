"""Anthropic's messages: ``POST {base_url}/v1/messages``. Pure but for the server itself.

A message is a list of blocks: text, a call of a tool, what came of one. The system prompt stands apart, roles
alternate, and results come first in the message behind their calls. What a question begins with stays the same from
round to round, and the provider, which keeps it for a while, is told where that ends (``cache_control``): behind the
system prompt, which stands behind the tools, and behind the newest message. The node's note comes after that.

There is no mode for an answer by a schema: the model is made to call a tool whose arguments are the answer
(:func:`_answer_tool`); what it calls that one with is the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from cognition.errors import ProviderError
from cognition.providers.answer import AnswerBuilder, written
from cognition.providers.base import Question, Source
from cognition.providers.served.configured import build_served
from cognition.providers.served.dialect import Dialect, Headers, Take
from cognition.providers.served.served import Served
from cognition.providers.wire import encoded, given, sent_messages
from kernel.abi import StopReason

VERSION = "2023-06-01"
USUAL_TOKENS = 4_096
"""Of an answer where nobody says how long it may be: the provider wants to be told."""
ANSWER_TOOL = "final_answer"
Block = dict[str, Any]
_KEPT = {"cache_control": {"type": "ephemeral"}}
_IDENT = re.compile(r"[^a-zA-Z0-9_-]")
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def headers(key: str) -> Headers:
    return (("x-api-key", key),)


# -- the question ----------------------------------------------------------------------------------------------------


def request_body(question: Question, model: str, stream: bool) -> bytes:
    """UTF-8 JSON."""
    system, turns = _parted(sent_messages(replace(question, note="")))
    tools = _tools(question)
    _keep(turns[-1]["content"] if turns else [])
    _keep(system or tools)
    _add(turns, "user", _texts(question.note))
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": question.max_tokens or USUAL_TOKENS,
        "messages": turns,
        "stream": stream,
        **given(system=system or None, tools=tools or None, top_k=question.top_k),
        **_drawn(question),
    }
    if question.output_schema is not None:
        alone = {"type": "tool", "name": ANSWER_TOOL}
        body["tool_choice"] = {"type": "any"} if question.tools else alone
    return encoded(body)


def _drawn(question: Question) -> dict[str, Any]:
    """One of the two: newer models refuse both. A temperature is from 0 to 1 here."""
    if question.temperature is not None:
        return {"temperature": min(1.0, question.temperature)}
    return given(top_p=question.top_p)


def _tools(question: Question) -> list[Block]:
    if any(tool.name == ANSWER_TOOL for tool in question.tools):
        raise ProviderError(
            f"no tool may be named {ANSWER_TOOL} here: it is what a model gives its answer with"
        )
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in question.tools
    ]
    if question.output_schema is not None:
        tools.append(_answer_tool(question))
    return tools


def _answer_tool(question: Question) -> Block:
    schema = {"type": "object", **dict(question.output_schema or {})}
    words = "Give the final answer, once, by calling this. Its arguments are the answer."
    return {"name": ANSWER_TOOL, "description": words, "input_schema": schema}


def _keep(blocks: list[Block]) -> None:
    if blocks:
        blocks[-1] |= _KEPT


def _parted(messages: list[dict[str, Any]]) -> tuple[list[Block], list[dict[str, Any]]]:
    """The system prompt, and the rest in turns. What the system says later is said by the user."""
    system: list[Block] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role == "system" and not turns:
            system += _texts(message.get("content"))
            continue
        who = "assistant" if role == "assistant" else "user"
        if not turns and who == "assistant":
            _add(turns, "user", _texts("(The beginning is left out.)"))
        _add(turns, who, _assistants(message) if role == "assistant" else _users(message))
    return system, turns


def _add(turns: list[dict[str, Any]], who: str, blocks: list[Block]) -> None:
    if blocks and turns and turns[-1]["role"] == who:
        turns[-1]["content"] += blocks
    elif blocks:
        turns.append({"role": who, "content": blocks})


def _texts(content: Any) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content.strip() else []


def _assistants(message: dict[str, Any]) -> list[Block]:
    calls = [
        {
            "type": "tool_use",
            "id": _ident(call["id"]),
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls", ())
    ]
    texts = _texts(message.get("content"))
    for block in texts:
        block["text"] = block["text"].rstrip()
    return [*texts, *calls]


def _users(message: dict[str, Any]) -> list[Block]:
    content = message.get("content")
    if message.get("role") != "tool":
        return _texts(content)
    result = {"type": "tool_result", "tool_use_id": _ident(message.get("tool_call_id", ""))}
    return [{**result, "content": content if isinstance(content, str) else ""}]


def _ident(ident: Any) -> str:
    return _IDENT.sub("_", str(ident)) or "_"


# -- the answer ------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads one stream. ``calls``: the number of the call of each block; -1: it is the answer."""

    def __init__(self, builder: AnswerBuilder) -> None:
        self._builder = builder
        self._calls: dict[int, int] = {}
        self._argued: set[int] = set()
        self._begun: dict[int, Block] = {}

    def take(self, event: dict[str, Any]) -> str:
        """One event; the text to show for it. Raises :class:`ProviderError`."""
        match event.get("type"):
            case "message_start":
                _count(self._builder, _object(_object(event.get("message")).get("usage")))
            case "content_block_start":
                return self._begin(_index(event), _object(event.get("content_block")))
            case "content_block_delta":
                return self._go_on(_index(event), _object(event.get("delta")))
            case "content_block_stop":
                return self._end(_index(event))
            case "message_delta":
                _count(self._builder, _object(event.get("usage")))
                _stop(self._builder, _object(event.get("delta")).get("stop_reason"))
            case "message_stop":
                self._builder.end()
            case "error":
                raise self._builder.reported(event.get("error"))
        return ""

    def _begin(self, index: int, block: Block) -> str:
        if block.get("type") == "tool_use":
            self._begun[index] = block
            if _is_answer(block):
                self._calls[index] = -1
                return ""
            number = self._calls[index] = self._builder.calls
            self._builder.call(number).named(block.get("id"), block.get("name"))
        return self._builder.say(_text(block.get("text"))) if block.get("type") == "text" else ""

    def _go_on(self, index: int, delta: dict[str, Any]) -> str:
        if delta.get("type") == "text_delta":
            return self._builder.say(_text(delta.get("text")))
        if delta.get("type") != "input_json_delta":
            return ""  # what the model thinks, and its signature
        number, piece = self._calls.get(index), _text(delta.get("partial_json"))
        if number is None:
            raise ProviderError("the model server's answer has arguments of a call that has not begun")
        if piece:
            self._argued.add(index)
        if number < 0:
            return self._builder.say(piece)
        self._builder.call(number).argue(piece)
        return ""

    def _end(self, index: int) -> str:
        """A block is whole: arguments that came in no piece came with its beginning."""
        given = self._begun.pop(index, {}).get("input")
        if index not in self._calls or index in self._argued or not given:
            return ""
        return _argue(self._builder, self._calls[index], given)


def take_message(builder: AnswerBuilder, answer: dict[str, Any]) -> str:
    """Take a whole answer."""
    if answer.get("error"):
        raise builder.reported(answer["error"])
    if not isinstance(answer.get("content"), list):
        raise ProviderError("the model server answered with JSON that is no message (it has no content)")
    shown = []
    for block in map(_object, answer["content"]):
        if block.get("type") == "text":
            shown.append(builder.say(_text(block.get("text"))))
        elif block.get("type") == "tool_use":
            number = -1 if _is_answer(block) else builder.calls
            if number >= 0:
                builder.call(number).named(block.get("id"), block.get("name"))
            shown.append(_argue(builder, number, block.get("input")))
    _count(builder, _object(answer.get("usage")))
    _stop(builder, answer.get("stop_reason"))
    return "".join(shown)


def _argue(builder: AnswerBuilder, number: int, arguments: Any) -> str:
    if number < 0:
        return builder.say(arguments if isinstance(arguments, str) else written(arguments))
    builder.call(number).argue(arguments)
    return ""


def _is_answer(block: Block) -> bool:
    return bool(block.get("name") == ANSWER_TOOL)


def _stop(builder: AnswerBuilder, reason: Any) -> None:
    if reason:
        stop = _STOPS.get(str(reason), "stop")
        builder.done("stop" if stop == "tool_calls" and not builder.calls else stop)


def _count(builder: AnswerBuilder, usage: dict[str, Any]) -> None:
    """What is said later goes on from what was said before; what was kept is no part of ``input_tokens`` here."""
    read, wrote, cached = builder.tokens
    names = "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    parts = [_number(usage.get(name)) for name in names]
    if any(parts):
        read, cached = sum(parts), parts[1]
    builder.count(read, max(wrote, _number(usage.get("output_tokens"))), cached)


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**50 else 0


def _object(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProviderError("the model server's answer has a part that is not an object")
    return value


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    if type(index) is not int:
        raise ProviderError("the model server's answer has a block without its number")
    return index


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reader(builder: AnswerBuilder) -> Take:
    return _Reader(builder).take


def dialect(base_url: str) -> Dialect:
    """``base_url`` may end in ``/v1`` or not: both are written."""
    path = "/messages" if urlsplit(base_url).path.rstrip("/").endswith("/v1") else "/v1/messages"
    return Dialect(
        path, headers, request_body, take_message, _reader, plain=(("anthropic-version", VERSION),)
    )


def build(source: Source) -> Served:
    """One provider. Raises :class:`ConfigurationError`."""
    return build_served(source, dialect(str(source.table.get("base_url", ""))))
