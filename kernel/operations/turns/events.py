"""What is seen of a turn while it runs and afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict

from kernel.operations.operation import Limit, Noun, Stream

EventName = Literal[
    "llm_token",
    "action_started",
    "shield_verdict",
    "action_completed",
    "sub_agent_spawned",
    "sub_agent_progress",
    "sub_agent_completed",
    "sub_agent_failed",
    "sub_agent_cancelled",
    "memory_flush",
    "reset",
    "error",
    "response_complete",
    "lost",
]
"""``lost`` is said to one reader, of events that are not kept any more; it is none of the turn."""
MOST_OFFSET = 2**53
MAX_ID_CHARS = 120


class TurnEventRow(TypedDict):
    """``offset`` counts the events of the turn from 0, ``step`` is the call (round and index) that it belongs to, empty
    for the turn as a whole. What ``data`` holds, docs/agent.md says for each ``event``.
    """

    turn: str
    offset: int
    event: EventName
    time_us: int
    step: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FollowTurn:
    """The events of a turn from number ``start`` on; without ``follow`` those that there are now.

    ``last_event_id``: the id of the last event that was seen, TURN/OFFSET, in place of ``start``; over HTTP also the
    head ``Last-Event-ID``.
    """

    turn: Annotated[str, Limit(min_length=1, max_length=100)]
    start: Annotated[int, Limit(ge=0, le=MOST_OFFSET)] = 0
    follow: bool = True
    last_event_id: Annotated[str, Limit(max_length=MAX_ID_CHARS)] = ""

    def check(self) -> list[str]:
        """What is wrong with it."""
        turn, _, offset = self.last_event_id.rpartition("/")
        if not self.last_event_id:
            return []
        if not (turn and offset.isascii() and offset.isdigit() and int(offset) < MOST_OFFSET):
            return [
                f"last_event_id: {self.last_event_id!r:.60} is no id of an event; they read TURN/OFFSET: t12/7"
            ]
        if turn != self.turn:
            return [f"last_event_id: it is of turn {turn:.40}, and {self.turn:.40} was asked for"]
        return []

    def resumed(self) -> FollowTurn:
        """The same with ``start`` behind the last event that was seen."""
        if not self.last_event_id:
            return self
        return replace(self, start=int(self.last_event_id.rpartition("/")[2]) + 1, last_event_id="")


def id_of(row: TurnEventRow) -> str:
    """What a reader names it by who comes again; empty for what is no event of the turn."""
    return "" if row["event"] == "lost" else f"{row['turn']}/{row['offset']}"


class Turns(Noun):
    """Turns."""

    events = Stream(
        "GET",
        "/turns/{turn}/events",
        FollowTurn,
        TurnEventRow,
        "What is seen of a turn: its events from `start` on, until it has ended or, without `follow`, those that there "
        "are. With `Accept: text/event-stream` they come as server-sent events.",
        event_id=id_of,
    )
