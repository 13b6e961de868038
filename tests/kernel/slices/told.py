"""A state that is told entries; what a test looks at is what its slices make of them."""

from __future__ import annotations

from typing import Any

from kernel.slices.turns import Call
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from tests.kernel.twins.committed import LIMITS
from tests.kernel.twins.records import message

TRACE = b"t" * 16
HEAD: dict[str, Any] = {"turn": "t1", "ordinal": "0.0"}
WHOLE_INTENT: dict[str, Any] = {
    "effects": "external", "replaces": "x", "pid": 7, "on_doubt": "retry", "effect_id": "e", "probe": True,
}  # fmt: skip


class Told:
    """``entry`` gives the seq that the entry has; its time is a thousand microseconds more."""

    def __init__(self) -> None:
        self.state = State(*LIMITS)
        self.seq = 0

    def entry(self, kind: str, /, **body: Any) -> int:
        self.seq += 1
        self.state.apply_entry(kind, body, self.seq, 1000 + self.seq, TRACE)
        return self.seq

    def message(self, ident: int, to: str = "/a", **more: Any) -> int:
        return self.entry("message.accepted", **message(ident, to, **more))

    def turn(self, ident: int, address: str = "/a", **more: Any) -> int:
        """The message ``m<ident>`` is handed out."""
        given = {"turn": f"t{ident}", "message": f"m{ident}", "address": address, "attempt": 1, **more}
        return self.entry("turn.started", **given)

    def restored(self) -> State:
        """The state that a snapshot of this one comes to."""
        state = State(*LIMITS)
        restore_state(state, encode_state(self.state))
        return state


class Calling(Told):
    """The turn of ``m1`` at ``/a`` has begun."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.message(1)
        self.turn(1, **more)

    def propose(self, ordinal: str = "0.0", arguments: str = "{}", turn: str = "t1") -> int:
        body = {"turn": turn, "ordinal": ordinal, "call_hash": "h", "tool": "pay", "arguments": arguments}
        return self.entry("tool.proposed", **body)

    def intend(self, ordinal: str = "0.0", attempt: int = 1, turn: str = "t1", **more: Any) -> int:
        return self.entry("tool.intent", turn=turn, ordinal=ordinal, attempt=attempt, **more)

    def outcome(self, status: str, result: str = "", ordinal: str = "0.0", **more: Any) -> int:
        given = {"turn": "t1", "attempt": 1, "truncated": False, **more}
        return self.entry("tool.outcome", ordinal=ordinal, status=status, result=result, **given)

    def probed(self, answer: str, why: str = "", attempt: int = 1) -> None:
        self.entry("tool.probed", **HEAD, attempt=attempt, answer=answer, why=why)

    def resolve(self, resolution: str) -> None:
        self.entry("tool.resolved", **HEAD, resolution=resolution)

    def end(self) -> None:
        self.entry("turn.ended", turn="t1", status="ok")

    def call(self, ordinal: str = "0.0") -> Call:
        return self.state.turns["t1"].calls[ordinal]

    @property
    def open(self) -> list[str]:
        return [intent.id for intent in self.state.intents]
