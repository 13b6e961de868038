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
      decide_head(name, take, told)     which of two heads that contradict each other counts
      processes_changed()               the advert is made anew, at most once in PUBLISH_S
      publish_head(note)                a full head (both signatures) of this boot, likewise
      rekey(keys)                       the node has other keys: peers are told, links stay

All on one event loop. A link that is up may be replaced by a new one: then ``on_up`` comes again without
``on_down``, and what was sent before may be lost. Outboxes send again at each ``on_up``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack

from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from chain.notes.note import parse
from mesh.bounded import Unbounded, unpack
from mesh.errors import (
    AdvertError,
    HelloError,
    MeshError,
    MeshFileError,
    PeersError,
    TokenRefused,
    TransportError,
)
from mesh.gossip.adverts import (
    MAX_ADVERT_BYTES,
    Advert,
    AdvertTable,
    ProcessAdvert,
    make_advert,
    read_advert,
)
from mesh.gossip.events import MeshEvents
from mesh.gossip.head_exchange import OPS as HEAD_OPS
from mesh.gossip.head_exchange import HeadExchange
from mesh.gossip.heads import HeadConflict, PeerHeads
from mesh.identity.identity import Before, Identity, PeerIdentity, check_hello
from mesh.identity.known_keys import KnownKeys
from mesh.identity.peers import AllowList, Peer, PeerStore
from mesh.identity.tokens import JoinClaim, JoinToken, TokenStore
from mesh.links.transport import Dial, Transport
from mesh.membership.membership import Member, PeerEvent, advance

