"""Bodies of entries about messages."""

from __future__ import annotations

from typing import Any


def message(ident: int, to: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{ident}", "sender": "operator", "to": to, "text": f"t{ident}", "session": "main",
        "reply_to": "", "wants_reply": False, "deadline_us": 0, "rights": None, "waiting": [],
        "kind": "message", "topic": "", "inbound": "", "rate": "", **more,
    }  # fmt: skip


def sent(ident: int, to: str, **more: Any) -> dict[str, Any]:
    body = message(ident, to, **{"peer": "o", "answers": "", "status": "", "answer_by_us": 0, **more})
    del body["kind"], body["topic"], body["inbound"], body["rate"]
    return body
