"""Open intents: tool calls that the node was about to make, and of which no outcome is recorded yet.

They are a part of the node's durable state, and kept apart from turns: a turn may end while its call runs, and what
became of the call must be found out, or said by a person, all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel.state.state import Call


def call_id(turn: str, ordinal: str) -> str:
    """What a call is named by, for people too: its turn and its ordinal there."""
    return f"{turn}:{ordinal}"


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """One of them. ``call`` is the turn's own record of it, as long as the turn is open."""

    turn: str
    address: str
    trace: bytes
    call: Call

    @property
    def id(self) -> str:
        return call_id(self.turn, self.call.ordinal)


class OpenIntents:
    """By :func:`call_id`. Changed only by the reducer of :class:`kernel.state.state.State`, and when a state is
    restored."""

    def __init__(self) -> None:
        self._open: dict[str, OpenIntent] = {}
        self._doubts: dict[str, int] = {}
        self.doubts_bytes = 0  # of what those that are in doubt hold

    def __iter__(self) -> Iterator[OpenIntent]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def get(self, ident: str) -> OpenIntent | None:
        return self._open.get(ident)

    def hold(self, intent: OpenIntent) -> None:
        """An intent was recorded; it takes the place of that of an earlier attempt."""
        self._open[intent.id] = intent
        self.look(intent.id)

    def settle(self, ident: str) -> None:
        """Its outcome was recorded, or that it is settled without one."""
        self._open.pop(ident, None)
        self.look(ident)

    def look(self, ident: str) -> None:
        """Whether its call is in doubt may be something else than before."""
        self.doubts_bytes -= self._doubts.pop(ident, 0)
        intent = self._open.get(ident)
        if intent is not None and intent.call.doubt:
            self._doubts[ident] = intent.call.bytes
            self.doubts_bytes += intent.call.bytes

    @property
    def doubts_count(self) -> int:
        return len(self._doubts)

    def doubts(self) -> list[OpenIntent]:
        """Those that wait for a person, oldest first."""
        return sorted((self._open[ident] for ident in self._doubts), key=lambda one: one.call.intent_seq)