PUBLISH_S = 1.0
ADVERT_EVERY_S = PUBLISH_S / 2
"""How often those of one peer are read: a long one takes many milliseconds. Of those between the last one counts."""
ADVERT_SLICE = 100
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
        self._me = me
        self._transport = transport
        self._tables = tables or {}
        self._now_us = now_us
        self._store = PeerStore(directory)
        self._heads = PeerHeads(directory / "heads")
        self._exchange = HeadExchange(self._heads, self._send_quietly, self._fault, self._now_us)
        self._known = KnownKeys(directory / "keys")
        self.tokens = TokenStore(directory, me.origin)
        self._list: AllowList = self._store.load().overlaid(self._tables)
        self._identities: dict[str, PeerIdentity] = {}
        self._members: dict[str, Member] = {}
        self._adverts = AdvertTable()
        self._unread: dict[str, tuple[PeerIdentity, bytes]] = {}
        self._advert_read_at: dict[str, float] = {}
        self._version = 0
        self._made: dict[bool, bytes] = {}
        self._head_note = b""
        self._rekeyed = False
        self._advert_due = self._head_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._showing: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop
        self._events: MeshEvents

    @property
    def origin(self) -> str:
        """This node's true name."""
        return self._me.origin

    async def open(self, events: MeshEvents, listen: str | None) -> str:
        """Listen (None: not at all) and begin to call; ``events`` is told what comes of it. The address with its true
        port, or empty.

        Raises :class:`TransportError`.
        """
        self._events = events
        self._exchange.open(events)
        self._loop = asyncio.get_running_loop()
        address = await self._transport.open(self, listen)
        for peer in self._list:
            self._call(peer)
        return address

    async def close(self) -> None:
        """End every link in order."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._showing:
            task.cancel()
        await asyncio.gather(*self._showing, return_exceptions=True)
        await self._exchange.close()
        await self._transport.close()

    # Peers.

    def peer(self, name: str) -> Peer | None:
        """The peer of that petname or origin."""
        return self._list.named(name)

    def peers(self) -> tuple[PeerView, ...]:
        """Every peer of the allow list, in its order."""
        return tuple(
            PeerView(
                peer,
                self._member(peer.origin),
                self._adverts.of(peer.origin),
                self._head_of(peer.origin),
                self._transport.silence_s(peer.origin),
                self._conflict_of(peer.origin),
            )
            for peer in self._list
        )

    def _head_of(self, origin: str) -> TreeHead | None:
        try:
            return self._heads.of(origin)
        except MeshFileError:
            return None

    def _conflict_of(self, origin: str) -> HeadConflict | None:
        try:
            return self._heads.conflict(origin)
        except MeshFileError:
            return None

    def decide_head(self, name: str, take: bool, told: Mapping[str, object]) -> TreeHead:
        """A person has decided which of two heads of a peer counts: the one shown (``take``) or the one kept.

        ``told`` is kept beside both. Raises :class:`PeersError`, :class:`MeshFileError`; nothing changed then.
        """
        peer = self._list.named(name)
        if peer is None:
            raise PeersError(f"no peer {name!r:.80}: weftos peer list shows them")
        return self._heads.decide(peer.origin, take, dict(told))

    def add_peer(self, peer: Peer) -> None:
        """Allow ``peer`` from now on. Raises :class:`PeersError`, :class:`MeshFileError`; nothing changed then."""
        if peer.origin == self.origin:
            raise PeersError(f"{peer.origin} is this node itself")
        self._list.with_peer(peer)
        self._list = self._overlaid(self._store.add(peer))
        self._call(peer)

    def remove_peer(self, name: str) -> Peer:
        """Allow it no longer, and end its link now. Raises :class:`PeersError`, :class:`MeshFileError`."""
        peer = self._list.named(name)
        if peer is None:
            raise PeersError(f"no peer {name!r:.80}: weftos peer list shows them")
        if any(table.get("origin") == peer.origin for table in self._tables.values()):
            raise PeersError(f"{peer.name} stands in the configuration: remove [peers.{peer.name}] there")
        rest = self._store.remove(peer.origin)
        self._transport.drop(peer.origin, "no longer a peer")
        self._list = self._overlaid(rest)
        self._members.pop(peer.origin, None)
        self._identities.pop(peer.origin, None)
        self._adverts.forget(peer.origin)
        self._known.forget(peer.origin)
        self._version += 1  # it holds this one, and may be a peer again with other rights
        self._made.clear()
        return peer

    def join(self, address: str, token: JoinToken) -> None:
        """Call the issuer of ``token`` and become its peer; ``on_up`` or ``on_refused`` follows.

        A peer already is only called.
        """
        known = self._list.get(token.issuer)
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
        self._advert_due = True
        self._publish_soon()

    def publish_head(self, note: bytes) -> None:
        """``note`` is the newest full head. An older boot's must not be given: it may be behind what peers hold.

        One of keys that the node has no more is passed over: the next is on its way.
        """
        if all(line.key_id != self._me.keys.ed25519.key_id for line in parse(note).signatures):
            return
        self._head_note = note
        self._head_due = True
        self._publish_soon()

    def rekey(self, keys: Keys) -> None:
        """Be the same node with other keys, also over the links that there are."""
        self._me = replace(self._me, keys=keys)
        self._transport.present(self._me)
        self._rekeyed = True
        self._head_note = b""
        self._made.clear()
        for peer in self._list:
            if peer.origin in self._identities:
                self._show_keys(peer)
        self.processes_changed()

    def _show_keys(self, peer: Peer) -> None:
        try:
            self.send_op(peer.origin, {"op": "hello", "hello": self._me.hello})
        except TransportError as error:
            self.cut(peer.origin, f"it cannot be shown the new keys: {error}")

    def _publish_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(PUBLISH_S, self._publish)

    def _publish(self) -> None:
        self._timer = None
        if self._head_due:
            for peer in self._list:
                if peer.origin in self._identities:
                    self._send_quietly(peer, {"op": "head", "note": self._head_note})
        if self._advert_due:
            self._version += 1
            self._made.clear()
            self._show_processes(list(self._list))
        self._advert_due = self._head_due = False

    def _show_processes(self, peers: list[Peer]) -> None:
        """Send the present advert to those of ``peers`` that are there, one a turn of the loop."""

        async def show() -> None:
            for peer in peers:
                advert = await self._advert("ps" in peer.may)
                if peer.origin in self._identities and self._list.get(peer.origin) == peer:
                    self._send_quietly(peer, {"op": "advert", "advert": advert})
                await asyncio.sleep(0)

        task = self._loop.create_task(show())
        self._showing.add(task)
        task.add_done_callback(self._showing.discard)

    async def _advert(self, shown: bool) -> bytes:
        """The present advert, with processes or only the node. Made a slice at a time: there may be thousands."""
        made = self._made.get(shown)
        if made is not None:
            return made
        rows: list[ProcessAdvert] = []
        version = self._version
        for row in self._events.processes() if shown else ():
            rows.append(row)
            if len(rows) % ADVERT_SLICE == 0:
                await asyncio.sleep(0)
        total = self._events.process_count() if shown else 0
        me = self._me
        made = make_advert(me.keys, me.boot, version, me.name, rows, total)
        if version == self._version:
            self._made[shown] = made
        return made

    def _send_quietly(self, peer: Peer, op: dict[str, Any]) -> None:
        """Send what the next one makes good if it is lost."""
        try:
            self.send_op(peer.origin, op)
        except TransportError as error:
            self._events.on_refused(peer.origin, str(error))

    # The transport's events.

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        if self._list.get(peer.origin) is not None:
            return self.recognise(peer)
        if join is None:
            return STRANGER
        try:
            added = Peer(self._list.petname(peer.name), peer.origin)
            self._list.with_peer(added)
            self.tokens.redeem(join, handshake_hash, peer.origin, self._now_us())
            self._list = self._overlaid(self._store.add(added))
        except TokenRefused as refused:
            return f"join token refused: {refused.rule}"
        except (PeersError, MeshFileError) as error:
            self._events.on_refused(peer.origin, str(error))
            return "no peer can be added here now"
        self._events.on_added(added, join.id)
        return ""

    def recognise(self, peer: PeerIdentity) -> str:
        try:
            self._known.check(peer)
        except MeshError as error:
            return str(error)
        return ""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        listed = self._list.get(peer.origin)
        if listed is None and dial is not None and dial.token is not None:
            listed = self._joined(peer, dial, dial.token)
        if listed is None:
            self._transport.drop(peer.origin, "no longer a peer")
            return
        self._exchange.down(
            peer.origin
        )  # a link before it may have been replaced, and what was on its way lost
        self._meet(peer)
        self._advance(peer.origin, PeerEvent.OPENED, boot=peer.boot)
        if self._rekeyed:
            self._show_keys(listed)  # the session may have begun before
        self._show_processes([listed])
        if self._head_note:
            self._send_quietly(listed, {"op": "head", "note": self._head_note})
        self._events.on_up(listed, peer)

    def on_down(self, origin: str, why: str) -> None:
        self._identities.pop(origin, None)
        self._exchange.down(origin)
        listed = self._list.get(origin)
        if listed is not None:
            self._advance(origin, PeerEvent.CLOSED, why=why)
            self._events.on_down(listed, why)

    def on_message(self, origin: str, message: bytes) -> None:
        listed, identity = self._list.get(origin), self._identities.get(origin)
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
            self._keep_advert(identity, op.get("advert"))
        elif op["op"] == "hello":
            self._take_hello(identity, op.get("hello"))
        elif op["op"] in HEAD_OPS:
            self._exchange.take(listed, identity, op)
        else:
            self._events.on_op(listed, op)

    def on_refused(self, who: str, why: str) -> None:
        self._events.on_refused(who, why)

    # What comes in.

    def _meet(self, peer: PeerIdentity) -> None:
        """From now on what ``peer`` says is checked under these keys, and older ones are refused."""
        self._identities[peer.origin] = peer
        try:
            self._known.take(peer)
        except MeshError as error:
            self._events.on_refused(peer.origin, str(error))

    def _take_hello(self, peer: PeerIdentity, data: object) -> None:
        """The peer has other keys; it is still the one at the other end of this session."""
        try:
            if not isinstance(data, bytes):
                raise HelloError("form", "not bytes")
            shown = Before(lambda origin: peer.chain if origin == peer.origin else ())
            now = check_hello(data, peer.noise, shown)
            if (now.origin, now.boot) != (peer.origin, peer.boot):
                raise HelloError("origin", f"{peer.origin} shows the hello of {now.origin}, boot {now.boot}")
            self._known.check(now)
        except MeshError as error:
            self._fault(peer.origin, str(error))
            return
        self._meet(now)

    def _keep_advert(self, peer: PeerIdentity, data: object) -> None:
        """An advert, to be read when it is this peer's turn again, unless another one has come by then."""
        if not isinstance(data, bytes):
            self._events.on_refused(peer.origin, f"advert from {peer.origin} is not bytes")
            return
        if len(data) > MAX_ADVERT_BYTES:
            why = f"advert from {peer.origin} of {len(data)} bytes, the limit is {MAX_ADVERT_BYTES}"
            self._events.on_refused(peer.origin, why)
            return
        waits = peer.origin in self._unread
        self._unread[peer.origin] = peer, data
        if not waits:
            due_s = self._advert_read_at.get(peer.origin, float("-inf")) + ADVERT_EVERY_S
            if due_s <= self._loop.time():
                self._take_advert(peer.origin)
            else:
                self._loop.call_at(due_s, self._take_advert, peer.origin)

    def _take_advert(self, origin: str) -> None:
        peer, data = self._unread.pop(origin)
        if origin not in self._identities:
            return
        self._advert_read_at[origin] = self._loop.time()
        try:
            self._adverts.take(read_advert(data, peer.origin, peer.ed25519.public_key), peer.boot)
        except AdvertError as error:
            self._events.on_refused(peer.origin, str(error))

    def _joined(self, peer: PeerIdentity, dial: Dial, token: JoinToken) -> Peer | None:
        """The issuer of our token let us in: it is a peer from now on, and called without the token."""
        added = Peer(self._list.petname(peer.name), peer.origin, dial.address)
        try:
            self._list.with_peer(added)
            self._list = self._overlaid(self._store.add(added))
        except (PeersError, MeshFileError) as error:
            self._events.on_refused(peer.origin, str(error))
            return None
        self._call(added)
        self._events.on_added(added, token.id)
        return added

    def _overlaid(self, stored: AllowList) -> AllowList:
        """The list under the configuration, but for tables that speak of a listed peer that is none now."""
        return stored.overlaid(
            {
                name: table
                for name, table in self._tables.items()
                if "origin" in table or stored.named(name) is not None
            }
        )

    def _fault(self, origin: str, why: str) -> None:
        self._events.on_refused(origin, why)
        self._transport.cut(origin, why)

    def _call(self, peer: Peer) -> None:
        if peer.address:
            self._advance(peer.origin, PeerEvent.DIALLED)
            self._transport.dial(Dial(peer.address, peer.origin))

    def _member(self, origin: str) -> Member:
        return self._members.get(origin) or Member(origin)

    def _advance(self, origin: str, event: PeerEvent, *, boot: str = "", why: str = "") -> None:
        self._members[origin] = advance(self._member(origin), event, self._loop.time(), boot=boot, why=why)
