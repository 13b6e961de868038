"""What people may ask of peers: which nodes are allowed, which of their heads count, and tokens to join by."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from chain.ledger.ledger import Draft, Ticket
from kernel.control.asked import Asked
from kernel.errors import Conflict, Invalid, Unavailable
from kernel.kernel import Kernel
from kernel.operations.nodes.peers import (
    DecideHead,
    HeadDecided,
    HeadRow,
    NewPeer,
    NewToken,
    OfPeer,
    OfToken,
    PeerRow,
    Peers,
    TokenMade,
    TokenRevoked,
    TokenRow,
    Tokens,
)
from kernel.operations.operation import Handler, Nothing
from kernel.peer.outboxes import must_peer
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import ledger_errors
from kernel.values import clean
from mesh.errors import MeshError, MeshFileError
from mesh.gossip.heads import HeadConflict
from mesh.identity.peers import DEFAULT_MAY, Peer
from mesh.mesh import PeerView

MAX_REASON_CHARS = 500


@contextlib.contextmanager
def mesh_errors() -> Iterator[None]:
    """The mesh's refusals as the kernel's."""
    try:
        yield
    except MeshFileError as error:
        raise Unavailable(str(error)) from error
    except MeshError as error:
        raise Invalid(str(error)) from error


class PeerControl:
    """The allow list, kept heads and join tokens of this node."""

    def __init__(self, kernel: Kernel) -> None:
        self._recorder = kernel.recorder
        self._remote = kernel.remote
        self._after = AfterDurable(kernel.recorder.ledger)
        self._deciding: set[str] = set()

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Peers.list.by(self.peers),
            Peers.add.by(self.add),
            Peers.remove.by(self.remove),
            Peers.heads.by(self.heads),
            Peers.decide.by(self.decide),
            Tokens.list.by(self.tokens),
            Tokens.create.by(self.create_token),
            Tokens.revoke.by(self.revoke_token),
        )

    async def add(self, asked: Asked, request: NewPeer) -> PeerRow:
        with mesh_errors():
            rights = DEFAULT_MAY if request.may is None else frozenset(request.may)
            tools = None if request.tools is None else frozenset(request.tools)
            peer = Peer(request.name, request.origin, request.address, rights, tools)
            self._remote.mesh.check_change(add=peer)  # refused before the command is recorded
            asked.record(**_peer_row(peer))
            self._remote.mesh.add_peer(peer)
        self._remote.on_added(peer, asked.by)
        return _peer_row(peer)

    async def remove(self, asked: Asked, request: OfPeer) -> PeerRow:
        peer = must_peer(self._remote.mesh, request.name)
        with mesh_errors():
            self._remote.mesh.check_change(remove=request.name)
            asked.record(name=peer.name, origin=peer.origin)
            self._remote.mesh.remove_peer(request.name)
        self._remote.removed(peer)
        return _peer_row(peer)

    async def peers(self, asked: Asked, request: Nothing) -> list[PeerRow]:
        return [_peer_row(view.peer) for view in self._remote.mesh.peers()]

    async def heads(self, asked: Asked, request: Nothing) -> list[HeadRow]:
        return [_head_row(view) for view in self._remote.mesh.peers()]

    async def decide(self, asked: Asked, request: DecideHead) -> HeadDecided:
        """Both heads stay on the disk.

        On record before it is done; it is done when the disk has that, though who decided is told by then that it could
        not be waited for. Raises Invalid, NotFound, Conflict, Unavailable.
        """
        counts, reason = request.counts, " ".join(clean(request.reason).split())
        if not reason or len(reason) > MAX_REASON_CHARS:
            raise Invalid(f"say why, in at most {MAX_REASON_CHARS} characters: the ledger keeps it")
        if counts not in ("kept", "shown"):
            raise Invalid(f"{counts[:40]!r} is neither kept nor shown")
        peer = must_peer(self._remote.mesh, request.name)
        conflict = self._must_conflict(peer)
        head = conflict.shown_head if counts == "shown" else conflict.kept_head
        seq, trace = asked.record(name=peer.name, origin=peer.origin, counts=counts)
        body: HeadDecided = {
            "origin": peer.origin,
            "name": peer.name,
            "counts": counts,
            "size": head.size,
            "root": head.root.hex(),
            "reason": reason,
            "by": asked.by,
        }
        with ledger_errors():
            draft = Draft("peer.decided", {**body}, 0, "", trace, seq)
            ticket = self._recorder.commit([draft])
        done = self._when_durable(
            peer, conflict, counts == "shown", {"reason": reason, "by": asked.by}, ticket
        )
        with ledger_errors():
            await ticket.durable()
        with mesh_errors():
            await asyncio.shield(done)
        return body

    def _when_durable(
        self, peer: Peer, conflict: HeadConflict, take: bool, told: dict[str, object], ticket: Ticket
    ) -> asyncio.Future[None]:
        """Decide the conflict once ``ticket`` is on the disk. The future says when that is done."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def act() -> None:
            self._deciding.discard(peer.origin)
            try:
                if self._conflict(peer.origin) == conflict:  # of another one it says nothing
                    self._remote.mesh.decide_head(peer.origin, take, told)
            except MeshError as error:
                done.set_exception(error)  # told to who waits, else to the log
            else:
                done.set_result(None)

        self._deciding.add(peer.origin)
        self._after.do(act, ticket)
        return done

    def _must_conflict(self, peer: Peer) -> HeadConflict:
        if peer.origin in self._deciding:
            raise Conflict(f"which head of {peer.name} counts is decided already, and waits for the disk")
        conflict = self._conflict(peer.origin)
        if conflict is None:
            raise Conflict(
                f"the heads of {peer.name} do not contradict each other: there is nothing to decide"
            )
        return conflict

    def _conflict(self, origin: str) -> HeadConflict | None:
        views = self._remote.mesh.peers()
        return next((view.conflict for view in views if view.peer.origin == origin), None)

    async def create_token(self, asked: Asked, request: NewToken) -> TokenMade:
        """Its text stands in no record."""
        with mesh_errors():
            tokens, now_us = self._remote.mesh.tokens, self._recorder.ledger.now_us()
            tokens.check_create(now_us, request.lifetime_s)
            asked.record(lifetime_s=request.lifetime_s)
            token = tokens.create(now_us, request.lifetime_s)
        return {"id": token.id, "token": token.text, "lifetime_s": request.lifetime_s}

    async def tokens(self, asked: Asked, request: Nothing) -> list[TokenRow]:
        now_us = self._recorder.ledger.now_us()
        with mesh_errors():
            records = self._remote.mesh.tokens.records()
        return [
            {
                "id": record.id,
                "status": record.status(now_us),
                "created_us": record.created_us,
                "expires_us": record.expires_us,
                "used_by": record.used_by,
            }
            for record in records
        ]

    async def revoke_token(self, asked: Asked, request: OfToken) -> TokenRevoked:
        with mesh_errors():
            tokens = self._remote.mesh.tokens
            tokens.check_revoke(request.id)
            asked.record(id=request.id)
            tokens.revoke(request.id, self._recorder.ledger.now_us())
        return {"id": request.id, "status": "revoked"}


def _peer_row(peer: Peer) -> PeerRow:
    return {
        "name": peer.name,
        "origin": peer.origin,
        "address": peer.address,
        "may": sorted(peer.may),
        "tools": None if peer.tools is None else sorted(peer.tools),
    }


def _head_row(view: PeerView) -> HeadRow:
    head, conflict = view.head, view.conflict
    row: HeadRow = {
        "name": view.peer.name,
        "origin": view.peer.origin,
        "size": head.size if head is not None else 0,
        "root": head.root.hex() if head is not None else "",
        "conflict": None,
    }
    if conflict is not None:
        shown = conflict.shown_head
        row["conflict"] = {
            "why": clean(conflict.why),
            "size": shown.size,
            "root": shown.root.hex(),
            "at_us": conflict.at_us,
            "kept": conflict.kept,
            "shown": conflict.shown,
        }
    return row
