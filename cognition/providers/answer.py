"""Builds one answer from what an OpenAI-compatible server sends, whole or in stream chunks. Pure and bounded.

Servers differ: arguments as an object instead of text, no index or no id on a tool call, content as a list of
parts, usage in the last chunk or nowhere. What can be understood without guessing is accepted; the rest is an
error.
"""

from __future__ import annotations

import json
import re
from typing import Any

from cognition.errors import ProviderError, TransientProviderError
from cognition.providers.base import ProviderBounds
from cognition.providers.key_words import SECRET_CHARS, KeyFilter, arguments_without_key, without_key
from kernel.abi import ModelAnswer, ToolCall

MAX_PARTS = 32_768
"""Objects and arrays of one answer: each takes some 20 bytes of memory for each byte that was sent."""
_MAX_LABEL = 128
_STRING = re.compile(rb'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)


def load_object(data: bytes, max_parts: int = MAX_PARTS) -> dict[str, Any]:
    """One JSON object in UTF-8, of at most so many objects and arrays, which are counted before there are any.

    Raises :class:`ProviderError` for anything else.
    """
    if _parts(data) > max_parts and _parts(_STRING.sub(b"", data)) > max_parts:
        raise ProviderError(f"the model server's answer has more than {max_parts} objects and arrays")
    try:
        value = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ProviderError(f"the model server's answer is not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"the model server's answer is not JSON ({len(data)} bytes)") from error
    if not isinstance(value, dict):
        raise ProviderError(f"the model server's answer is a JSON {type(value).__name__}, not an object")
    return value


def well_formed(text: str) -> str:
    """``text`` without lone surrogates, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parts(data: bytes) -> int:
    return data.count(b"{") + data.count(b"[")


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name: list[str] = []
        self.arguments: list[str] = []


class AnswerBuilder:
    """Takes messages or deltas in order; ``finish`` gives the answer, in which ``secret`` stands nowhere.

    ``complete`` once the server said it is done.
    """

    def __init__(self, bounds: ProviderBounds, secret: str = "") -> None:
        self._bounds = bounds
        self._secret = secret
        self._key = secret if len(secret) >= SECRET_CHARS else ""
        self._shown = KeyFilter(self._key)
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._bytes = 0
        self._tokens = (0, 0, 0)
        self._reported_one = False
        self.complete = False

    @property
    def refused(self) -> bool:
        """Whether the server reported an error before any part of an answer."""
        return self._reported_one and not (self._bytes or self._calls or any(self._tokens))

    def add(self, chunk: dict[str, Any]) -> str:
        """Take one completion or stream chunk; the text to show for it. Raises :class:`ProviderError`."""
        if chunk.get("error"):
            raise self._reported(chunk["error"])
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._tokens = _counted(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return ""
        choice = choices[0]
        if not isinstance(choice, dict):
            raise ProviderError("the model server's answer has a choice that is not an object")
        if choice.get("finish_reason"):
            self.complete = True
        said = choice.get("delta") or choice.get("message") or {}
        if not isinstance(said, dict):
            raise ProviderError("the model server's answer has a message that is not an object")
        self._add_calls(said.get("tool_calls"), whole="delta" not in choice)
        text = _content(said.get("content"))
        if text:
            self._grow(text)
            self._text.append(text)
        return self._shown.add(well_formed(text))

    def rest(self) -> str:
        """What is to be shown after the last chunk."""
        return self._shown.rest()

    def _reported(self, error: Any) -> ProviderError:
        self._reported_one = True
        text = f"the model server reports an error: {error_words(error, self._secret)}"
        code = error.get("code") if isinstance(error, dict) else None
        transient = isinstance(code, int) and (code == 429 or 500 <= code < 600)
        return TransientProviderError(text) if transient else ProviderError(text)

    def _add_calls(self, calls: Any, whole: bool) -> None:
        if not calls:
            return
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise ProviderError("the model server's answer has tool_calls that are not a list of objects")
        for call in calls:
            entry = self._call_for(call, whole)
            ident = call.get("id")
            if isinstance(ident, str) and ident:
                entry.id = ident
            function = call.get("function")
            if not isinstance(function, dict):
                continue
            name, arguments = function.get("name"), function.get("arguments")
            if isinstance(name, str):
                self._grow(name)
                entry.name.append(name)
            if arguments is not None:
                text = arguments if isinstance(arguments, str) else _written(arguments)
                self._grow(text)
                entry.arguments.append(text)

    def _call_for(self, call: dict[str, Any], whole: bool) -> _Call:
        """Which call a piece belongs to: by index; without one, an id that is new starts the next call."""
        index = call.get("index")
        if whole or not isinstance(index, int):
            last = max(self._calls, default=-1)
            ident = call.get("id")
            fresh = whole or last < 0 or (bool(ident) and ident != self._calls[last].id)
            index = last + 1 if fresh else last
        if not 0 <= index < self._bounds.tool_calls:
            raise ProviderError(f"the model asked for more than {self._bounds.tool_calls} tool calls at once")
        return self._calls.setdefault(index, _Call())

    def _grow(self, text: str) -> None:
        self._bytes += len(text.encode("utf-8", "replace"))
        if self._bytes > self._bounds.answer_bytes:
            raise self._too_large()

    def _too_large(self) -> ProviderError:
        return ProviderError(f"the model's answer is larger than {self._bounds.answer_bytes} bytes")

    def finish(self) -> ModelAnswer:
        """The answer. Raises :class:`ProviderError` when it is too large once written as JSON."""
        text = without_key(well_formed("".join(self._text)), self._key)
        calls: list[ToolCall] = []
        used: set[str] = set()
        for index, entry in sorted(self._calls.items()):
            ident = without_key(well_formed(entry.id), self._key)
            if not ident or len(ident) > _MAX_LABEL or ident in used:
                ident = f"call_{index}"
            while ident in used:
                ident += "_"
            used.add(ident)
            name = without_key(well_formed("".join(entry.name)), self._key)[:_MAX_LABEL]
            arguments = arguments_without_key(well_formed("".join(entry.arguments)), self._key)
            calls.append(ToolCall(name, arguments or "{}", ident))
        written = json.dumps([text, [[c.name, c.arguments] for c in calls]], ensure_ascii=False)
        if len(written.encode()) > self._bounds.answer_bytes:
            raise self._too_large()
        return ModelAnswer("ok", text, tuple(calls), *self._tokens)


def error_words(error: Any, secret: str = "") -> str:
    """What the error object of an answer says, fit for one of our messages."""
    return excerpt(error.get("message") if isinstance(error, dict) else error, secret=secret)


def excerpt(foreign: Any, limit: int = 300, secret: str = "") -> str:
    """A bounded one-line rendering of somebody else's value for a log, ``secret`` taken out first."""
    text = foreign if isinstance(foreign, str) else ascii(foreign)
    text = without_key(text, secret)
    text = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except RecursionError as error:
        raise ProviderError("the model's tool arguments are nested too deeply") from error


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _counted(usage: dict[str, Any]) -> tuple[int, int, int]:
    """Tokens read, tokens written, and how many of those read had been kept."""
    read, details = _count(usage.get("prompt_tokens")), usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return read, _count(usage.get("completion_tokens")), min(read, cached)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
