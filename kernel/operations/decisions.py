"""Operations on what waits for a person: tool calls in doubt, and turns that diverged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from kernel.operations.operation import Nothing, Noun, Operation

Resolution = Literal["retry", "done", "lost"]
Decision = Literal["again", "accept", "dead"]


@dataclass(frozen=True, slots=True)
class Resolve:
    """``retry`` the call, or say that it was ``done``, or that it is ``lost``."""

    id: str
    resolution: Resolution


@dataclass(frozen=True, slots=True)
class Decide:
    """Hand the turn out ``again``, ``accept`` the new call, or ``dead``: give its message up."""

    id: str
    decision: Decision


class Doubt(TypedDict):
    """A tool call whose effect is unknown after a crash."""

    id: str
    tool: str
    arguments: str
    address: str
    turn: str
    turn_open: bool
    attempt: int
    intent_seq: int


class Resolved(TypedDict):
    """What was decided."""

    id: str
    tool: str
    resolution: str


class RecordedCall(TypedDict):
    """A call as the record has it; ``truncated``: its arguments are cut."""

    op: str
    name: str
    arguments: str
    truncated: bool
    seq: int
    outcome: str


class AskedCall(TypedDict):
    """A call as it was asked instead."""

    op: str
    name: str
    arguments: str
    truncated: bool


class Divergence(TypedDict):
    """A parked turn, with both calls."""

    id: str
    address: str
    message: str
    ordinal: str
    seq: int
    time_us: int
    recorded: RecordedCall
    asked: AskedCall


class Decided(TypedDict):
    """What was decided, and of whose turn."""

    id: str
    address: str
    decision: str


DoubtRows = list[Doubt]
DivergenceRows = list[Divergence]


class Doubts(Noun):
    """Tool calls whose effect is unknown."""

    list = Operation(
        "GET", "/doubts", Nothing, DoubtRows, "Tool calls in doubt, each of which waits for a person."
    )
    resolve = Operation(
        "POST",
        "/doubts/{id:path}/resolve",
        Resolve,
        Resolved,
        "Decide a call in doubt: `retry` it, or say that it was `done`, or that it is `lost`.",
        recorded="resolve",
    )


class Divergences(Noun):
    """Turns that diverged, and are parked until a person decides."""

    list = Operation(
        "GET",
        "/divergences",
        Nothing,
        DivergenceRows,
        "Turns that diverged and wait for a person, each with both calls: `recorded` and `asked`.",
    )
    decide = Operation(
        "POST",
        "/divergences/{id}/decide",
        Decide,
        Decided,
        "Decide a parked turn: hand it out `again`, `accept` the new call, or `dead`: give its message up.",
        recorded="decide",
    )
