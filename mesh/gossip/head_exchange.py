"""Heads between peers: each shows its newest, and proves to whoever kept an older one that it continues that.

    {"op": "head", "note"}                       a full head of the sender
    {"op": "prove", "size1", "size2"}            asks for the proof that size1 entries are the first of size2
    {"op": "proof", "size1", "size2", "hashes"}  the answer; with "why" in place of the hashes: there is none

One proof is made for a peer at a time, and at most one in PROOF_EVERY_S: it reads a few tiles, in a thread.

What a peer shows is verified and kept in a thread too, one after the other: a head is on the disk before it counts,
and the loop does not wait for that. Of the heads that come meanwhile a few are kept for each peer, the others are lost:
the next one makes it good. A proof is not lost for the heads that wait before it. One that has not come within
PROOF_LATE_S is asked for again with the next head: question or answer may be lost on a link that is full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainError
from chain.in_thread import in_thread
from chain.merkle.merkle import HASH_BYTES
from mesh.errors import MeshError, PeerHeadError
from mesh.gossip.events import MeshEvents
from mesh.gossip.heads import MAX_NOTE_BYTES, HeadConflictError, PeerHeads, Wanted
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import Peer

PROOF_EVERY_S = 0.2
PROOF_LATE_S = 30.0
MAX_HASHES = 128
MAX_WAITING = 8
"""Heads, and as many proofs; a peer that answers what it is asked has one of these on its way."""
MAX_SIZE = 2**63 - 1
OPS = frozenset(("head", "prove", "proof"))


@dataclass(frozen=True, slots=True)
class _Proof:
    """The answer to what was asked. ``hashes``: None when there are none, for ``why``."""

    wanted: Wanted
    hashes: list[bytes] | None
    why: str


@dataclass(eq=False, frozen=True, slots=True)
class _Shown:
    """A head or a proof that waits to be looked at. ``said``: its note, or the proof."""

    peer: Peer
    identity: PeerIdentity
    said: bytes | _Proof


class HeadExchange:
    """``send(peer, op)`` sends, or loses: the next head makes it good. ``fault(origin, why)`` ends the link."""

    def __init__(
        self,
        heads: PeerHeads,
        send: Callable[[Peer, dict[str, Any]], None],
        fault: Callable[[str, str], None],
        now_us: Callable[[], int],
    ) -> None:
        self._heads = heads
        self._events: MeshEvents
        self._send = send
        self._fault = fault
        self._now_us = now_us
        self._proving: dict[str, asyncio.Task[None]] = {}
        self._proved_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._silent: set[str] = set()
        self._shown: deque[_Shown] = deque()
        self._now: _Shown | None = None
        self._taking: asyncio.Task[None] | None = None

    def open(self, events: MeshEvents) -> None:
        """Tell ``events`` from now on, and have it prove."""
        self._events = events

    def take(self, peer: Peer, identity: PeerIdentity, op: Mapping[str, Any]) -> None:
        """An op of :data:`OPS`. What it comes to is told later."""
        try:
            if op["op"] == "prove":
                self._prove(peer, _wanted(op))
                return
            said = _note(peer, op) if op["op"] == "head" else _proof(peer, op)
        except MeshError as error:
            self._events.on_refused(peer.origin, str(error))
            return
        waiting = [shown for shown in self._shown if shown.peer.origin == peer.origin]
        if sum(type(shown.said) is type(said) for shown in waiting) >= MAX_WAITING:
            return
        self._shown.append(_Shown(peer, identity, said))
        if self._taking is None:
            self._taking = asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        try:
            while self._shown:
                shown = self._now = self._shown.popleft()
                await self._take_one(shown)
                if self._now is not shown:  # its link was lost meanwhile, and with it what was asked over it
                    self._heads.forget_wanted(shown.peer.origin)
        finally:
            self._now = self._taking = None

    async def _take_one(self, shown: _Shown) -> None:
        peer = shown.peer
        try:
            if isinstance(shown.said, bytes):
                await self._take_head(shown, shown.said)
            else:
                await self._take_proof(shown, shown.said)
        except HeadConflictError as error:
            self._events.on_refused(peer.origin, str(error))
            self._events.on_conflict(peer, error.conflict)
        except MeshError as error:
            self._events.on_refused(peer.origin, str(error))

    def down(self, origin: str) -> None:
        """The link is lost, and with it what was asked over it."""
        self._heads.forget_wanted(origin)
        self._asked_at.pop(origin, None)
        self._silent.discard(origin)
        self._shown = deque(shown for shown in self._shown if shown.peer.origin != origin)
        if self._now is not None and self._now.peer.origin == origin:
            self._now = None
        task = self._proving.pop(origin, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Prove nothing any more."""
        tasks = list(self._proving.values())
        if self._taking is not None:
            tasks.append(self._taking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- theirs --------------------------------------------------------------------------------------------------

    async def _take_head(self, shown: _Shown, note: bytes) -> None:
        peer, loop = shown.peer, asyncio.get_running_loop()
        if loop.time() - self._asked_at.get(peer.origin, loop.time()) >= PROOF_LATE_S:
            self._heads.forget_wanted(peer.origin)
        vkeys, now_us = shown.identity.vkeys, self._now_us()
        found = await in_thread(self._heads.take, peer.origin, vkeys, note, now_us)
        if self._now is not shown:
            return
        if isinstance(found, Wanted):
            self._ask(peer, found)
        elif found is not None:
            self._events.on_head(peer, found)

    async def _take_proof(self, shown: _Shown, proof: _Proof) -> None:
        peer, wanted, hashes = shown.peer, proof.wanted, proof.hashes
        if hashes is None:
            if self._heads.gave_none(peer.origin, wanted) and peer.origin not in self._silent:
                self._silent.add(peer.origin)  # once a link; it shows its heads each second
                raise PeerHeadError(
                    f"{peer.origin} does not prove that its head of {wanted.size2} continues that of {wanted.size1}: "
                    f"{proof.why!r:.200}"
                )
            return
        now_us = self._now_us()
        head = await in_thread(self._heads.proved, peer.origin, wanted, hashes, now_us)
        if head is None or self._now is not shown:
            return
        self._events.on_head(peer, head)
        following = self._heads.next_wanted(peer.origin)
        if following is not None:
            self._ask(peer, following)

    def _ask(self, peer: Peer, wanted: Wanted) -> None:
        self._asked_at[peer.origin] = asyncio.get_running_loop().time()
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

    def _answer(self, peer: Peer, wanted: Wanted, **answer: object) -> None:
        self._send(peer, {"op": "proof", "size1": wanted.size1, "size2": wanted.size2, **answer})


def _note(peer: Peer, op: Mapping[str, Any]) -> bytes:
    note = op.get("note")
    if not isinstance(note, bytes):
        raise PeerHeadError(f"head from {peer.origin} is not bytes")
    if len(note) > MAX_NOTE_BYTES:
        raise PeerHeadError(f"head from {peer.origin} has {len(note)} bytes, the limit is {MAX_NOTE_BYTES}")
    return note


def _proof(peer: Peer, op: Mapping[str, Any]) -> _Proof:
    wanted, hashes = _wanted(op), op.get("hashes")
    if hashes is None:
        why = op.get("why")
        return _Proof(wanted, None, why[:200] if isinstance(why, str) else "it does not say why")
    if not isinstance(hashes, list) or len(hashes) > MAX_HASHES:
        raise PeerHeadError(f"the proof from {peer.origin} is no list of at most {MAX_HASHES} hashes")
    if not all(isinstance(item, bytes) and len(item) == HASH_BYTES for item in hashes):
        raise PeerHeadError(f"the proof from {peer.origin} holds something else than hashes")
    return _Proof(wanted, hashes, "")


def _wanted(op: Mapping[str, Any]) -> Wanted:
    size1, size2 = op.get("size1"), op.get("size2")
    if type(size1) is not int or type(size2) is not int or not 0 <= size1 <= size2 <= MAX_SIZE:
        raise PeerHeadError("a proof between sizes that are none")
    return Wanted(size1, size2)
