"""What a node needs of its links, as protocols: the mesh above, the links between, the wire below.

    Mesh       (mesh.py)       peers, adverts, heads: says who may come in, hears of links and messages
    Transport  (link_table.py) sessions over connections: handshake, one link a peer, heartbeat, redialling
    Wire       (mesh.wire)     connections that carry frames: ZeroMQ, or a twin in memory in the tests

Everything is called on one event loop and nothing blocks. A connection is a number that its wire never gives out
twice. Frames of one connection keep their order and whole frames arrive or none; that is all a wire promises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.tokens import JoinClaim, JoinToken


@dataclass(frozen=True, slots=True)
class Dial:
    """Whom to call: the node at ``address`` (``tcp://HOST:PORT``) must prove to be ``origin``.

    ``token`` joins: it is shown to the peer, which is not expected to know this node.
    """

    address: str
    origin: str
    token: JoinToken | None = field(default=None, repr=False)


class LinkEvents(Protocol):
    """What a transport tells, and asks, the mesh above it."""

    def admit(self, peer: PeerIdentity, join: JoinClaim | None, handshake_hash: bytes) -> str:
        """A node has dialled and proved who it is: may it come in? Empty for yes, else the reason it is told."""

    def recognise(self, peer: PeerIdentity) -> str:
        """A node that was called has proved who it is: is it to learn who called? Empty for yes, else why not."""

    def on_up(self, peer: PeerIdentity, dial: Dial | None) -> None:
        """There is a new link; ``dial`` when this node called. May come without :meth:`on_down` before it.

        Nothing that was sent over an earlier link can be relied on to have arrived.
        """

    def on_down(self, origin: str, why: str) -> None:
        """The peer's link is gone, and no other took its place."""

    def on_message(self, origin: str, message: bytes) -> None:
        """A message of the peer, whole, in the order it was sent."""

    def on_refused(self, who: str, why: str) -> None:
        """A link came to nothing: ``who`` is an origin when it was proved, else an address. Foreign text."""


class Transport(Protocol):
    """Authenticated links to peers, at most one each."""

    async def open(self, events: LinkEvents, listen: str | None) -> str:
        """Start. Returns the address listened on, with its true port; empty when ``listen`` is None.

        Raises :class:`TransportError`.
        """

    def dial(self, dial: Dial) -> None:
        """Keep a link to that node from now on: call, and call again with back-off whenever there is none."""

    def drop(self, origin: str, why: str) -> None:
        """Stop calling that node and end its link. :meth:`LinkEvents.on_down` follows if there was one."""

    def present(self, me: Identity) -> None:
        """Be ``me`` in every session that begins from now on: the same node, with other keys."""

    def cut(self, origin: str, why: str) -> None:
        """End its link, if there is one; the next call or its own makes a new one."""

    def silence_s(self, origin: str) -> float | None:
        """Seconds since anything was heard of the peer; None when there is no link."""

    def send(self, origin: str, message: bytes) -> None:
        """Queue a message of 1 byte to 16 MiB.

        Raises :class:`LinkDown`, :class:`LinkFull`, :class:`MessageTooLarge`; then nothing was queued.
        """

    async def close(self) -> None:
        """End every link in order, and stop."""


class WireEvents(Protocol):
    """What a wire tells of its connections."""

    def on_frame(self, conn: int, frame: bytes) -> None:
        """A frame. A number never seen before is a connection that somebody else has opened."""

    def on_gone(self, conn: int, why: str) -> None:
        """The connection has ended, and not by :meth:`Wire.close`. Its frames were all given before."""

    def on_writable(self, conn: int) -> None:
        """A connection that was full may have room again."""


class Wire(Protocol):
    """Connections that carry frames."""

    async def open(self, events: WireEvents, listen: str | None) -> str:
        """As :meth:`Transport.open`."""

    def dial(self, address: str) -> int:
        """A new connection; whether it comes about shows later. Raises :class:`TransportError` for no address."""

    def send(self, conn: int, frame: bytes) -> bool:
        """Whether the frame was taken; False when the connection is full (:meth:`WireEvents.on_writable` follows).

        A frame for a connection that has ended is taken and lost.
        """

    def address(self, conn: int) -> str:
        """Where the other side dialled from, as far as strangers are told apart by it; empty when nobody knows."""

    def trust(self, conn: int) -> None:
        """The other side is a peer now: the limits for strangers no longer hold."""

    def close(self, conn: int) -> None:
        """End a connection soon, with time for what was sent to go out. Nothing more is heard of it."""

    async def shut(self) -> None:
        """End everything."""
