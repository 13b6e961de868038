"""Ollama: ``POST {base_url}/api/chat``, a stream of one JSON object a line. Pure but for the server itself.

Arguments of calls are objects here, and calls have no ids. A question longer than the context that a model was loaded
with is cut by the server, which says nothing of it: ``num_ctx`` is Ollama's own setting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from cognition.errors import ProviderError
from cognition.providers.answer import AnswerBuilder
from cognition.providers.base import Question, Source
from cognition.providers.openai_compatible import function_of
from cognition.providers.served.configured import build_served
from cognition.providers.served.dialect import Dialect, Take, bearer
from cognition.providers.served.served import Served
from cognition.providers.wire import encoded, given, sent_messages
from kernel.abi import StopReason

_STOPS: Mapping[str, StopReason] = {"stop": "stop", "length": "length"}


def request_body(question: Question, model: str, stream: bool) -> bytes:
    """UTF-8 JSON."""
    options = given(
        temperature=question.temperature,
        top_p=question.top_p,
        top_k=question.top_k,
        num_predict=question.max_tokens or None,
    )
    tools = [function_of(tool.name, tool.description, tool.parameters) for tool in question.tools]
    schema = None if question.output_schema is None else dict(question.output_schema)
    return encoded(
        {
            "model": model,
            "messages": _messages(question),
            "stream": stream,
            **given(tools=tools or None, format=schema, options=options or None),
        }
    )


def _messages(question: Question) -> list[dict[str, Any]]:
    named: dict[str, str] = {}
    return [_message(message, named) for message in sent_messages(question)]


def _message(message: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """``named``: the names of the calls so far, by their ids: a result says whose it is by name."""
    told: dict[str, Any] = {"role": message.get("role", "user"), "content": message.get("content") or ""}
    if told["role"] == "tool":
        told |= given(tool_name=named.get(str(message.get("tool_call_id"))))
    calls = [call["function"] for call in message.get("tool_calls", ())]
    if calls:
        named |= {str(call["id"]): call["function"]["name"] for call in message["tool_calls"]}
        told["tool_calls"] = [
            {"function": {"name": call["name"], "arguments": json.loads(call["arguments"])}} for call in calls
        ]
    return told


def take_line(builder: AnswerBuilder, line: dict[str, Any]) -> str:
    """Take one line of a stream, or a whole answer; the text to show for it. Raises :class:`ProviderError`."""
    if line.get("error"):
        raise builder.reported(line["error"])
    said = line.get("message")
    if not isinstance(said, dict):
        raise ProviderError("the model server answered with JSON that is no chat (it has no message)")
    calls = said.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise ProviderError("the model server's answer has tool_calls that are not a list of objects")
    for call in calls:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        entry = builder.call(builder.calls)
        entry.named(call.get("id"), function.get("name"))
        entry.argue(function.get("arguments"))
    if line.get("done") is True:
        builder.count(line.get("prompt_eval_count"), line.get("eval_count"))
        builder.done(_STOPS.get(str(line.get("done_reason")), "stop"))
        builder.end()
    content = said.get("content")
    return builder.say(content if isinstance(content, str) else "")


def _reader(builder: AnswerBuilder) -> Take:
    return partial(take_line, builder)


CHAT = Dialect("/api/chat", bearer, request_body, take_line, _reader, lines=True)


def build(source: Source) -> Served:
    """One provider. Raises :class:`ConfigurationError`."""
    return build_served(source, CHAT)
