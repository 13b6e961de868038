"""Conversations that are taken over from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import Limit, Noun, Operation, Target

MOST_EXCHANGES = 1_000
MAX_SAID_CHARS = 256 * 1024
Said = Annotated[str, Limit(max_length=MAX_SAID_CHARS)]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """``exchanges``: [message, reply] each, oldest first. ``session`` empty: the usual one."""

    target: Target
    session: Annotated[str, Limit(max_length=200)]
    exchanges: Annotated[list[list[Said]], Limit(min_length=1, max_length=MOST_EXCHANGES)]

    def check(self) -> list[str]:
        """What is wrong with it."""
        wrong = [number for number, each in enumerate(self.exchanges) if len(each) != 2]
        return [f"exchanges.{number}: must be a message and a reply" for number in wrong[:5]]


class TakenOver(TypedDict):
    """How many exchanges the session has now; ``left_out``: older ones, for which there was no room."""

    address: str
    session: str
    exchanges: int
    left_out: int


class Transcripts(Noun):
    """Conversations as files."""

    take_over = Operation(
        "POST",
        "/transcripts",
        TakeOver,
        TakenOver,
        "Give a process a conversation to remember that it has not had; `conflict` where it has one of that name.",
        recorded="transcript",
    )
