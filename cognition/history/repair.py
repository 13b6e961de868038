"""A transcript that model servers take, made of whatever a session holds. Pure.

Servers refuse a request whose messages do not fit together: a result without its call, a call without its result, two
answers in a row. A session may hold such records: of a turn that was cut short, of a behaviour of another kind, of an
import. What is lost is said in its place, and nothing is made up.

left out       records that are no messages, system messages, internal ones (``internal``: true), results of calls that
               were not made, results that are there twice, an answer that repeats the one before it
put in         for a call without a result a result that says so, for a message without an answer an answer that says so
moved          results of one round stand in the order of their calls
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cognition.context import Record, is_message

NO_RESULT = "(no result of this call is on record)"
NO_ANSWER = "(no answer is on record)"


def repaired(history: Sequence[Record]) -> list[list[Record]]:
    """The exchanges of a session, oldest first: each a message, rounds of calls with their results, and an answer."""
    exchanges: list[list[Record]] = []
    for record in history:
        if not is_message(record) or record.get("internal") is True:
            continue
        role = record.get("role")
        if role == "user":
            exchanges.append([record])
        elif exchanges and role in ("assistant", "tool"):
            exchanges[-1].append(record)
    return [list(_whole(exchange)) for exchange in exchanges]


def _whole(exchange: list[Record]) -> Iterator[Record]:
    """One exchange in which everything has its counterpart."""
    yield exchange[0]
    used: set[str] = set()
    answer: Record | None = None
    at = 1
    while at < len(exchange):
        record, at = exchange[at], at + 1
        if record.get("role") == "tool":
            continue  # not behind its call: of none, or there twice
        calls = [call for call in record.get("tool_calls") or () if call["id"] not in used]
        if not calls:
            answer = _later(answer, record)
            continue
        if answer is not None:
            yield {**answer, "tool_calls": calls, "content": _joined(answer, record)}
            answer = None
        else:
            yield {**record, "tool_calls": calls}
        used |= {call["id"] for call in calls}
        end = at
        while end < len(exchange) and exchange[end].get("role") == "tool":
            end += 1
        yield from _results(calls, exchange[at:end])
        at = end
    yield answer or {"role": "assistant", "content": NO_ANSWER}


def _later(before: Record | None, record: Record) -> Record:
    """Two answers in a row are one; one that repeats the other is left out."""
    plain = {key: value for key, value in record.items() if key != "tool_calls"}
    if before is None or before.get("content") == record.get("content"):
        return plain
    return {**before, "content": _joined(before, record)}


def _joined(first: Record, second: Record) -> str:
    texts = [str(each.get("content") or "") for each in (first, second)]
    return "\n\n".join(text for text in texts if text)


def _results(calls: Sequence[dict[str, Any]], found: Sequence[Record]) -> Iterator[Record]:
    by_call = {record.get("tool_call_id"): record for record in reversed(found)}
    for call in calls:
        missing = {"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT, "status": "lost"}
        yield by_call.get(call["id"], missing)
