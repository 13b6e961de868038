"""What a model had said in a turn that is ended from outside, so that the session keeps it.

What is being said is held here as long as its question is under way; what was said whole is on record. A turn that is
cancelled, or cut short by the node, leaves its message and as much of an answer as there was, with a mark, as messages
in the shape of :class:`kernel.abi.ModelRequest`. A turn in which nothing was said or done leaves nothing.
"""

from __future__ import annotations

import json
from typing import Any

from kernel.slices.calls import call_id
from kernel.slices.turns import Call, Turn
from kernel.values import clean, cut_bytes

KEPT_BYTES = 32 * 2**10
"""Of the message, and of what was said."""
SHOWN_WHY_CHARS = 200
MARK = "[weftos: this turn was ended before its answer was whole: {why}]"


class PartialAnswers:
    """By the question, as ``turn:ordinal``."""

    def __init__(self) -> None:
        self._said: dict[str, list[str]] = {}
        self._chars: dict[str, int] = {}

    def said(self, stream: str, text: str) -> None:
        """More of an answer."""
        if self._chars.get(stream, 0) < KEPT_BYTES:
            self._said.setdefault(stream, []).append(text)
            self._chars[stream] = self._chars.get(stream, 0) + len(text)

    def whole(self, stream: str) -> None:
        """Nothing more comes, and what there is stands elsewhere; or it is void."""
        self._said.pop(stream, None)
        self._chars.pop(stream, None)

    def left_by(self, turn: Turn, why: str) -> list[dict[str, Any]]:
        """What the session is to keep of a turn that ends now for a reason of others."""
        asked = [call for call in turn.calls.values() if call.op == "model" and not call.aside]
        said = list(filter(None, (self._text(turn, call) for call in asked)))
        done = any(call.op == "tool" for call in turn.calls.values())
        if not asked or not (said or done):
            return []
        mark = MARK.format(why=" ".join(clean(why)[:SHOWN_WHY_CHARS].split()))
        text, _ = cut_bytes("\n\n".join(said), KEPT_BYTES)
        question, cut = cut_bytes(turn.mail.text, KEPT_BYTES)
        return [
            {"role": "user", "content": question + (" [shortened]" if cut else ""), "turn": turn.id},
            {"role": "assistant", "content": f"{text}\n\n{mark}" if text else mark},
        ]

    def _text(self, turn: Turn, call: Call) -> str:
        if call.outcome is None:
            return clean("".join(self._said.get(call_id(turn.id, call.ordinal), ())))
        answer = json.loads(call.outcome["answer"]) if call.outcome["status"] == "ok" else {}
        return str(answer.get("text", ""))
