"""What a node shows its peers of itself: an advert, its newest head, and its keys when they have changed.

Advert and head go out at most once in ``PUBLISH_S``. Either may be lost on the way: the next one makes it good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgpack

from chain.keys.keys import Keys
from chain.notes.note import parse
from mesh.errors import TransportError
from mesh.gossip.adverts import ProcessAdvert, make_advert
from mesh.gossip.events import MeshEvents
from mesh.identity.identity import Identity
from mesh.identity.peers import Peer
from mesh.identity.presence import Presence
from mesh.links.transport import Transport

PUBLISH_S = 1.0
ADVERT_SLICE = 100


class Publication:
    """``refused(who, why)`` is told of what could not be sent."""

    def __init__(
        self, me: Identity, transport: Transport, presence: Presence, refused: Callable[[str, str], None]
    ) -> None:
        self._me = me
        self._transport = transport
        self._presence = presence
        self._refused = refused
        self._events: MeshEvents
        self._version = 0
        self._made: dict[bool, bytes] = {}
        self._head_note = b""
        self._rekeyed = False
        self._due: set[str] = set()  # of advert and head
        self._timer: asyncio.TimerHandle | None = None
        self._showing: set[asyncio.Task[None]] = set()

    def open(self, events: MeshEvents) -> None:
        """Ask ``events`` for the processes from now on."""
        self._events = events

    async def close(self) -> None:
        """Show nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._showing:
            task.cancel()
        await asyncio.gather(*self._showing, return_exceptions=True)

    def send(self, peer: Peer, op: Mapping[str, Any]) -> None:
        """Send what the next one makes good if it is lost."""
        try:
            self._transport.send(peer.origin, msgpack.packb(op))
        except TransportError as error:
            self._refused(peer.origin, str(error))

    def welcome(self, peer: Peer) -> None:
        """There is a new link with ``peer``: show it everything."""
        if self._rekeyed:
            self._show_keys(peer)  # the session may have begun before
        self._show_processes([peer])
        if self._head_note:
            self.send(peer, {"op": "head", "note": self._head_note})

    def processes_changed(self) -> None:
        """The next advert is due."""
        self._soon("advert")

    def head(self, note: bytes) -> None:
        """``note`` is the newest full head. One of keys that the node has no more is passed over."""
        if all(line.key_id != self._me.keys.ed25519.key_id for line in parse(note).signatures):
            return
        self._head_note = note
        self._soon("head")

    def rekey(self, keys: Keys) -> None:
        """Show other keys, and nothing that was signed with those before."""
        self._me = replace(self._me, keys=keys)
        self._transport.present(self._me)
        self._rekeyed = True
        self._head_note = b""
        self._made.clear()
        for peer in self._presence.peers():
            self._show_keys(peer)
        self.processes_changed()

    def renew(self) -> None:
        """The next advert is another one: a peer that holds this one may be a peer again with other rights."""
        self._version += 1
        self._made.clear()

    def _show_keys(self, peer: Peer) -> None:
        try:
            self._transport.send(peer.origin, msgpack.packb({"op": "hello", "hello": self._me.hello}))
        except TransportError as error:
            self._transport.cut(peer.origin, f"it cannot be shown the new keys: {error}")

    def _soon(self, what: str) -> None:
        self._due.add(what)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PUBLISH_S, self._publish)

    def _publish(self) -> None:
        self._timer = None
        peers = self._presence.peers()
        if "head" in self._due:
            for peer in peers:
                self.send(peer, {"op": "head", "note": self._head_note})
        if "advert" in self._due:
            self.renew()
            self._show_processes(peers)
        self._due.clear()

    def _show_processes(self, peers: list[Peer]) -> None:
        """Send the present advert to those of ``peers`` that are there, one a turn of the loop."""

        async def show() -> None:
            for peer in peers:
                advert = await self._advert("ps" in peer.may)
                if self._presence.holds(peer):
                    self.send(peer, {"op": "advert", "advert": advert})
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(show())
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
