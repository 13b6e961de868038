"""Answers of models: what is taken of one, the entry that holds it, and what a cell is told. Pure."""

from __future__ import annotations

import json
from typing import Any

from chain.entry.draft import Draft
from kernel.abi import ModelAnswer, ToolCall
from kernel.bounds import Bounds
from kernel.budget.reservation import Reservation
from kernel.errors import Invalid
from kernel.slices.turns import Turn
from kernel.values import canonical, clean

_COUNTED = "input_tokens", "output_tokens", "cached_tokens"
"""By who asked the model; 0 for what it does not know."""
UNCOUNTED = "uncounted"
"""Of an error: the model was asked, and nobody says how much it has read and written."""


def checked_answer(answer: Any, bounds: Bounds) -> dict[str, Any]:
    """A gateway's answer within bounds: what a provider says is hostile, and the gateway only carries it."""
    try:
        calls = [
            {
                "id": clean(str(item["id"]))[:128],
                "name": clean(str(item["name"]))[:128],
                "arguments": clean(str(item["arguments"])),
            }
            for item in answer["tool_calls"][: bounds.calls_per_round]
        ]
        checked = {
            "status": "ok" if answer["status"] == "ok" else "error",
            "text": clean(str(answer["text"])),
            "tool_calls": calls,
            "input_tokens": _count(answer["input_tokens"]),
            "output_tokens": _count(answer["output_tokens"]),
            "cached_tokens": _count(answer.get("cached_tokens", 0)),
        }
        if checked["status"] == "error" and answer.get("uncounted") is True:
            checked[UNCOUNTED] = True
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(f"the gateway's answer is malformed: {type(error).__name__}") from error
    size = len(canonical(checked).encode())
    if size > bounds.model_answer_bytes:
        raise Invalid(f"the model's answer has {size} bytes, limit {bounds.model_answer_bytes}")
    return checked


def _count(value: Any) -> int:
    return max(0, min(int(value), 2**53))


def answered_draft(pid: int, turn: Turn, ordinal: str, answer: dict[str, Any], cause: int) -> Draft:
    body = {
        "turn": turn.id,
        "ordinal": ordinal,
        "status": answer["status"],
        "answer": canonical({"text": answer["text"], "tool_calls": answer["tool_calls"]}),
        **{name: answer[name] for name in _COUNTED},
    }
    return Draft("model.answered", body, pid, turn.id, turn.mail.trace, cause)


def error_answer(text: str) -> dict[str, Any]:
    return {"status": "error", "text": text, "tool_calls": [], **dict.fromkeys(_COUNTED, 0)}


def counted_as_reserved(answer: dict[str, Any], kept: Reservation | None) -> dict[str, Any]:
    """One that nobody has counted comes to what was reserved for its question."""
    if kept is None or not answer.get(UNCOUNTED):
        return answer
    return {**answer, "input_tokens": kept.input, "output_tokens": kept.tokens - kept.input}


def recorded_answer(outcome: dict[str, Any]) -> ModelAnswer:
    """The outcome of a question as the state holds it."""
    answer = json.loads(outcome["answer"])
    calls = tuple(ToolCall(call["name"], call["arguments"], call["id"]) for call in answer["tool_calls"])
    return ModelAnswer(outcome["status"], answer["text"], calls, *outcome["tokens"])
