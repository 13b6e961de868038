"""What turns came to, kept to learn from; and what a person says of one."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal, TypedDict

from kernel.operations.operation import Limit, Noun, OfTarget, Operation

MOST_ROWS = 1_000
MAX_WHY_CHARS = 500
Thumb = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class ListTrajectories(OfTarget):
    """The newest ``limit`` of a process and its chats, of those that ended before entry ``before``; 0: of all."""

    _: KW_ONLY
    limit: Annotated[int, Limit(ge=1, le=MOST_ROWS)] = 100
    before: Annotated[int, Limit(ge=0, le=2**53)] = 0


class TrajectoryRow(TypedDict):
    """What a turn came to. ``request`` and ``response`` are the entries that say what was asked and answered,
    ``rated`` that of the thumb, -1 for none. ``scores``: what stage `score` gave, each from 0 to 1; none where it told
    of none. ``overall`` is that with the thumb: the mean of both, up being 1 and down 0; the thumb alone where there
    are no scores, null where there is neither. ``provider`` and ``model``: who answered last, or where nobody did, was
    asked last. ``cost_millionths`` (of the unit of money): null where nobody knows any
    of it; of ``cost_unknown`` questions nobody knows it. ``fallback_attempts``: questions that were not answered.
    """

    turn: str
    address: str
    session: str
    request: int
    response: int
    ended_us: int
    took_us: int
    outcome: str
    task_type: str
    scores: dict[str, float]
    thumb: Literal["", "up", "down"]
    rated: int
    overall: float | None
    provider: str
    model: str
    tool_rounds: int
    tool_calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_millionths: int | None
    cost_unknown: int
    fallback_attempts: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Rate:
    """``turn`` went well or not, and ``why``, in a few words."""

    turn: Annotated[str, Limit(min_length=2, max_length=24)]
    thumb: Thumb
    _: KW_ONLY
    why: Annotated[str, Limit(max_length=MAX_WHY_CHARS)] = ""


class Rated(TypedDict):
    """``seq``: the entry of it. ``before``: what was said before, which counts no more. ``overall``: the score with it,
    null where the node keeps no trajectory of the turn.
    """

    turn: str
    thumb: Thumb
    seq: int
    before: Literal["", "up", "down"]
    overall: float | None


class Trajectories(Noun):
    """What turns came to."""

    list = Operation(
        "GET",
        "/trajectories/{target:path}/list",
        ListTrajectories,
        list[TrajectoryRow],
        "What turns of a process and its chats came to, oldest first.",
    )
    rate = Operation(
        "POST",
        "/trajectories/{turn}/rate",
        Rate,
        Rated,
        "Say how a turn that has ended went: up or down. The newest word counts; all are on record.",
        recorded="rate_turn",
    )
