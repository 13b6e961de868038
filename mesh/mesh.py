"""The mesh of one node: the one object that the kernel talks to.

It says who may come in (the allow list, or a join token, which adds to it), keeps calling the peers that have an
address, publishes this node's advert and newest head, and keeps those of its peers. Everything else that a peer
says is an *op*, a msgpack map with the key ``op``, and goes to the kernel as it is: the mesh says who spoke, and
the kernel what that peer may.

    Mesh(me, directory, transport, tables)      directory: <data>/mesh; tables: [peers.NAME] of weftos.toml
      await open(events, listen) -> address     await close()
      peers() -> tuple[PeerView, ...]   peer(name or origin) -> Peer | None
      add_peer(peer)   remove_peer(name or origin) -> Peer   join(address, token)   tokens: TokenStore
      send_op(origin, op)               raises LinkDown, LinkFull, MessageTooLarge
      cut(origin, why)                  end the link, so that both sides begin again
      decide_head(name, take, remarks)  which of two heads that contradict each other counts
      processes_changed()               the advert is made anew, at most once a second
      publish_head(note)                a full head (both signatures) of this boot, likewise
      rekey(keys)                       the node has other keys: peers are told, links stay

All on one event loop. A link that is up may be replaced by a new one: then ``on_up`` comes again without
``on_down``, and what was sent before may be lost. Outboxes send again at each ``on_up``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from mesh.bounded import Unbounded, unpack
from mesh.errors import MeshError, MeshFileError, PeersError, TokenRefused
from mesh.gossip.advert_reader import AdvertReader
from mesh.gossip.adverts import Advert
from mesh.gossip.events import MeshEvents
from mesh.gossip.head_exchange import OPS as HEAD_OPS
from mesh.gossip.head_exchange import HeadExchange
from mesh.gossip.heads import HeadConflict, PeerHeads
from mesh.gossip.publication import Publication
from mesh.identity.allowed import Allowed
from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.peers import Peer
from mesh.identity.presence import Presence
from mesh.identity.tokens import JoinClaim, JoinToken, TokenStore
from mesh.links.transport import Dial, Transport
from mesh.membership.membership import Member

MAX_OP_VALUES = 4_096
"""In one op; what is long in one (a message, an advert) is packed once more, as bytes. A spawn has 150."""
STRANGER = "this node is not in the allow list here: ask for a join token"


@dataclass(frozen=True, slots=True)
class PeerView:
    """A peer of the allow list as this node knows it. ``advert`` and ``head``: its newest, None if it gave none.

    ``silence_s``: since anything was heard of it, None when there is no link. ``conflict``: two heads of it that
    contradict each other, about which a person has to decide.
    """

    peer: Peer
    member: Member
    advert: Advert | None
    head: TreeHead | None
    silence_s: float | None
    conflict: HeadConflict | None = None


class Mesh:
    """See the module's text. Raises :class:`MeshFileError` or :class:`PeersError` for a list that cannot be read."""

    def __init__(
        self,
        me: Identity,
        directory: Path,
        transport: Transport,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.origin = me.origin
        self._transport = transport
        self._now_us = now_us
        self._events: MeshEvents
        self._allowed = Allowed(directory, me, tables or {})
        self._presence = Presence(self._allowed, directory / "keys", self.on_refused)
        self._heads = PeerHeads(directory / "heads")
        self._adverts = AdvertReader(self._presence, self.on_refused)
        self._publication = Publication(me, transport, self._presence, self.on_refused)
        self._exchange = HeadExchange(self._heads, self._publication.send, self._fault, now_us)
        self.tokens = TokenStore(directory, me.origin)

    async def open(self, events: MeshEvents, listen: str | None) -> str:
        """Listen (None: not at all) and begin to call; ``events`` is told what comes of it. The address with its true
        port, or empty.

        Raises :class:`TransportError`.
        """
        self._events = events
        self._exchange.open(events)
        self._publication.open(events)
        address = await self._transport.open(self, listen)
        for peer in self._allowed:
            self._call(peer)
        return address

    async def close(self) -> None:
        """End every link in order."""
        await self._publication.close()
        await self._exchange.close()
        await self._transport.close()

    # Peers.

    def peer(self, name: str) -> Peer | None:
        """The peer of that petname or origin."""
        return self._allowed.named(name)

    def peers(self) -> tuple[PeerView, ...]:
        """Every peer of the allow list, in its order."""
        return tuple(map(self._view, self._allowed))

    def _view(self, peer: Peer) -> PeerView:
        head = conflict = None
        with contextlib.suppress(MeshFileError):
            head = self._heads.of(peer.origin)
        with contextlib.suppress(MeshFileError):
            conflict = self._heads.conflict(peer.origin)
        return PeerView(
            peer,
            self._presence.member(peer.origin),
            self._adverts.of(peer.origin),
            head,
            self._transport.silence_s(peer.origin),
            conflict,
        )

    def decide_head(self, name: str, take: bool, remarks: Mapping[str, object]) -> TreeHead:
        """A person has decided which of two heads of a peer counts: the one shown (``take``) or the one kept.

        ``remarks`` are kept beside both. Raises :class:`PeersError`, :class:`MeshFileError`; nothing changed then.
        """
        return self._heads.decide(self._allowed.must(name).origin, take, dict(remarks))

    def add_peer(self, peer: Peer) -> None:
        """Allow ``peer`` from now on. Raises :class:`PeersError`, :class:`MeshFileError`; nothing changed then."""
        self._allowed.add(peer)
        self._call(peer)

    def check_change(self, add: Peer | None = None, remove: str = "") -> None:
        """Raises :class:`PeersError` where :meth:`add_peer` or :meth:`remove_peer` would."""
        if add is not None:
            self._allowed.check(add)
        if remove:
            self._allowed.check_remove(remove)

    def remove_peer(self, name: str) -> Peer:
        """Allow it no longer, and end its link now. Raises :class:`PeersError`, :class:`MeshFileError`."""
        peer, why = self._allowed.remove(name), "no longer a peer"
        there = self._presence.identity(peer.origin) is not None
        self._transport.drop(peer.origin, why)
        self._presence.forget(peer.origin)
        self._adverts.forget(peer.origin)
        self._publication.renew()
        if there:
            self._events.on_down(peer, why)
        return peer

    def join(self, address: str, token: JoinToken) -> None:
        """Call the issuer of ``token`` and become its peer; ``on_up`` or ``on_refused`` follows.

        A peer already is only called.
        """
        known = self._allowed.get(token.issuer)
        self._transport.dial(Dial(address, token.issuer, None if known is not None else token))

    # What goes out.

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None:
        """Send an op. It arrives once, whole and in order, or the link ends first.

        Raises :class:`LinkDown`, :class:`LinkFull`, :class:`MessageTooLarge`; then nothing was sent.
        """
        self._transport.send(origin, msgpack.packb(op))

    def cut(self, origin: str, why: str) -> None:
        """End the link with ``origin``; ``on_down`` follows, and a new link as for any that is lost."""
        self._transport.cut(origin, why)

    def processes_changed(self) -> None:
        """The next advert is due."""
        self._publication.processes_changed()

    def publish_head(self, note: bytes) -> None:
        """``note`` is the newest full head. An older boot's must not be given: it may be behind what peers hold.

        One of keys that the node has no more is passed over: the next is on its way.
        """
        self._publication.head(note)

    def rekey(self, keys: Keys) -> None:
        """Be the same node with other keys, also over the links that there are."""
        self._publication.rekey(keys)

    # The transport's events.

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        if self._allowed.get(peer.origin) is not None:
            return self.recognise(peer)
        if join is None:
            return STRANGER
        try:
            added = Peer(self._allowed.petname(peer), peer.origin)
            self._allowed.check(added)
            self.tokens.redeem(join, handshake_hash, peer.origin, self._now_us())
            self._allowed.add(added)
        except TokenRefused as refused:
            return f"join token refused: {refused.rule}"
        except (PeersError, MeshFileError) as error:
            self._events.on_refused(peer.origin, str(error))
            return "no peer can be added here now"
        self._events.on_added(added, join.id)
        return ""

    def recognise(self, peer: PeerIdentity) -> str:
        try:
            self._presence.recognise(peer)
        except MeshError as error:
            return str(error)
        return ""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        listed = self._allowed.get(peer.origin)
        if listed is None and dial is not None and dial.token is not None:
            listed = self._joined(peer, dial, dial.token)
        if listed is None:
            self._transport.drop(peer.origin, "no longer a peer")
            return
        self._exchange.down(
            peer.origin
        )  # a link before it may have been replaced, and what was on its way lost
        self._presence.opened(peer, asyncio.get_running_loop().time())
        self._publication.welcome(listed)
        self._events.on_up(listed, peer)

    def on_down(self, origin: str, why: str) -> None:
        self._exchange.down(origin)
        self._presence.closed(origin, why, asyncio.get_running_loop().time())
        listed = self._allowed.get(origin)
        if listed is not None:
            self._events.on_down(listed, why)

    def on_message(self, origin: str, message: bytes) -> None:
        listed, identity = self._allowed.get(origin), self._presence.identity(origin)
        if listed is None or identity is None:
            return
        try:
            op = unpack(message, MAX_OP_VALUES)
        except Unbounded as error:
            self._fault(origin, f"an op that is no bounded msgpack: {error}")
            return
        if not isinstance(op, dict) or not isinstance(op.get("op"), str):
            self._fault(origin, "an op that is no map with the key op")
        elif op["op"] == "advert":
            self._adverts.take(identity, op.get("advert"))
        elif op["op"] == "hello":
            self._take_hello(identity, op.get("hello"))
        elif op["op"] in HEAD_OPS:
            self._exchange.take(listed, identity, op)
        else:
            self._events.on_op(listed, op)

    def on_refused(self, who: str, why: str) -> None:
        self._events.on_refused(who, why)

    # What comes in.

    def _take_hello(self, peer: PeerIdentity, hello: object) -> None:
        """The peer has other keys; it is still the one at the other end of this session."""
        try:
            self._presence.rekeyed(peer, hello)
        except MeshError as error:
            self._fault(peer.origin, str(error))

    def _joined(self, peer: PeerIdentity, dial: Dial, token: JoinToken) -> Peer | None:
        """The issuer of our token let us in: it is a peer from now on, and called without the token."""
        added = Peer(self._allowed.petname(peer), peer.origin, dial.address)
        try:
            self._allowed.add(added)
        except (PeersError, MeshFileError) as error:
            self._events.on_refused(peer.origin, str(error))
            return None
        self._call(added)
        self._events.on_added(added, token.id)
        return added

    def _fault(self, origin: str, why: str) -> None:
        self._events.on_refused(origin, why)
        self._transport.cut(origin, why)

    def _call(self, peer: Peer) -> None:
        if peer.address:
            self._presence.dialled(peer.origin, asyncio.get_running_loop().time())
            self._transport.dial(Dial(peer.address, peer.origin))
