"""Builds one answer from what a reader of some server's manner takes out of what that sends. Pure and bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from cognition.errors import ProviderError
from cognition.providers.base import ProviderBounds
from cognition.providers.key_words import SECRET_CHARS, KeyFilter, arguments_without_key, without_key
from cognition.providers.served.faults import fault_of
from kernel.abi import ModelAnswer, StopReason, ToolCall

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


class ToolCallBuilder:
    """One call, as it comes. What is added to it counts to its answer."""

    def __init__(self, grow: Callable[[str], None]) -> None:
        self._grow = grow
        self._name: list[str] = []
        self._arguments: list[str] = []
        self.id = ""

    def named(self, ident: Any, name: Any) -> None:
        """An id that is text takes the place of one before; a name goes on where it was."""
        if isinstance(ident, str) and ident:
            self.id = ident
        if isinstance(name, str):
            self._grow(name)
            self._name.append(name)

    def argue(self, arguments: Any) -> None:
        """More of its arguments: text as it is, anything else as its JSON."""
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else written(arguments)
            self._grow(text)
            self._arguments.append(text)

    @property
    def name(self) -> str:
        return "".join(self._name)

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)


class AnswerBuilder:
    """Takes what a server says, in order; ``finish`` gives the answer, in which ``secret`` stands nowhere.

    ``complete``: the server said that it is done; ``over``: and that nothing more comes.
    """

    def __init__(self, bounds: ProviderBounds, secret: str = "") -> None:
        self._bounds = bounds
        self._secret = secret
        self._key = secret if len(secret) >= SECRET_CHARS else ""
        self._shown = KeyFilter(self._key)
        self._text: list[str] = []
        self._calls: dict[int, ToolCallBuilder] = {}
        self._bytes = 0
        self._tokens = (0, 0, 0)
        self._stop: StopReason = ""
        self._reported_one = False
        self.complete = False
        self.over = False

    @property
    def refused(self) -> bool:
        """Whether the server reported an error before any part of an answer."""
        return self._reported_one and not (self._bytes or self._calls or any(self._tokens))

    @property
    def calls(self) -> int:
        """The number of the next call."""
        return max(self._calls, default=-1) + 1

    @property
    def tokens(self) -> tuple[int, int, int]:
        return self._tokens

    def say(self, text: str) -> str:
        """More of the text; what of it is to be shown. Raises :class:`ProviderError`."""
        if text:
            self._grow(text)
            self._text.append(text)
        return self._shown.add(well_formed(text))

    def call(self, index: int) -> ToolCallBuilder:
        """The call of that number, from 0 on. Raises :class:`ProviderError`."""
        if not 0 <= index < self._bounds.tool_calls:
            raise ProviderError(f"the model asked for more than {self._bounds.tool_calls} tool calls at once")
        return self._calls.setdefault(index, ToolCallBuilder(self._grow))

    def count(self, read: Any, written: Any, cached: Any = 0) -> None:
        """Tokens read, tokens written, and how many of those read had been kept; what is no number is 0."""
        told = counted(read)
        self._tokens = told, counted(written), min(told, counted(cached))

    def done(self, stop: StopReason) -> None:
        """The server says why it ends."""
        self.complete, self._stop = True, stop

    def end(self) -> None:
        """The server says that nothing more comes."""
        self.complete = self.over = True

    def reported(self, error: Any) -> ProviderError:
        """The error that the server tells of inside its answer."""
        self._reported_one = True
        return fault_of(f"the model server reports an error: {error_words(error, self._secret)}", error=error)

    def rest(self) -> str:
        """What is to be shown after the last piece."""
        return self._shown.rest()

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
            name = without_key(well_formed(entry.name), self._key)[:_MAX_LABEL]
            arguments = arguments_without_key(well_formed(entry.arguments), self._key)
            calls.append(ToolCall(name, arguments or "{}", ident))
        said = json.dumps([text, [[c.name, c.arguments] for c in calls]], ensure_ascii=False)
        if len(said.encode()) > self._bounds.answer_bytes:
            raise self._too_large()
        stop: StopReason = "tool_calls" if calls and self._stop == "stop" else self._stop
        return ModelAnswer("ok", text, tuple(calls), *self._tokens, stop_reason=stop)


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


def written(arguments: Any) -> str:
    """The JSON of arguments that came as an object. Raises :class:`ProviderError`."""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except RecursionError as error:
        raise ProviderError("the model's tool arguments are nested too deeply") from error


def counted(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
