"""Operations on messages: send them, watch what comes of them, and what could not be delivered."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, NotRequired, TypedDict

from kernel.operations.operation import MAX_WAIT_S, Limit, Noun, OfTarget, Operation, Page, Stream

Session = Annotated[str, Limit(max_length=256)]


@dataclass(frozen=True, slots=True)
class Watch(OfTarget):
    """``text`` to send, in a ``session``; empty: the main one."""

    text: str
    _: KW_ONLY
    session: Session = ""


@dataclass(frozen=True, slots=True)
class Send(OfTarget):
    """``text`` to send, in a ``session``; ``wait_s``: how long to wait for the reply, None for not at all."""

    text: str
    _: KW_ONLY
    session: Session = ""
    wait_s: Annotated[float, Limit(gt=0, le=MAX_WAIT_S)] | None = None


@dataclass(frozen=True, slots=True)
class OfLetter:
    """A dead letter, by its ``id``."""

    id: str


class Sent(TypedDict):
    """The accepted message. ``status``, ``reply`` and ``turn`` where the reply was waited for."""

    message: str
    address: str
    seq: int
    status: NotRequired[str]
    reply: NotRequired[str]
    turn: NotRequired[str]


class DeadLetter(TypedDict):
    """``why`` it could not be delivered, and the entry (``seq``) that says so."""

    id: str
    sender: str
    to: str
    session: str
    text: str
    why: str
    seq: int
    time_us: int


class Replayed(TypedDict):
    """The new message."""

    message: str
    address: str
    seq: int


class Messages(Noun):
    """Messages to processes of this node and of others."""

    send = Operation(
        "POST",
        "/send",
        Send,
        Sent,
        "Send a message. With `wait_s` the answer holds the reply; `timeout` when there is none in time.",
        recorded="send",
    )
    watch = Stream(
        "POST",
        "/watch",
        Watch,
        dict[str, Any],
        "Send a message and stream what comes of it: objects with `event` accepted, turn, delta, tool, exit, diverged, "
        "reply, dead.",
        recorded="send",
    )
    deadletters = Operation(
        "GET",
        "/deadletters",
        Page,
        list[DeadLetter],
        "Messages that could not be delivered, oldest first, by `seq`; of each text the beginning.",
        after=lambda row: int(row["seq"]),
    )
    deadletter = Operation("GET", "/deadletters/{id:path}", OfLetter, DeadLetter, "One dead letter whole.")
    replay = Operation(
        "POST",
        "/deadletters/{id:path}/replay",
        OfLetter,
        Replayed,
        "Send a dead letter again, as a new message.",
        recorded="replay",
    )
