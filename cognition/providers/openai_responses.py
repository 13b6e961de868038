"""OpenAI's responses: ``POST {base_url}/responses``. Pure but for the server itself.

A question is a list of items: messages, calls of functions and what came of them. A stream is made of typed events, of
which those count that bring text, pieces of arguments, whole items, and the end. Nothing is kept at the server
(``store``), so what a model thought is not handed back to it in the next round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cognition.errors import ProviderError
from cognition.providers.answer import AnswerBuilder
from cognition.providers.base import OfferedTool, Question, Source
from cognition.providers.openai_compatible import OpenAICompatible, drawn
from cognition.providers.served.configured import build_served
from cognition.providers.served.dialect import Dialect, Take, bearer
from cognition.providers.wire import encoded, is_strict, sent_messages
from kernel.abi import StopReason

LEAST_TOKENS = 16
"""That OpenAI wants an answer to be allowed."""
_INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


def request_body(question: Question, model: str, stream: bool) -> bytes:
    """UTF-8 JSON."""
    items = [item for message in sent_messages(question) for item in _items(message)]
    body: dict[str, Any] = {"model": model, "input": items, "stream": stream, "store": False}
    if question.max_tokens:
        body["max_output_tokens"] = max(LEAST_TOKENS, question.max_tokens)
    body |= drawn(question, model)
    if question.output_schema is not None:
        schema = dict(question.output_schema)
        held = {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema)}
        body["text"] = {"format": held}
    if question.tools:
        body["tools"] = list(map(_tool, question.tools))
    return encoded(body)


def _tool(tool: OfferedTool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or ""
    if message.get("role") == "tool":
        return [
            {"type": "function_call_output", "call_id": message.get("tool_call_id", ""), "output": content}
        ]
    said = [{"role": message.get("role", "user"), "content": content}] if content else []
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in message.get("tool_calls", ())
    ]
    return [*said, *calls] or [{"role": message.get("role", "user"), "content": ""}]


class _Reader:
    """Reads one stream. ``calls``: the number of the call at each place of the output."""

    def __init__(self, builder: AnswerBuilder) -> None:
        self._builder = builder
        self._calls: dict[int, int] = {}
        self._argued: set[int] = set()
        self._refused = False

    def take(self, event: dict[str, Any]) -> str:
        """One event; the text to show for it. Raises :class:`ProviderError`."""
        match event.get("type"):
            case "response.output_text.delta":
                return self._builder.say(_text(event.get("delta")))
            case "response.refusal.delta":
                self._refused = True
                return self._builder.say(_text(event.get("delta")))
            case "response.output_item.added":
                self._begin(event)
            case "response.function_call_arguments.delta":
                self._argue(event, event.get("delta"))
            case "response.output_item.done":
                self._end(event)
            case "response.completed" | "response.incomplete" | "response.failed":
                _finish(self._builder, _object(event.get("response")), self._refused)
            case "error":
                raise self._builder.reported(event.get("error") or event)
        return ""

    def _begin(self, event: dict[str, Any]) -> None:
        item = _object(event.get("item"))
        if item.get("type") == "function_call":
            number = self._calls.setdefault(_place(event), self._builder.calls)
            self._builder.call(number).named(item.get("call_id"), item.get("name"))

    def _argue(self, event: dict[str, Any], arguments: Any) -> None:
        place = _place(event)
        number = self._calls.get(place)
        if number is None:
            raise ProviderError("the model server's answer has arguments of a call that has not begun")
        self._argued.add(place)
        self._builder.call(number).argue(arguments)

    def _end(self, event: dict[str, Any]) -> None:
        """An item is whole: what came of it in no piece is taken now."""
        item = _object(event.get("item"))
        if item.get("type") == "function_call":
            if _place(event) not in self._calls:
                self._begin(event)
            if _place(event) not in self._argued:
                self._argue(event, item.get("arguments"))


def take_response(builder: AnswerBuilder, answer: dict[str, Any]) -> str:
    """Take a whole answer."""
    if not isinstance(answer.get("output"), list) and not answer.get("error"):
        raise ProviderError("the model server answered with JSON that is no response (it has no output)")
    shown, refused = [], False
    for item in map(_object, answer.get("output") or ()):
        if item.get("type") == "function_call":
            call = builder.call(builder.calls)
            call.named(item.get("call_id"), item.get("name"))
            call.argue(item.get("arguments"))
        elif item.get("type") == "message":
            parts = item.get("content")
            for part in map(_object, parts if isinstance(parts, list) else []):
                refused |= part.get("type") == "refusal"
                shown.append(builder.say(_text(part.get("text")) or _text(part.get("refusal"))))
    _finish(builder, answer, refused)
    return "".join(shown)


def _finish(builder: AnswerBuilder, response: dict[str, Any], refused: bool) -> None:
    usage = _object(response.get("usage"), or_none=True)
    details = _object(usage.get("input_tokens_details"), or_none=True)
    builder.count(usage.get("input_tokens"), usage.get("output_tokens"), details.get("cached_tokens"))
    if response.get("error"):
        raise builder.reported(response["error"])
    status = response.get("status")
    if status == "incomplete":
        why = _object(response.get("incomplete_details"), or_none=True).get("reason")
        builder.done(_INCOMPLETE.get(str(why), "length"))
    elif status in ("failed", "cancelled"):
        raise builder.reported(f"its response is {status}")
    else:
        builder.done("content_filter" if refused else "stop")
    builder.end()


def _object(value: Any, or_none: bool = False) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if or_none and value is None:
        return {}
    raise ProviderError("the model server's answer has a part that is not an object")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _place(event: dict[str, Any]) -> int:
    place = event.get("output_index")
    if type(place) is not int:
        raise ProviderError("the model server's answer has a call without its place in the output")
    return place


def _reader(builder: AnswerBuilder) -> Take:
    return _Reader(builder).take


RESPONSES = Dialect("/responses", bearer, request_body, take_response, _reader)


def build(source: Source) -> OpenAICompatible:
    """One provider, which makes vectors as OpenAI's servers do. Raises :class:`ConfigurationError`."""
    return OpenAICompatible(build_served(source, RESPONSES))
