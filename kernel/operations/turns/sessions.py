"""The conversations that a process has: those of chats, each with a process of its own, and its others."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, TypedDict

from kernel.operations.operation import Limit, Noun, OfTarget, Operation

MOST_RECORDS = 1_000
SessionState = Literal["running", "busy", "starting", "asleep", "stopped", "parked"]


@dataclass(frozen=True, slots=True)
class OfSession(OfTarget):
    """The session of that name of a process; of a chat it is ``CHANNEL:CHAT``."""

    session: Annotated[str, Limit(min_length=1, max_length=1_100)]


@dataclass(frozen=True, slots=True)
class ShowSession(OfSession):
    """With the newest ``limit`` records of it."""

    _: KW_ONLY
    limit: Annotated[int, Limit(ge=0, le=MOST_RECORDS)] = 50


class SessionRow(TypedDict):
    """``address``: of the process that has it. ``state``: of the process of a chat (asleep: its next message wakes it);
    ``busy``: a turn is open. ``waiting``: messages that wait for it. What is kept of it are ``records`` in so many
    ``bytes``. ``model`` is what its chat prefers, empty for what is configured. ``chat``: whether it is one's.
    """

    session: str
    address: str
    chat: bool
    state: SessionState
    turn: str
    waiting: int
    records: int
    bytes: int
    model: str


class SessionShown(SessionRow):
    """``shown``: the newest records as the behaviour left them, oldest first."""

    shown: list[dict[str, Any]]


class SessionDeleted(TypedDict):
    """What is not remembered any more; ``removed``: the process of a chat is gone with it."""

    session: str
    address: str
    records: int
    removed: bool


class SummaryUndone(TypedDict):
    """The summary, by the SHA-256 of what it is of, and how many records those were."""

    session: str
    address: str
    sha256: str
    records: int


class Sessions(Noun):
    """Conversations of a process."""

    list = Operation(
        "GET",
        "/sessions/{target:path}/list",
        OfTarget,
        list[SessionRow],
        "The sessions of a process: first those of chats as they were made, then those that it keeps itself.",
    )
    show = Operation(
        "GET",
        "/sessions/{target:path}/show",
        ShowSession,
        SessionShown,
        "One session, with what is kept of it.",
    )
    delete = Operation(
        "POST",
        "/sessions/{target:path}/delete",
        OfSession,
        SessionDeleted,
        "Forget a session in which nothing is being answered; the process of a chat goes with it. What the ledger has "
        "of it stays: `erase` takes that away.",
        recorded="delete_session",
    )
    undo = Operation(
        "POST",
        "/sessions/{target:path}/undo",
        OfSession,
        SummaryUndone,
        "Have the newest summary of a session be as if it were not: what it is of is shown again, as far as it is "
        "kept, and the session is put into fewer words no sooner than some turns later.",
        recorded="undo_summary",
    )
