"""Links: one authenticated session a peer, over whatever wire.

Who decides what:

- A frame from a connection that nobody knows begins a session or is answered with a reset. No more than
  ``half_open_sessions`` of strangers are under way at once, none longer than ``handshake_timeout_s``; each address has
  a share of these, and a newcomer is never turned away for those who came before (:mod:`mesh.links.strangers`).
- The session says who the peer is; :meth:`LinkEvents.admit` says whether it may come in. Of two links with one
  peer :func:`membership.keeps_new_link` says which stays.
- Anything heard is a sign of life; a link with nothing to say sends an empty message each ``heartbeat_s`` and is
  lost after ``lost_after_s`` of silence.
- A fault in a session ends its connection. The next session is a new one; nothing is repaired or resent here.
- A peer that opens links too often is refused, and calls again later; what changes of keys cost is bounded too
  (:mod:`mesh.links.openings`). Who is called, and when again: :mod:`mesh.links.calls`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from mesh.bounds import DEFAULT_BOUNDS, MAX_MESSAGE_BYTES, MeshBounds, ReassemblyBudget
from mesh.errors import LinkDown, MessageTooLarge, PeerRefused, SessionBroken, TransportError
from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.tokens import JoinClaim
from mesh.links.calls import Calls
from mesh.links.link import Link
from mesh.links.openings import Openings
from mesh.links.session import (
    RESET_FRAME,
    Closed,
    Identified,
    Opened,
    Received,
    Send,
    Session,
    begins_session,
)
from mesh.links.strangers import Strangers
from mesh.links.transport import Dial, LinkEvents, Wire
from mesh.membership.membership import Backoff, Pulse, keeps_new_link

SECOND_LINK = "another link is kept"
TOO_OFTEN = "links between these nodes opened too often: call again later"


class LinkTable:
    """The :class:`Transport` of a node. ``jitter`` draws from [0, 1)."""

    def __init__(
        self,
        me: Identity,
        wire: Wire,
        bounds: MeshBounds = DEFAULT_BOUNDS,
        backoff: Backoff | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._me = me
        self._wire = wire
        self._bounds = bounds
        self._budget = ReassemblyBudget(bounds.reassembly_bytes)
        self._events: LinkEvents
        self._links: dict[int, Link] = {}
        self._up: dict[str, Link] = {}
        self._calls = Calls(self._call, self._up.__contains__, backoff or Backoff(), jitter)
        self._openings = Openings(bounds)
        self._half_open: Strangers[Link] = Strangers(bounds.half_open_sessions, bounds.half_open_per_address)
        self._ticker: asyncio.TimerHandle | None = None
        self._closed = False

    async def open(self, events: LinkEvents, listen: str | None) -> str:
        self._events = events
        return await self._wire.open(self, listen)

    def dial(self, dial: Dial) -> None:
        self._end_call(self._calls.begin(dial))

    def drop(self, origin: str, why: str) -> None:
        self._end_call(self._calls.end(origin))
        self.cut(origin, why)
        self._openings.forget(origin)

    def _end_call(self, call: Link | None) -> None:
        if call is not None:
            self._end(call, "no longer wanted")

    def present(self, me: Identity) -> None:
        self._me = me

    def cut(self, origin: str, why: str) -> None:
        link = self._up.get(origin)
        if link is not None:
            self._end(link, why, say=True)

    @property
    def connections(self) -> int:
        """All there are: links, calls under way, and strangers at the door."""
        return len(self._links)

    def silence_s(self, origin: str) -> float | None:
        link = self._up.get(origin)
        return None if link is None else link.silence_s

    def send(self, origin: str, message: bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            raise MessageTooLarge(len(message), MAX_MESSAGE_BYTES)
        link = self._up.get(origin)
        if link is None:
            raise LinkDown(f"there is no link to {origin}")
        link.send(message)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
        self._calls.close()
        for link in list(self._links.values()):
            self._end(link, "the node stops", say=True)
        await self._wire.shut()

    # The wire's events.

    def on_frame(self, conn: int, frame: bytes) -> None:
        link = self._links.get(conn) or self._accept(conn, frame)
        if link is None:
            return
        link.hear()
        try:
            for event in link.session.receive(frame):
                match event:
                    case Send(reply):
                        link.push(reply)
                    case Received(data):
                        if data:
                            self._events.on_message(link.origin, data)
                    case Identified(peer, join):
                        self._decide(link, peer, join)
                    case Opened(peer):
                        self._opened(link, peer)
                    case Closed(why):
                        self._end(link, f"closed by the peer: {why!r:.220}")
                if self._links.get(conn) is not link:
                    return
        except SessionBroken as broken:
            if broken.farewell is not None:
                self._wire.send(conn, broken.farewell)
            self._broken(link, broken)
        except Exception as fault:  # of ours, at words of this peer: it costs him his link, and nobody else
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a frame of {link.name} was not understood", "exception": fault}
            )
            self._end(link, f"a frame of it was not understood ({type(fault).__name__})", say=True)

    def on_gone(self, conn: int, why: str) -> None:
        link = self._links.get(conn)
        if link is not None:
            self._end(link, why)
            if link.dial is not None and not link.open:
                self._events.on_refused(link.dial.address, why)

    def on_writable(self, conn: int) -> None:
        link = self._links.get(conn)
        if link is not None:
            link.flush_soon()

    # Sessions, from the first frame to the verdict.

    def _accept(self, conn: int, frame: bytes) -> Link | None:
        """A link for a connection that somebody else has opened, if it may have one."""
        if not begins_session(frame):
            if frame != RESET_FRAME:
                self._wire.send(conn, RESET_FRAME)
            self._wire.close(conn)
            return None
        if self._closed:
            self._wire.close(conn)
            return None
        link = self._new_link(conn, None)
        if (pushed := self._half_open.enter(link, self._wire.address(conn))) is not None:
            self._end(pushed, "it was not done with its handshake when another one came")
        return link

    def _new_link(self, conn: int, dial: Dial | None) -> Link:
        before = self._openings.before(self._wire.address(conn), dial is not None)
        session = Session(dial is not None, self._me, self._budget, before)
        self._links[conn] = link = Link(conn, session, self._wire, dial)
        if self._ticker is None:
            self._tick_later()
        return link

    def _call(self, dial: Dial) -> Link | None:
        """The link of a call, whose session is yet to begin; None when the node cannot be called now."""
        try:
            conn = self._wire.dial(dial.address)
        except TransportError as error:
            self._events.on_refused(dial.address, str(error))
            return None
        return self._new_link(conn, dial)

    def _decide(self, link: Link, peer: PeerIdentity, join: JoinClaim | None) -> None:
        """Say yes or no to a peer that has proved who it is."""
        why, report = "", True
        if link.dial is not None:
            if peer.origin != link.dial.origin:
                why = f"the node there is {peer.origin}, expected was {link.dial.origin}"
            else:
                why = TOO_OFTEN if self._openings.too_often(peer.origin) else self._events.recognise(peer)
        elif not self._keeps(link, peer):
            why, report = SECOND_LINK, False
        elif self._openings.too_often(peer.origin):
            why = TOO_OFTEN
        else:
            why = self._events.admit(peer, join, link.session.handshake_hash)
        if why:
            for frame in link.session.refuse(why):
                self._wire.send(link.conn, frame)
            who = peer.origin if link.dial is None else link.dial.address
            self._end(link, why)
            if report:
                self._events.on_refused(who, why)
            return
        for frame in link.session.accept(link.dial.token if link.dial is not None else None):
            link.push(frame)
        if link.dial is None:
            self._opened(link, peer)

    def _keeps(self, link: Link, peer: PeerIdentity) -> bool:
        """Whether ``link`` may be the one link with ``peer``. A peer that has booted anew has no other."""
        old = self._up.get(peer.origin)
        if old is None or old.session.peer is None or old.session.peer.boot != peer.boot:
            return True
        return keeps_new_link(
            self._me.origin,
            peer.origin,
            dialled_by_us_old=old.dial is not None,
            dialled_by_us_new=link.dial is not None,
        )

    def _opened(self, link: Link, peer: PeerIdentity) -> None:
        if not self._keeps(link, peer):
            self._end(link, SECOND_LINK, say=True)
            return
        self._half_open.leave(link)
        self._openings.opened(peer)
        self._calls.opened(peer.origin)
        link.admit(peer.origin)
        old = self._up.get(peer.origin)
        self._up[peer.origin] = link
        if old is not None:
            self._end(old, "a new link took its place", say=True)
        self._wire.trust(link.conn)
        self._events.on_up(peer, link.dial)

    def _broken(self, link: Link, broken: SessionBroken) -> None:
        """A session that failed; who was refused for good does not call again with the same token."""
        dial, was_open = link.dial, link.open
        second = isinstance(broken, PeerRefused) and broken.why == SECOND_LINK
        if isinstance(broken, PeerRefused) and not second and dial is not None and dial.token is not None:
            self._calls.end(dial.origin)
        self._end(link, str(broken))
        if not was_open and not second:
            self._events.on_refused(dial.address if dial is not None else link.name, str(broken))

    # Life and death of a link.

    def _end(self, link: Link, why: str, *, say: bool = False) -> None:
        """The link is over; ``say``: tell the peer, if it can be told."""
        if self._links.pop(link.conn, None) is None:
            return
        self._half_open.leave(link)
        if was_up := link.open and self._up.get(link.origin) is link:
            del self._up[link.origin]
        try:
            if say:
                link.end(why)
            else:
                link.abandon()
            self._wire.close(link.conn)
            if was_up:
                self._events.on_down(link.origin, why)
        finally:
            self._calls.over(link)

    def _tick(self) -> None:
        """Each quarter of a heartbeat, if there is a link: end what is silent or slow, ping where nothing was said."""
        self._ticker = None
        try:
            self._look()
        finally:
            if self._links and self._ticker is None:
                self._tick_later()

    def _look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        bounds = self._bounds
        for link in list(self._links.values()):
            if not link.open:
                if now_s - link.began_s >= bounds.handshake_timeout_s:
                    self._end(link, f"no handshake within {bounds.handshake_timeout_s:g} s")
                    self._events.on_refused(
                        link.name, f"no handshake within {bounds.handshake_timeout_s:g} s"
                    )
                continue
            pulse = Pulse(link.said_s, link.heard_s)
            if pulse.is_lost(now_s, bounds.lost_after_s):
                self._end(link, f"silent for {bounds.lost_after_s:g} s")
            elif pulse.owes_ping(now_s, bounds.heartbeat_s) and not link.blocked:
                for frame in link.session.seal(b""):
                    link.push(frame)

    def _tick_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticker = loop.call_later(self._bounds.heartbeat_s / 4, self._tick)
