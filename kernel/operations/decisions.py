"""Operations on what waits for a person: tool calls in doubt, and turns that diverged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from kernel.operations.operation import Noun, Operation, Page

Resolution = Literal["retry", "done", "lost"]
Decision = Literal["again", "accept", "dead"]


@dataclass(frozen=True, slots=True)
class Resolve:
    """``retry`` the call, or say that it was ``done``, or that it is ``lost``."""

    id: str
    resolution: Resolution


@dataclass(frozen=True, slots=True)
class OfDoubt:
    """A call in doubt, by its ``id``."""

    id: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Hand the turn out ``again``, ``accept`` the new call, or ``dead``: give its message up."""

    id: str
    decision: Decision


class Doubt(TypedDict):
    """A tool call whose effect is unknown after a crash. ``effect_id``: what the other side knows it by, where the tool
    sends it on; ``probe``: what the tool's probe answered, empty where it has none.
    """

    id: str
    tool: str
    arguments: str
    address: str
    turn: str
    turn_open: bool
    attempt: int
    intent_seq: int
    effect_id: str
    probe: str


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
        "GET",
        "/doubts",
        Page,
        DoubtRows,
        "Tool calls in doubt, each of which waits for a person, by `intent_seq`; of the arguments the beginning.",
        after=lambda row: int(row["intent_seq"]),
    )
    show = Operation("GET", "/doubts/{id:path}", OfDoubt, Doubt, "One call in doubt whole.")
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
        Page,
        DivergenceRows,
        "Turns that diverged and wait for a person, by the number in `id`, each with both calls, `recorded`, `asked`.",
        after=lambda row: int(row["id"][1:]),
    )
    decide = Operation(
        "POST",
        "/divergences/{id}/decide",
        Decide,
        Decided,
        "Decide a parked turn: hand it out `again`, `accept` the new call, or `dead`: give its message up.",
        recorded="decide",
    )
