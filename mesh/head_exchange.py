"""Heads between peers: each shows its newest, and proves to whoever kept an older one that it continues that.

    {"op": "head", "note"}                       a full head of the sender
    {"op": "prove", "size1", "size2"}            asks for the proof that size1 entries are the first of size2
    {"op": "proof", "size1", "size2", "hashes"}  the answer; with "why" in place of the hashes: there is none

One proof is made for a peer at a time, and at most one in PROOF_EVERY_S: it reads a few tiles, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from chain.errors import ChainError
from mesh.errors import HeadConflictError, MeshError, PeerHeadError
from mesh.events import MeshEvents
from mesh.heads import PeerHeads, Wanted
from mesh.identity import PeerIdentity
from mesh.peers import Peer

PROOF_EVERY_S = 0.2
MAX_HASHES = 128
MAX_SIZE = 2**63 - 1
OPS = frozenset(("head", "prove", "proof"))


class HeadExchange:
    """``send(peer, op)`` sends, or loses: the next head makes it good. ``fault(origin, why)`` ends the link."""

    def __init__(
        self,
        heads: PeerHeads,
        events: MeshEvents,
        send: Callable[[Peer, dict[str, Any]], None],
        fault: Callable[[str, str], None],
        now_us: Callable[[], int],
    ) -> None:
        self._heads = heads
        self._events = events
        self._send = send
        self._fault = fault
        self._now_us = now_us
        self._proving: dict[str, asyncio.Task[None]] = {}
        self._proved_at: dict[str, float] = {}
        self._silent: set[str] = set()

    def take(self, peer: Peer, identity: PeerIdentity, op: Mapping[str, Any]) -> None:
        """An op of :data:`OPS`."""
        try:
            if op["op"] == "head":
                self._take_head(peer, identity, op.get("note"))
            elif op["op"] == "prove":
                self._prove(peer, _wanted(op))
            else:
                self._take_proof(peer, _wanted(op), op)
        except HeadConflictError as error:
            conflict = self._heads.conflict(peer.origin)
            assert conflict is not None
            self._events.on_refused(peer.origin, str(error))
            self._events.on_conflict(peer, conflict)
        except MeshError as error:
            self._events.on_refused(peer.origin, str(error))

    def down(self, origin: str) -> None:
        """The link is lost, and with it what was asked over it."""
        self._heads.forget_wanted(origin)
        self._silent.discard(origin)
        task = self._proving.pop(origin, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Prove nothing any more."""
        tasks = list(self._proving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- theirs --------------------------------------------------------------------------------------------------

    def _take_head(self, peer: Peer, identity: PeerIdentity, note: object) -> None:
        if not isinstance(note, bytes):
            raise PeerHeadError(f"head from {peer.origin} is not bytes")
        found = self._heads.take(peer.origin, identity.vkeys, note, self._now_us())
        if isinstance(found, Wanted):
            self._ask(peer, found)
        elif found is not None:
            self._events.on_head(peer, found)

    def _take_proof(self, peer: Peer, wanted: Wanted, op: Mapping[str, Any]) -> None:
        hashes = op.get("hashes")
        if hashes is None:
            if self._heads.gave_none(peer.origin, wanted) and peer.origin not in self._silent:
                self._silent.add(peer.origin)  # once a link; it shows its heads each second
                raise PeerHeadError(
                    f"{peer.origin} does not prove that its head of {wanted.size2} continues that of {wanted.size1}: "
                    f"{str(op.get('why'))!r:.200}"
                )
            return
        if not isinstance(hashes, list) or len(hashes) > MAX_HASHES:
            raise PeerHeadError(f"the proof from {peer.origin} is no list of at most {MAX_HASHES} hashes")
        if not all(isinstance(item, bytes) for item in hashes):
            raise PeerHeadError(f"the proof from {peer.origin} holds something else than hashes")
        head = self._heads.proved(peer.origin, wanted, hashes, self._now_us())
        if head is None:
            return
        self._events.on_head(peer, head)
        following = self._heads.next_wanted(peer.origin)
        if following is not None:
            self._ask(peer, following)

    def _ask(self, peer: Peer, wanted: Wanted) -> None:
        self._send(peer, {"op": "prove", "size1": wanted.size1, "size2": wanted.size2})

    # -- ours ----------------------------------------------------------------------------------------------------

    def _prove(self, peer: Peer, wanted: Wanted) -> None:
        if peer.origin in self._proving:
            self._answer(peer, wanted, why="another proof is being made for your node")
            return
        task = asyncio.get_running_loop().create_task(self._make(peer, wanted))
        self._proving[peer.origin] = task

    async def _make(self, peer: Peer, wanted: Wanted) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._proved_at.get(peer.origin, 0.0) + PROOF_EVERY_S - loop.time())
            hashes = await self._events.prove(wanted.size1, wanted.size2)
        except (ChainError, OSError, ValueError) as error:
            self._answer(peer, wanted, why=str(error)[:200])
        else:
            self._answer(peer, wanted, hashes=hashes)
        finally:
            self._proved_at[peer.origin] = loop.time()
            if self._proving.get(peer.origin) is asyncio.current_task():
                del self._proving[peer.origin]

    def _answer(self, peer: Peer, wanted: Wanted, **told: object) -> None:
        self._send(peer, {"op": "proof", "size1": wanted.size1, "size2": wanted.size2, **told})


def _wanted(op: Mapping[str, Any]) -> Wanted:
    size1, size2 = op.get("size1"), op.get("size2")
    if type(size1) is not int or type(size2) is not int or not 0 <= size1 <= size2 <= MAX_SIZE:
        raise PeerHeadError("a proof between sizes that are none")
    return Wanted(size1, size2)
