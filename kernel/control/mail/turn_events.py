"""What people may ask of turns: to see what happens in one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kernel.control.asked import Asked
from kernel.message.turn_feed import TurnFeed
from kernel.operations.operation import Handler
from kernel.operations.turns.events import FollowTurn, TurnEventRow, Turns


class TurnControl:
    """Turns, as they are seen."""

    def __init__(self, feed: TurnFeed) -> None:
        self._feed = feed

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Turns.events.by(self.events),)

    def events(self, asked: Asked, request: FollowTurn) -> AsyncIterator[TurnEventRow]:
        """A reader who leaves ends nothing but his reading."""
        wanted = request.resumed()
        return self._feed.follow(wanted.turn, wanted.start, wanted.follow)
