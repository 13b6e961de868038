"""Who of the peers is there: a table of states, and the liveness of each link, as values. No clock, no socket.

A peer is *known* when it is in the allow list. It is *up* while there is an authenticated link that has been
heard within ``lost_after_s``; anything at all counts as heard, and a link with nothing to say pings. There is
no suspicion by others yet: each node speaks for its own links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from mesh.errors import MembershipError


class PeerState(StrEnum):
    """``known``: nothing was tried yet, or it is for the peer to dial. ``lost``: was up, and is not."""

    KNOWN = "known"
    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"


class PeerEvent(StrEnum):
    """``dialled``: this node calls it from now on. ``closed``: the link of a peer that was up is gone."""

    DIALLED = "dialled"
    OPENED = "opened"
    CLOSED = "closed"


PEER_TABLE: Mapping[PeerState, Mapping[PeerEvent, PeerState]] = MappingProxyType(
    {
        PeerState.KNOWN: {
            PeerEvent.DIALLED: PeerState.CONNECTING,
            PeerEvent.OPENED: PeerState.UP,
        },
        PeerState.CONNECTING: {
            PeerEvent.DIALLED: PeerState.CONNECTING,
            PeerEvent.OPENED: PeerState.UP,
        },
        # A new link that replaces the old one (both dialled, or one side noticed a loss first) is no loss.
        PeerState.UP: {
            PeerEvent.OPENED: PeerState.UP,
            PeerEvent.CLOSED: PeerState.LOST,
            PeerEvent.DIALLED: PeerState.UP,
        },
        PeerState.LOST: {
            PeerEvent.DIALLED: PeerState.LOST,
            PeerEvent.OPENED: PeerState.UP,
        },
    }
)


@dataclass(frozen=True, slots=True)
class Member:
    """One peer as this node sees it. ``since_s``: when its state began, on the caller's monotonic clock.

    ``boot``: that of its newest link. ``why``: what ended the link of a peer that is lost.
    """

    origin: str
    state: PeerState = PeerState.KNOWN
    boot: str = ""
    since_s: float = 0.0
    why: str = ""


def advance(member: Member, event: PeerEvent, now_s: float, *, boot: str = "", why: str = "") -> Member:
    """``member`` after ``event``. Raises :class:`MembershipError` for a pair that is not in the table."""
    state = PEER_TABLE[member.state].get(event)
    if state is None:
        raise MembershipError(f"peer {member.origin} is {member.state} and cannot take {event}")
    since_s = member.since_s if state is member.state else now_s
    if event is PeerEvent.OPENED:
        return replace(member, state=state, boot=boot, since_s=since_s, why="")
    if event is PeerEvent.DIALLED:
        return replace(member, state=state, since_s=since_s)
    return replace(member, state=state, since_s=since_s, why=why)


@dataclass(frozen=True, slots=True)
class Pulse:
    """The liveness of one link. ``said_s`` and ``heard_s``: when something last went out, and came in."""

    said_s: float
    heard_s: float

    def said(self, now_s: float) -> Pulse:
        return replace(self, said_s=now_s)

    def heard(self, now_s: float) -> Pulse:
        return replace(self, heard_s=now_s)

    def is_lost(self, now_s: float, lost_after_s: float) -> bool:
        """Nothing came in for ``lost_after_s``."""
        return now_s - self.heard_s >= lost_after_s

    def owes_ping(self, now_s: float, interval_s: float) -> bool:
        """Nothing went out for ``interval_s``."""
        return now_s - self.said_s >= interval_s


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between dials: doubling from ``base_s`` to ``max_s``, each cut by up to half at random.

    The jitter keeps nodes that lost each other at one moment from dialling at one moment.
    """

    base_s: float = 0.2
    max_s: float = 15.0

    def delay_s(self, failures: int, jitter: float) -> float:
        """After ``failures`` failed dials in a row (0: the first retry), with ``jitter`` from [0, 1)."""
        full_s = min(self.max_s, self.base_s * 2.0 ** min(failures, 32))
        return full_s * (1.0 - jitter / 2.0)


def keeps_new_link(ours: str, theirs: str, *, dialled_by_us_old: bool, dialled_by_us_new: bool) -> bool:
    """Whether a second authenticated link to one peer takes the place of the first.

    Both nodes may dial at once; then both must keep the same link: the one that the smaller origin dialled. Two
    links dialled by the same side mean that the dialler gave up the first, whatever the other still thinks.
    """
    if dialled_by_us_old == dialled_by_us_new:
        return True
    return dialled_by_us_new == (ours < theirs)
