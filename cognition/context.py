"""What a model is shown, and what a session keeps. Pure.

A session's records are messages in the OpenAI chat shape. One *exchange* is a user message and everything up
to the next one. History is cut at whole exchanges: a tool result without its call, or a call without its
result, makes model servers refuse the request, so an exchange that is not sound is left out as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.abi import ToolCall, ToolResult

Record = dict[str, Any]
_MARK = " [shortened]"
_NOTE = "[note of the node: "


@dataclass(frozen=True, slots=True)
class ContextBounds:
    """What one agent shows a model and remembers.

    ``round_bytes``: all results of one round, shared out evenly. ``turn_bytes``: everything one turn adds.
    ``remember_bytes``: one exchange as the session keeps it.
    """

    calls_per_round: int = 32
    round_bytes: int = 256 * 2**10
    turn_bytes: int = 2 * 2**20
    remember_bytes: int = 64 * 2**10
    reply_bytes: int = 200 * 2**10


def estimate_tokens(record: Record) -> int:
    """A rough count: a token for each four bytes of UTF-8, and four for each message. docs/agent.md says how far that
    is off: some hundredths low for most text, more for digits and hexadecimal.
    """
    return record_bytes(record) // 4 + 4


def record_bytes(record: Record) -> int:
    """UTF-8 bytes of what the record says: content, and names and arguments of its tool calls."""
    size = _bytes(record.get("content"))
    for call in record.get("tool_calls") or ():
        function = call.get("function") or {}
        size += _bytes(function.get("name")) + _bytes(function.get("arguments"))
    return size


def _bytes(value: Any) -> int:
    if not isinstance(value, str):
        return 0
    return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))


def is_message(record: Record) -> bool:
    """Whether a record has the shape of a message, whatever it says."""
    calls = record.get("tool_calls") or []
    return (
        isinstance(record.get("content", ""), str | None)
        and isinstance(record.get("tool_call_id", ""), str)
        and isinstance(calls, list)
        and all(
            isinstance(call, dict)
            and isinstance(call.get("id"), str)
            and isinstance(call.get("function"), dict)
            for call in calls
        )
    )


def node_note(text: str) -> Record:
    """What the node says to a model between other messages. A session keeps none of it."""
    return {"role": "user", "content": f"{_NOTE}{text}]"}


def is_node_note(record: Mapping[str, Any]) -> bool:
    """Whether a message is such a note, and no request."""
    return str(record.get("content") or "").startswith(_NOTE)


def node_record(text: str) -> tuple[Record, Record]:
    """What the node has on record, as a message and the answer that it was read: it stands in the history, and is not
    dropped from it. A session keeps none of it.
    """
    told: Record = {
        "role": "user",
        "content": f"[record of the node: {text}]",
        "pinned": True,
        "section": "deeds",
    }
    return told, {"role": "assistant", "content": "Understood.", "pinned": True, "section": "deeds"}


def is_pinned(record: Record) -> bool:
    """Whether a message that stands before a question is not dropped: what the system says, and what is on record."""
    return record.get("role") == "system" or record.get("pinned") is True


def system_records(system_prompt: str) -> tuple[Record, ...]:
    """The system prompt as a model is shown it; nothing where it is empty."""
    return ({"role": "system", "content": system_prompt},) if system_prompt else ()


def newest(
    exchanges: Sequence[list[Record]], most_messages: int, most_tokens: int, beside: Sequence[Record]
) -> list[list[Record]]:
    """The newest exchanges, whole, that are so many messages at most and fit into ``most_tokens`` together with what
    stands ``beside`` them.
    """
    left, messages = most_tokens - sum(map(estimate_tokens, beside)), most_messages
    kept: list[list[Record]] = []
    for exchange in reversed(exchanges):
        left -= sum(map(estimate_tokens, exchange))
        messages -= len(exchange)
        if left < 0 or messages < 0:
            break
        kept.append(exchange)
    return kept[::-1]


def call_record(text: str, calls: Sequence[ToolCall]) -> Record:
    """The assistant's message that asks for ``calls``."""
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ],
    }


def result_records(
    calls: Sequence[ToolCall], results: Sequence[ToolResult], round_bytes: int
) -> list[Record]:
    """One tool message for each call. ``status`` and ``truncated`` stand there only when not ok, or cut.

    Together the results take ``round_bytes`` at most: each may use an even share.
    """
    share = round_bytes // max(1, len(calls))
    records: list[Record] = []
    for call, result in zip(calls, results, strict=True):
        text = cut_text(result.text, share)
        record: Record = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text}
        if result.status != "ok":
            record["status"] = result.status
        if result.truncated or len(text) < len(result.text):
            record["truncated"] = True
        records.append(record)
    return records


def cut_text(text: str, limit_bytes: int) -> str:
    """The longest beginning of ``text`` within ``limit_bytes`` of UTF-8."""
    if len(text) * 4 <= limit_bytes:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit_bytes else data[:limit_bytes].decode("utf-8", "ignore")


def remembered(exchange: Sequence[Record], reply: str, limit_bytes: int) -> tuple[Record, ...]:
    """What a session keeps of one turn: the exchange and its reply, or only what was asked and answered if
    too long.
    """
    final: Record = {"role": "assistant", "content": reply}
    whole = (*exchange, final)
    if len(json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace")) <= limit_bytes:
        return whole
    question = {**exchange[0], "content": shortened(exchange[0]["content"], limit_bytes // 4)}
    return (question, {**final, "content": shortened(reply, limit_bytes // 4)})


def shortened(text: str, limit_bytes: int) -> str:
    """``text``, or as much of its beginning as fits, with a word that it was longer."""
    if cut_text(text, limit_bytes) == text:
        return text
    return cut_text(text, limit_bytes - len(_MARK)) + _MARK
