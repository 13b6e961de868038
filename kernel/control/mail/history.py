"""What became of a message, step by step, out of the entries that tell of it. Pure: entries in, steps out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel.operations.messages import Step

Body = Mapping[str, Any]
ERASED = "what it says was erased"
_SAID: Mapping[str, tuple[str, Callable[[Body], str]]] = {
    "message.accepted": ("accepted", lambda body: f"from {body['sender']} to {body['to']}"),
    "message.sent": ("sent", lambda body: f"from {body['sender']} to {body['to']}"),
    "message.acknowledged": ("taken", lambda body: "by the other node"),
    "message.replied": ("answered", lambda body: f"by the other node: {body['status']}"),
    "message.unanswered": ("unanswered", lambda body: str(body["why"])),
    "turn.started": ("delivered", lambda body: f"attempt {body['attempt']}"),
    "process.exited": ("receiver exited", lambda body: _why(body["reason"], body["detail"])),
    "turn.steered": ("joined", lambda body: f"{', '.join(body['messages'])} joined {body['turn']}"),
    "turn.diverged": ("diverged", lambda body: f"at call {body['ordinal']}"),
    "turn.decided": ("decided", lambda body: str(body["decision"])),
    "turn.ended": ("turn ended", lambda body: str(body["status"])),
    "message.dead": ("dead", lambda body: _why(body.get("reason", ""), body["why"])),
    "message.replayed": (
        "replayed",
        lambda body: f"as {body.get('as', '?')}" + (f", to {body['to']}" if body.get("to") else ""),
    ),
    "message.dropped": ("dropped", lambda body: f"{body['why']} ({body.get('by') or 'nobody says by whom'})"),
    "message.cancelled": ("cancelled", lambda body: str(body["why"])),
}
KINDS = tuple(_SAID)
"""The kinds of entries that tell of a message or of the turn that handles it."""


def steps_of(rows: Iterable[Mapping[str, Any]]) -> list[Step]:
    """In the order of ``rows``, which are entries as the archive gives them."""
    return [_step(row) for row in rows if row["kind"] in _SAID]


def _step(row: Mapping[str, Any]) -> Step:
    event, detail = _SAID[row["kind"]]
    body = row["body"]
    return {
        "event": event,
        "detail": ERASED if body is None else detail(body),
        "pid": row["pid"],
        "seq": row["seq"],
        "time_us": row["time_us"],
    }


def _why(reason: str, more: str) -> str:
    return f"{reason}: {more}" if reason and more and not more.startswith(reason) else more or reason
