"""Any server with an OpenAI-compatible ``POST {base_url}/chat/completions``: OpenAI, vLLM, llama.cpp and many others;
and the same server's ``POST {base_url}/embeddings``. Pure but for the server itself.

Servers differ: arguments as an object instead of text, no index or no id on a tool call, content as a list of
parts, usage in the last chunk or nowhere. What can be understood without guessing is accepted; the rest is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cognition.errors import ProviderError
from cognition.providers.answer import AnswerBuilder
from cognition.providers.base import Question, Source, Watcher
from cognition.providers.embeddings import Vectors, embeddings_body, embeddings_bytes, parse_embeddings
from cognition.providers.served.configured import build_served
from cognition.providers.served.dialect import Dialect, Take, bearer
from cognition.providers.served.served import Served
from cognition.providers.wire import encoded, encoded_message, given, is_strict, noted
from kernel.abi import ModelAnswer, StopReason

OPENAI_HOST = "api.openai.com"
_THINKS = re.compile(r"(o[0-9]|gpt-5)")
"""Models of OpenAI that refuse to be told how to draw their answers."""
_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}


def drawn(question: Question, model: str) -> dict[str, Any]:
    """How an answer is to be drawn, for OpenAI's own servers and those like them, which know no ``top_k``."""
    if _THINKS.match(model):
        return {}
    return given(temperature=question.temperature, top_p=question.top_p)


def function_of(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool on offer."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": dict(parameters)},
    }


def request_body(question: Question, model: str, stream: bool, limit: str = "max_tokens") -> bytes:
    """UTF-8 JSON. Lone surrogates are written as escapes. ``limit``: what a server calls that of an answer."""
    body: dict[str, Any] = {"stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    if question.max_tokens:
        body[limit] = question.max_tokens
    body |= drawn(question, model)
    if question.output_schema is not None:
        schema = dict(question.output_schema)
        held = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": held}
    if question.tools:
        body["tools"] = [function_of(t.name, t.description, t.parameters) for t in question.tools]
    messages = b",".join(map(encoded_message, noted(question)))
    return b'{"model":%b,"messages":[%b],%b' % (encoded(model), messages, encoded(body)[1:])


def take_chunk(builder: AnswerBuilder, chunk: dict[str, Any]) -> str:
    """Take one completion or stream chunk; the text to show for it. Raises :class:`ProviderError`."""
    if chunk.get("error"):
        raise builder.reported(chunk["error"])
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else 0
        builder.count(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return ""
    choice = choices[0]
    if not isinstance(choice, dict):
        raise ProviderError("the model server's answer has a choice that is not an object")
    said = choice.get("delta") or choice.get("message") or {}
    if not isinstance(said, dict):
        raise ProviderError("the model server's answer has a message that is not an object")
    _take_calls(builder, said.get("tool_calls"), whole="delta" not in choice)
    refusal = said.get("refusal")
    text = _content(said.get("content")) or (refusal if isinstance(refusal, str) else "")
    reason = choice.get("finish_reason")
    if reason:
        refused = isinstance(refusal, str) and bool(refusal)
        builder.done("content_filter" if refused else _STOPS.get(str(reason), "stop"))
    return builder.say(text)


def take_completion(builder: AnswerBuilder, answer: dict[str, Any]) -> str:
    """Take a whole answer."""
    if not isinstance(answer.get("choices"), list) and not answer.get("error"):
        raise ProviderError(
            "the model server answered with JSON that is no chat completion (it has no choices)"
        )
    return take_chunk(builder, answer)


def _reader(builder: AnswerBuilder) -> Take:
    return partial(take_chunk, builder)


def _take_calls(builder: AnswerBuilder, calls: Any, whole: bool) -> None:
    if not calls:
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise ProviderError("the model server's answer has tool_calls that are not a list of objects")
    for call in calls:
        entry = builder.call(_number(builder, call, whole))
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        entry.named(call.get("id"), function.get("name"))
        entry.argue(function.get("arguments"))


def _number(builder: AnswerBuilder, call: dict[str, Any], whole: bool) -> int:
    """Which call a piece belongs to: by index; without one, an id that is new starts the next call."""
    index = call.get("index")
    if not whole and isinstance(index, int):
        return index
    ident, following = call.get("id"), builder.calls
    fresh = whole or not following or (bool(ident) and ident != builder.call(following - 1).id)
    return following if fresh else following - 1


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


CHAT = Dialect("/chat/completions", bearer, request_body, take_completion, _reader)
OPENAIS_CHAT = Dialect(
    "/chat/completions",
    bearer,
    partial(request_body, limit="max_completion_tokens"),
    take_completion,
    _reader,
)
"""Of OpenAI itself, which refuses ``max_tokens`` for its newer models."""


def build(source: Source) -> OpenAICompatible:
    """One provider. Raises :class:`ConfigurationError`."""
    url = str(source.table.get("base_url", ""))
    return OpenAICompatible(build_served(source, OPENAIS_CHAT if is_openai(url) else CHAT))


def is_openai(url: str) -> bool:
    """Whether that is OpenAI's own server."""
    try:
        return urlsplit(url).hostname == OPENAI_HOST
    except ValueError:
        return False


class OpenAICompatible:
    """One such server, which makes vectors too."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """See :class:`cognition.providers.base.Provider`."""
        return await self._served.ask(question, watcher)

    async def embed(self, texts: Sequence[str], model: str) -> Vectors:
        """See :class:`cognition.providers.embeddings.Embedder`."""
        settings = self._served.settings
        name = model or settings.model
        if not name:
            raise ProviderError(f"no embedding model was named: set memory.model for {settings.name}")
        body, count = embeddings_body(texts, name), len(texts)

        def parse(data: bytes, key: str) -> Vectors:
            return parse_embeddings(data, count, key)

        return await self._served.fetch("/embeddings", body, embeddings_bytes(count), parse)

    async def close(self) -> None:
        await self._served.close()
