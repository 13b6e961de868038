"""The allow list in force: that of the file, under the configuration's tables ``[peers.NAME]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mesh.errors import PeersError
from mesh.identity.identity import Identity, PeerIdentity
from mesh.identity.peers import AllowList, Peer, PeerStore


class Allowed:
    """The peers of the node ``me``. A change is on the disk and in force when the call returns, or nothing was changed.

    No peer that is added gets the name of this node. One that has it already stays.

    Raises :class:`MeshFileError` or :class:`PeersError` for a list that cannot be read.
    """

    def __init__(self, directory: Path, me: Identity, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self._me = me
        self._tables = tables
        self._store = PeerStore(directory)
        self._list = self._store.load().overlaid(tables)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._list)

    def get(self, origin: str) -> Peer | None:
        """The peer of that origin, None when it is a stranger."""
        return self._list.get(origin)

    def named(self, name: str) -> Peer | None:
        """The peer of that petname or origin."""
        return self._list.named(name)

    def must(self, name: str) -> Peer:
        """The same. Raises :class:`PeersError`."""
        peer = self._list.named(name)
        if peer is None:
            raise PeersError(f"no peer {name!r:.80}: weftos peer list shows them")
        return peer

    def petname(self, peer: PeerIdentity) -> str:
        """A free petname near what a stranger calls itself."""
        return self._list.petname(peer.name, peer.origin, self._me.name)

    def check(self, peer: Peer) -> None:
        """Raises :class:`PeersError` when ``peer`` cannot be added."""
        if peer.origin == self._me.origin:
            raise PeersError(f"{peer.origin} is this node itself")
        if peer.name == self._me.name:
            raise PeersError(f"this node itself is called {peer.name}: give the peer another name")
        self._list.with_peer(peer)

    def add(self, peer: Peer) -> None:
        """Raises :class:`PeersError`, :class:`MeshFileError`."""
        self.check(peer)
        self._list = self._overlaid(self._store.add(peer))

    def check_remove(self, name: str) -> Peer:
        """The one that would be removed. Raises :class:`PeersError`."""
        peer = self.must(name)
        if any(table.get("origin") == peer.origin for table in self._tables.values()):
            raise PeersError(f"{peer.name} stands in the configuration: remove [peers.{peer.name}] there")
        return peer

    def remove(self, name: str) -> Peer:
        """The one that was removed. Raises :class:`PeersError`, :class:`MeshFileError`."""
        peer = self.check_remove(name)
        self._list = self._overlaid(self._store.remove(peer.origin))
        return peer

    def _overlaid(self, stored: AllowList) -> AllowList:
        """The list under the configuration, but for tables that speak of a listed peer that is none now."""
        return stored.overlaid(
            {
                name: table
                for name, table in self._tables.items()
                if "origin" in table or stored.named(name) is not None
            }
        )
