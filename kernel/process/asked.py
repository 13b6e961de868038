"""What calls without an answer cost: the node holds each whole, and so does whoever works on it.

Counted from the moment a cell asks until the outcome is there or the turn has ended. A crash of the process does not
end a question that is put to a model already, so that counts on. Pure.
"""

from __future__ import annotations

from collections.abc import Collection


class Asked:
    """``bytes``: of all calls of all turns."""

    def __init__(self) -> None:
        self.bytes = 0
        self._turns: dict[str, dict[str, int]] = {}
        self._sums: dict[str, int] = {}

    def of(self, turn: str) -> int:
        """Bytes of the calls of one turn."""
        return self._sums.get(turn, 0)

    def size(self, turn: str, ordinal: str) -> int:
        """Bytes of one call; 0 when it is not counted."""
        calls = self._turns.get(turn)
        return 0 if calls is None else calls.get(ordinal, 0)

    def too_much(self, turn: str, ordinal: str, size: int, most_of_turn: int, most: int) -> str:
        """Why a call of that size is not to be counted, in bytes; empty when it may be."""
        more = size - self.size(turn, ordinal)
        held = self._sums.get(turn, 0) + more
        if held > most_of_turn:
            return f"the calls of this turn without an answer have {held} bytes, limit {most_of_turn}"
        held = self.bytes + more
        if held > most:
            return f"the calls of all turns without an answer have {held} bytes, limit {most}"
        return ""

    def hold(self, turn: str, ordinal: str, size: int) -> None:
        """Count a call, in the place of the same one asked before."""
        calls = self._turns.setdefault(turn, {})
        self._add(turn, size - calls.get(ordinal, 0))
        calls[ordinal] = size

    def release(self, turn: str, ordinal: str) -> None:
        """It has its outcome."""
        calls = self._turns.get(turn, {})
        if ordinal in calls:
            self._add(turn, -calls.pop(ordinal))
            if not calls:
                del self._turns[turn], self._sums[turn]

    def keep(self, turn: str, ordinals: Collection[str]) -> list[str]:
        """Nobody waits for the calls of a turn any more; ``ordinals`` go on all the same. Returns the others."""
        gone = [ordinal for ordinal in self._turns.get(turn, ()) if ordinal not in ordinals]
        for ordinal in gone:
            self.release(turn, ordinal)
        return gone

    def _add(self, turn: str, size: int) -> None:
        self.bytes += size
        self._sums[turn] = self._sums.get(turn, 0) + size
