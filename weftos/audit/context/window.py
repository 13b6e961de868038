"""What a model was shown with one question of a turn, section by section: made of the ledger alone.

The messages are put together again from the entries and held to their hashes (:mod:`weftos.audit.questions`). Which of
them are of which section, and how many tokens that takes, is what the behaviour told beside its question.
"""

from __future__ import annotations

import json
from typing import Any

from kernel.cell.conversation import canonical_json
from kernel.values import sha256_hex
from weftos.audit.auditor import Auditor
from weftos.audit.questions import Questions, Unreadable
from weftos.errors import WeftosError
from weftos.json_object import Json

_NUMBERS = 5  # tokens, first, count, begin, end


def shown_window(auditor: Auditor, turn: str = "", question: int = 0) -> Json:
    """The window of the question of that number in a turn, from 1 on; 0: of the newest. Without a turn that which has
    put a question last. Raises WeftosError.
    """
    asked = [record for record in auditor.records() if record.entry.kind == "model.asked"]
    if not turn and not asked:
        raise WeftosError("the ledger knows no question to a model", "not_found")
    turn = turn or asked[-1].entry.subject
    asked = [record for record in asked if record.entry.subject == turn]
    if not asked:
        raise WeftosError(
            f"the ledger knows no question of a turn {turn}: weftos chain log --kind model.asked", "not_found"
        )
    if not 0 <= question <= len(asked):
        raise WeftosError(f"turn {turn} has put {len(asked)} questions: name one from 1 on", "not_found")
    number = question or len(asked)
    record = asked[number - 1]
    window: Json = {"turn": turn, "question": number, "of": len(asked), "seq": record.entry.seq}
    if record.erased:
        return window | {"fault": f"entry {record.entry.seq} is erased", "sections": []}
    body = record.body
    window |= {name: body.get(name) for name in ("ordinal", "provider", "model", "tools")}
    try:
        messages, fault = Questions(auditor.entry).read(record), ""
    except Unreadable as error:
        messages, fault = None, str(error)
    rows = _rows(body, messages)
    return window | {"fault": fault, "tokens": sum(row["tokens"] for row in rows), "sections": rows}


def _rows(body: Json, messages: list[Any] | None) -> list[Json]:
    told = _sections(body.get("sections", "[]"))
    if not told and messages is not None:  # of an older build, or a behaviour that tells of none
        told = [["messages", "", 0, 0, len(messages), 0, 0]]
    return [_row(section, messages) for section in told]


def _row(section: list[Any], messages: list[Any] | None) -> Json:
    name, source, tokens, first, count, begin, end = section
    row: Json = {
        "name": name,
        "source": source,
        "tokens": tokens,
        "messages": count,
        "sha256": "",
        "text": None,
    }
    if messages is None:
        return row
    of_it = messages[first : first + count]
    if end and of_it and isinstance(of_it[0], dict):
        text = str(of_it[0].get("content") or "")[begin:end]
    else:
        text = "\n".join(map(_said, of_it))
    return row | {"text": text, "sha256": sha256_hex(text)}


def _said(message: Any) -> str:
    """A message in words: who, what, and the calls in it."""
    if not isinstance(message, dict):
        return canonical_json(message)
    calls = [
        f"{call.get('function', {}).get('name')} {call.get('function', {}).get('arguments')}"
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    content = message.get("content")
    said = content if isinstance(content, str) else canonical_json(content)
    return f"{message.get('role')}: " + "\n".join(
        [*([said] if said else []), *(f"[call] {call}" for call in calls)]
    )


def _sections(text: str) -> list[list[Any]]:
    """What the entry tells, as far as it is of the shape that this build writes."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [each for each in found if _is_section(each)] if isinstance(found, list) else []


def _is_section(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2 + _NUMBERS
        and all(isinstance(each, str) for each in value[:2])
        and all(type(each) is int and each >= 0 for each in value[2:])
    )
