"""Answers of models: what is taken of one, the entry that holds it, and what a cell is told. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, get_args

from chain.entry.draft import Draft
from kernel.abi import ErrorKind, ModelAnswer, StopReason, ToolCall
from kernel.bounds import Bounds
from kernel.budget.price import NOTHING, Price
from kernel.budget.reservation import Reservation
from kernel.errors import Invalid
from kernel.slices.accounts import settled
from kernel.slices.turns import Turn
from kernel.values import canonical, clean

COUNTED = "input_tokens", "output_tokens", "cached_tokens"
"""By who asked the model; 0 for what it does not know."""
UNCOUNTED = "uncounted"
"""Of an error: the model was asked, and nobody says how much it has read and written."""
UNKNOWN = -1
MOST_RETRY_AFTER_S = 86_400.0
_ERROR_KINDS = frozenset(get_args(ErrorKind)) - {""}
_STOP_REASONS = frozenset(get_args(StopReason))


@dataclass(frozen=True, slots=True)
class AskedOf:
    """Who was asked, and what that costs; None: nobody has said it."""

    provider: str
    model: str
    price: Price | None = None


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
            "stop_reason": _word(answer.get("stop_reason", ""), _STOP_REASONS, ""),
        }
        if checked["status"] == "error":
            checked["error_kind"] = _word(answer.get("error_kind", ""), _ERROR_KINDS, "server")
            checked["retry_after_ms"] = _milliseconds(answer.get("retry_after_s", 0))
            if answer.get("uncounted") is True:
                checked[UNCOUNTED] = True
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(f"the gateway's answer is malformed: {type(error).__name__}") from error
    size = len(canonical(checked).encode())
    if size > bounds.model_answer_bytes:
        raise Invalid(f"the model's answer has {size} bytes, limit {bounds.model_answer_bytes}")
    return checked


def _count(value: Any) -> int:
    return max(0, min(int(value), 2**53))


def _word(value: Any, known: frozenset[str], otherwise: str) -> str:
    return value if isinstance(value, str) and value in known else otherwise


def _milliseconds(seconds: Any) -> int:
    given = float(seconds)
    return round(1000 * min(given, MOST_RETRY_AFTER_S)) if math.isfinite(given) and given > 0 else 0


def answered_draft(
    pid: int,
    turn: Turn,
    ordinal: str,
    answer: dict[str, Any],
    cause: int,
    of: AskedOf,
    kept: Reservation | None = None,
) -> Draft:
    """``kept``: what was reserved for the question."""
    answer = counted_as_reserved(answer, kept)
    body = {
        "turn": turn.id,
        "ordinal": ordinal,
        "status": answer["status"],
        "answer": canonical({"text": answer["text"], "tool_calls": answer["tool_calls"]}),
        **{name: answer[name] for name in COUNTED},
        "error_kind": answer.get("error_kind", ""),
        "retry_after_ms": answer.get("retry_after_ms", 0),
        "stop_reason": answer.get("stop_reason", ""),
        "provider": of.provider,
        "model": of.model,
    }
    body["cost_millionths"] = _cost(answer, body, of.price, kept)
    return Draft("model.answered", body, pid, turn.id, turn.mail.trace, cause)


def _cost(answer: dict[str, Any], body: dict[str, Any], price: Price | None, kept: Reservation | None) -> int:
    """In millionths. What is settled with who pays with money; else what was counted, at that price."""
    if kept is not None and kept.payers:
        return settled(body, kept)["money"]
    read, written, cached = (body[name] for name in COUNTED)
    nobody_counts = not (read or written) and (body["status"] == "ok" or answer.get(UNCOUNTED) is True)
    if price is None or (nobody_counts and price != NOTHING):
        return UNKNOWN
    return price.of(read, written, cached)


def error_answer(text: str, kind: ErrorKind) -> dict[str, Any]:
    """One that was come by here."""
    counted = dict.fromkeys(COUNTED, 0)
    return {"status": "error", "text": text, "tool_calls": [], "error_kind": kind, **counted}


def counted_as_reserved(answer: dict[str, Any], kept: Reservation | None) -> dict[str, Any]:
    """One that nobody has counted comes to what was reserved for its question."""
    if kept is None or not answer.get(UNCOUNTED):
        return answer
    return {**answer, "input_tokens": kept.input, "output_tokens": kept.tokens - kept.input}


def recorded_answer(outcome: dict[str, Any]) -> ModelAnswer:
    """The outcome of a question as the state holds it."""
    answer = json.loads(outcome["answer"])
    calls = tuple(ToolCall(call["name"], call["arguments"], call["id"]) for call in answer["tool_calls"])
    cost = outcome.get("cost_millionths", UNKNOWN)
    return ModelAnswer(
        outcome["status"],
        answer["text"],
        calls,
        **dict(zip(COUNTED, outcome["tokens"], strict=False)),
        error_kind=outcome.get("error_kind", ""),
        retry_after_s=outcome.get("retry_after_ms", 0) / 1000,
        stop_reason=outcome.get("stop_reason", ""),
        provider=outcome.get("provider", ""),
        model=outcome.get("model", ""),
        cost_millionths=None if cost == UNKNOWN else cost,
    )
