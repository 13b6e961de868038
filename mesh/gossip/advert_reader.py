"""Adverts as they come: of each peer one is read in ``ADVERT_EVERY_S``, since a long one takes many milliseconds.

Of those that come between, the last one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mesh.errors import AdvertError
from mesh.gossip.adverts import MAX_ADVERT_BYTES, Advert, AdvertTable, read_advert
from mesh.gossip.publication import PUBLISH_S
from mesh.identity.identity import PeerIdentity
from mesh.identity.presence import Presence

ADVERT_EVERY_S = PUBLISH_S / 2


class AdvertReader:
    """Keeps the newest advert of each peer. ``refused(who, why)`` is told of others."""

    def __init__(self, presence: Presence, refused: Callable[[str, str], None]) -> None:
        self._presence = presence
        self._refused = refused
        self._newest = AdvertTable()
        self._unread: dict[str, tuple[PeerIdentity, bytes]] = {}
        self._read_at: dict[str, float] = {}

    def of(self, origin: str) -> Advert | None:
        """The newest of ``origin``, which may be long gone."""
        return self._newest.of(origin)

    def forget(self, origin: str) -> None:
        """The peer was removed."""
        self._newest.forget(origin)

    def take(self, peer: PeerIdentity, data: object) -> None:
        """An advert, to be read when it is this peer's turn again, unless another one has come by then."""
        if not isinstance(data, bytes):
            self._refused(peer.origin, f"advert from {peer.origin} is not bytes")
            return
        if len(data) > MAX_ADVERT_BYTES:
            why = f"advert from {peer.origin} of {len(data)} bytes, the limit is {MAX_ADVERT_BYTES}"
            self._refused(peer.origin, why)
            return
        waits = peer.origin in self._unread
        self._unread[peer.origin] = peer, data
        if not waits:
            loop = asyncio.get_running_loop()
            due_s = self._read_at.get(peer.origin, float("-inf")) + ADVERT_EVERY_S
            if due_s <= loop.time():
                self._read(peer.origin)
            else:
                loop.call_at(due_s, self._read, peer.origin)

    def _read(self, origin: str) -> None:
        peer, data = self._unread.pop(origin)
        if self._presence.identity(origin) is None:
            return
        self._read_at[origin] = asyncio.get_running_loop().time()
        try:
            self._newest.take(read_advert(data, peer.origin, peer.ed25519.public_key), peer.boot)
        except AdvertError as error:
            self._refused(peer.origin, str(error))
