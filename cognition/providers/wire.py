"""The messages of a question as servers take them. Pure.

A session outlives its provider and may hold what a model once said wrongly: a tool name no server accepts,
arguments that are not JSON. Sent back as they are, they would make the server refuse every later turn of the
session; so names and arguments of *past* calls are written here in a form that servers take. What was
executed is not touched by this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack

from cognition.providers.base import Question

_KEYS = ("role", "content", "name", "tool_call_id")
_READ = (*_KEYS, "status", "truncated")
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def noted(question: Question) -> Sequence[Mapping[str, Any]]:
    """The messages, and the note behind them: what a provider keeps of their beginning stays the same. It goes into the
    last one if that is the user's: some servers refuse two of one role in a row.
    """
    messages, note = question.messages, question.note
    if not note:
        return messages
    last = json.loads(encoded_message(messages[-1])) if messages else {}
    if last.get("role") == "user" and isinstance(last.get("content"), str):
        return (*messages[:-1], {**last, "content": f"{last['content']}\n\n{note}"})
    return (*messages, {"role": "user", "content": note})


def sent_messages(question: Question) -> list[dict[str, Any]]:
    """All of them, and the note, in the OpenAI chat shape and in a form that servers take."""
    return [json.loads(encoded_message(message)) for message in noted(question)]


def given(**fields: Any) -> dict[str, Any]:
    """Those fields of a request that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def is_strict(schema: Any) -> bool:
    """Whether a schema is one that OpenAI holds a model to: no object in it may have other keys, or lack one."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        named = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False or set(named) != set(schema.get("required") or ()):
            return False
    return all(map(is_strict, schema.values()))


class EncodedMessage(Mapping[str, Any]):
    """A message that may be asked again and again: its encoding, and what providers read of it. Both are bytes, so that
    ``size`` is what it takes, whatever it is made of; what nobody reads is not held.
    """

    __slots__ = ("_packed", "encoded")

    def __init__(self, message: Mapping[str, Any]) -> None:
        wire = wire_message(message)
        self.encoded = encoded(wire)
        read = {key: message[key] for key in _READ if key in message}
        calls = {"tool_calls": wire["tool_calls"]} if "tool_calls" in wire else {}
        self._packed: bytes = msgpack.packb({**read, **calls}, unicode_errors="surrogatepass")

    @property
    def size(self) -> int:
        """Bytes of its encoding and of what is read of it."""
        return len(self.encoded) + len(self._packed)

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = msgpack.unpackb(
            self._packed, strict_map_key=False, unicode_errors="surrogatepass"
        )
        return found

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def encoded_message(message: Mapping[str, Any]) -> bytes:
    return message.encoded if isinstance(message, EncodedMessage) else encoded(wire_message(message))


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def wire_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """``message`` with known keys only; a tool result's status and truncation become words the model can
    read.
    """
    wire = {key: message[key] for key in _KEYS if message.get(key) is not None}
    wire.setdefault("content", None if message.get("tool_calls") else "")
    if message.get("role") == "tool":
        wire.pop("name", None)
        status = message.get("status", "ok")
        if status != "ok":
            wire["content"] = f"The call ended with status {status}: {wire['content']}"
        if message.get("truncated"):
            wire["content"] = f"{wire['content']}\n[The result is longer; this is its beginning.]"
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        wire["tool_calls"] = [_past_call(call if isinstance(call, dict) else {}) for call in calls]
    return wire


def _past_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    name = _NAME.sub("_", str(function.get("name", "")))[:64] or "unnamed"
    arguments = str(function.get("arguments", ""))
    return {
        "id": call.get("id", ""),
        "type": "function",
        "function": {"name": name, "arguments": arguments if _is_object(arguments) else "{}"},
    }


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
