"""Operations on peers: which nodes are allowed, whose heads count, and tokens to join by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import Limit, Nothing, Noun, OnWire, Operation

NodeName = Annotated[str, Limit(min_length=1, max_length=64)]
_Rights = Annotated[list[str], Limit(max_length=8)]
_Tools = Annotated[list[Annotated[str, Limit(max_length=64)]], Limit(max_length=1000)]
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class NewPeer:
    """A node, by its petname here and its ``origin``; where it listens; its rights (None: send and ps); the tools that
    may be used for it (None: those without effects; ``*``: every one)."""

    name: NodeName
    origin: NodeName
    _: KW_ONLY
    address: Annotated[str, Limit(max_length=300)] = ""
    may: Annotated[Sequence[str] | None, OnWire(_Rights | None)] = None
    tools: Annotated[Sequence[str] | None, OnWire(_Tools | None)] = None


@dataclass(frozen=True, slots=True)
class OfPeer:
    """A node, by its petname or its origin."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class DecideHead:
    """Which of two heads of a peer ``counts``: kept or shown; and why."""

    name: NodeName
    counts: Annotated[str, Limit(max_length=8)]
    reason: Annotated[str, Limit(max_length=1000)]


@dataclass(frozen=True, slots=True)
class NewToken:
    """How long it is good."""

    _: KW_ONLY
    lifetime_s: Annotated[int, Limit(ge=1)] = DAY_S


@dataclass(frozen=True, slots=True)
class OfToken:
    """A join token, by its ``id``."""

    id: NodeName


class PeerRow(TypedDict):
    """An allowed node."""

    name: str
    origin: str
    address: str
    may: list[str]
    tools: list[str] | None


class Conflict(TypedDict):
    """A head that contradicts the one that is kept: why, which, when it was shown, and both signed notes."""

    why: str
    size: int
    root: str
    at_us: int
    kept: str
    shown: str


class HeadRow(TypedDict):
    """The newest head kept of a peer."""

    name: str
    origin: str
    size: int
    root: str
    conflict: Conflict | None


class HeadDecided(TypedDict):
    """The head that counts from now on, why, and who says so."""

    origin: str
    name: str
    counts: str
    size: int
    root: str
    reason: str
    by: str


class TokenMade(TypedDict):
    """``token`` is shown this once."""

    id: str
    token: str
    lifetime_s: int


class TokenRow(TypedDict):
    """``status``: open, used, revoked or expired."""

    id: str
    status: str
    created_us: int
    expires_us: int
    used_by: str


class TokenRevoked(TypedDict):
    """``status``: revoked."""

    id: str
    status: str


PeerRows = list[PeerRow]
HeadRows = list[HeadRow]
TokenRows = list[TokenRow]


class Peers(Noun):
    """The nodes that this one talks with."""

    list = Operation("GET", "/cluster/peers", Nothing, PeerRows, "The allowed nodes, and what each may.")
    add = Operation(
        "POST", "/cluster/peers", NewPeer, PeerRow, "Allow a node from now on.", recorded="peer_add"
    )
    remove = Operation(
        "POST",
        "/cluster/peers/remove",
        OfPeer,
        PeerRow,
        "Allow a node no longer; what waits for it becomes dead letters.",
        recorded="peer_remove",
    )
    heads = Operation(
        "GET",
        "/cluster/heads",
        Nothing,
        HeadRows,
        "The newest head kept of each peer; `conflict`: the one that contradicts it.",
    )
    decide = Operation(
        "POST",
        "/cluster/heads/decide",
        DecideHead,
        HeadDecided,
        "Decide which of two heads of a peer counts: `kept` or `shown`.",
        recorded="head_decide",
    )


class Tokens(Noun):
    """Join tokens: each lets one node in, once."""

    list = Operation("GET", "/cluster/tokens", Nothing, TokenRows, "Join tokens; never their secrets.")
    create = Operation(
        "POST",
        "/cluster/tokens",
        NewToken,
        TokenMade,
        "A join token for one node; its text is shown this once.",
        recorded="token_create",
    )
    revoke = Operation(
        "POST",
        "/cluster/tokens/{id}/revoke",
        OfToken,
        TokenRevoked,
        "Let nobody in by a token any more.",
        recorded="token_revoke",
    )
