"""What people may ask of the cluster: nodes, peers, join tokens, and what other nodes are to do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chain.ledger.ledger import Draft
from kernel.errors import Conflict, Invalid, KernelError, Refused, TimedOut, Unavailable
from kernel.kernel import Kernel
from kernel.peer.outboxes import must_peer
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import ledger_errors
from kernel.values import clean
from mesh.errors import MeshError, MeshFileError
from mesh.gossip.heads import HeadConflict
from mesh.identity.peers import DEFAULT_MAY, Peer
from mesh.membership.membership import PeerState
from mesh.mesh import PeerView

Command = Callable[..., tuple[int, bytes]]
MAX_REASON_CHARS = 500
CONFLICT_WORDS = "two heads contradict each other: see weftos peer heads"
SPAWN_FIELDS = (
    "name", "behaviour", "under", "restart", "isolation", "provider", "model", "system_prompt", "supervisor",
)  # fmt: skip


@contextlib.contextmanager
def mesh_errors() -> Iterator[None]:
    """The mesh's refusals as the kernel's."""
    try:
        yield
    except MeshFileError as error:
        raise Unavailable(str(error)) from error
    except MeshError as error:
        raise Invalid(str(error)) from error


class ClusterControl:
    """The part of the control facade that is about other nodes.

    ``command(op, operation, **arguments)`` records who asked for what; it gives the entry's sequence and a trace.
    """

    def __init__(self, kernel: Kernel, command: Command) -> None:
        self._kernel = kernel
        self._remote = kernel.remote
        self._command = command
        self._after = AfterDurable(kernel.recorder.ledger)
        self._deciding: set[str] = set()

    # -- looking -------------------------------------------------------------------------------------------------

    async def identity(self) -> dict[str, Any]:
        """name, origin and address of this node; the address is empty when it does not listen."""
        remote = self._remote
        return {"name": remote.name, "origin": remote.mesh.origin, "address": remote.address}

    async def nodes(self) -> list[dict[str, Any]]:
        """This node and its peers."""
        ledger, remote = self._kernel.recorder.ledger, self._remote
        own = {
            "name": remote.name,
            "origin": remote.mesh.origin,
            "self": True,
            "address": remote.address,
            "may": [],
            "state": "up",
            "why": "",
            "boot": f"{self._kernel.env.boot:016x}",
            "silence_s": 0.0,
            "age_s": 0.0,
            "processes": len(self._kernel.processes.listing),
            "head": ledger.full_size,
            "outbox": 0,
        }
        return [own, *(self._node_row(view) for view in remote.mesh.peers())]

    def _node_row(self, view: PeerView) -> dict[str, Any]:
        outbox = self._kernel.state.crossings.outbox.get(view.peer.origin, ())
        return {
            "name": view.peer.name,
            "origin": view.peer.origin,
            "self": False,
            "address": view.peer.address,
            "may": sorted(view.peer.may),
            "state": str(view.member.state),
            "why": CONFLICT_WORDS if view.conflict is not None else clean(view.member.why),
            "boot": view.member.boot,
            "silence_s": view.silence_s,
            "age_s": _age_s(view),
            "processes": view.advert.total if view.advert is not None else 0,
            "head": view.head.size if view.head is not None else 0,
            "outbox": len(outbox),
        }

    async def ps(self) -> list[dict[str, Any]]:
        """Processes of all nodes, as each has last said: node, origin, pid, address, name, state, behaviour, stale,
        age_s (how long the node has been gone)."""
        remote = self._remote
        rows = [
            _process_row(remote.name, remote.mesh.origin, row, False, 0.0)
            async for row in self._kernel.processes.listing.rows()
        ]
        for view in remote.mesh.peers():
            for shown in view.advert.processes if view.advert is not None else ():
                row = {
                    name: getattr(shown, name) for name in ("pid", "address", "name", "state", "behaviour")
                }
                stale = view.member.state is not PeerState.UP
                rows.append(_process_row(view.peer.name, view.peer.origin, row, stale, _age_s(view)))
        return rows

    async def monitor(self, target: str, wait_s: float) -> dict[str, Any]:
        """Wait for the end of a process, here or on another node. Raises TimedOut."""
        remote = self._remote
        local, peer = remote.split(target) if "@" in target else (target, None)
        future = remote.monitors.watch(local) if peer is None else remote.monitors.watch_remote(local, peer)
        try:
            return {"target": target, "reason": await asyncio.wait_for(future, wait_s)}
        except TimeoutError:
            raise TimedOut(f"{target} has not ended within {wait_s:g} s") from None

    # -- peers ---------------------------------------------------------------------------------------------------

    async def peer_add(
        self,
        op: Mapping[str, object],
        name: str,
        origin: str,
        address: str,
        may: Sequence[str] | None,
        tools: Sequence[str] | None,
    ) -> dict[str, Any]:
        """Allow a node from now on. ``may`` None: send and ps; ``tools`` None: those without effects."""
        with mesh_errors():
            rights = DEFAULT_MAY if may is None else frozenset(may)
            peer = Peer(name, origin, address, rights, None if tools is None else frozenset(tools))
            self._command(op, "peer_add", **_peer_row(peer))
            self._remote.mesh.add_peer(peer)
        self._remote.on_added(peer, f"operator:{op['uid']}")
        return _peer_row(peer)

    async def peer_remove(self, op: Mapping[str, object], name: str) -> dict[str, Any]:
        """Allow it no longer; what waits for it becomes dead letters."""
        peer = must_peer(self._remote.mesh, name)
        self._command(op, "peer_remove", name=peer.name, origin=peer.origin)
        with mesh_errors():
            self._remote.mesh.remove_peer(name)
        self._remote.removed(peer)
        return _peer_row(peer)

    async def peers(self) -> list[dict[str, Any]]:
        """The allow list."""
        return [_peer_row(view.peer) for view in self._remote.mesh.peers()]

    async def heads(self) -> list[dict[str, Any]]:
        """The newest head kept of each peer, and the one that contradicts it, about which a person has to decide."""
        return [_head_row(view) for view in self._remote.mesh.peers()]

    async def head_decide(
        self, op: Mapping[str, object], name: str, counts: str, reason: str
    ) -> dict[str, Any]:
        """Decide which of two heads of a peer counts: ``kept`` or ``shown``. Both stay on the disk.

        On record before it is done; it is done when the disk has that, though who decided is told by then that it could
        not be waited for. Raises Invalid, NotFound, Conflict, Unavailable.
        """
        reason = " ".join(clean(reason).split())
        if not reason or len(reason) > MAX_REASON_CHARS:
            raise Invalid(f"say why, in at most {MAX_REASON_CHARS} characters: the ledger keeps it")
        if counts not in ("kept", "shown"):
            raise Invalid(f"{counts[:40]!r} is neither kept nor shown")
        peer = must_peer(self._remote.mesh, name)
        conflict = self._conflict(peer.origin)
        if peer.origin in self._deciding:
            raise Conflict(f"which head of {peer.name} counts is decided already, and waits for the disk")
        if conflict is None:
            raise Conflict(
                f"the heads of {peer.name} do not contradict each other: there is nothing to decide"
            )
        head = conflict.shown_head if counts == "shown" else conflict.kept_head
        by = f"operator:{op['uid']}"
        seq, trace = self._command(op, "head_decide", name=peer.name, origin=peer.origin, counts=counts)
        told = {"counts": counts, "size": head.size, "root": head.root.hex(), "reason": reason, "by": by}
        body = {"origin": peer.origin, "name": peer.name, **told}
        with ledger_errors():
            draft = Draft("peer.decided", body, 0, "", trace, seq)
            ticket = self._kernel.recorder.commit([draft], durable=True)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def act() -> None:
            self._deciding.discard(peer.origin)
            try:
                if self._conflict(peer.origin) == conflict:  # of another one it says nothing
                    told = {"reason": reason, "by": by}
                    self._remote.mesh.decide_head(peer.origin, counts == "shown", told)
            except MeshError as error:
                done.set_exception(error)  # told to who waits, else to the log
            else:
                done.set_result(None)

        self._deciding.add(peer.origin)
        self._after.do(act, ticket)
        with ledger_errors():
            await ticket.durable()
        with mesh_errors():
            await asyncio.shield(done)
        return body

    def _conflict(self, origin: str) -> HeadConflict | None:
        views = self._remote.mesh.peers()
        return next((view.conflict for view in views if view.peer.origin == origin), None)

    # -- tokens --------------------------------------------------------------------------------------------------

    async def token_create(self, op: Mapping[str, object], lifetime_s: int) -> dict[str, Any]:
        """A join token; its text is shown this once, and stands in no record."""
        self._command(op, "token_create", lifetime_s=lifetime_s)
        with mesh_errors():
            token = self._remote.mesh.tokens.create(time.time_ns() // 1000, lifetime_s)
        return {"id": token.id, "token": token.text, "lifetime_s": lifetime_s}

    async def tokens(self) -> list[dict[str, Any]]:
        """id, status, created_us, expires_us, used_by of each; never a secret."""
        now_us = time.time_ns() // 1000
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

    async def token_revoke(self, op: Mapping[str, object], ident: str) -> dict[str, Any]:
        """Let nobody in by it any more."""
        self._command(op, "token_revoke", id=ident)
        with mesh_errors():
            self._remote.mesh.tokens.revoke(ident, time.time_ns() // 1000)
        return {"id": ident, "status": "revoked"}

    # -- what others are to do -----------------------------------------------------------------------------------

    async def spawn(self, op: Mapping[str, object], request: Any, peer: Peer) -> dict[str, Any]:
        """Have ``peer`` start a process. Raises what it answers, Unavailable when it is not there."""
        if request.workspace:
            raise Refused("a workspace is for the other node to choose: leave it out")
        told: dict[str, Any] = {name: getattr(request, name) for name in SPAWN_FIELDS}
        told["tools"] = None if request.tools is None else list(request.tools)
        told["intensity"] = None if request.intensity is None else list(request.intensity)
        self._command(op, "spawn", on=peer.origin, name=request.name, under=request.under)
        with ledger_errors():
            await self._kernel.recorder.ledger.barrier()
        done = await self._remote.calls.call(peer, "spawn", {"request": told})
        return {**_checked(done, peer), "name": request.name, "node": peer.name}

    async def kill(self, op: Mapping[str, object], target: str, peer: Peer, signal: str) -> dict[str, Any]:
        """Have ``peer`` send one of its processes an exit signal."""
        self._command(op, "kill", on=peer.origin, target=target, signal=signal)
        done = await self._remote.calls.call(peer, "kill", {"target": target, "signal": signal})
        return {**_checked(done, peer), "signal": signal, "node": peer.name}


def _checked(done: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
    """The address and PID in a peer's answer."""
    address, pid = done.get("address"), done.get("pid")
    if not isinstance(address, str) or type(pid) is not int:
        raise KernelError(f"{peer.name} answers with something else than a process")
    return {"address": f"{clean(address)[:1_200]}@{peer.name}", "pid": pid}


def _peer_row(peer: Peer) -> dict[str, Any]:
    return {
        "name": peer.name,
        "origin": peer.origin,
        "address": peer.address,
        "may": sorted(peer.may),
        "tools": None if peer.tools is None else sorted(peer.tools),
    }


def _head_row(view: PeerView) -> dict[str, Any]:
    head, conflict = view.head, view.conflict
    row: dict[str, Any] = {
        "name": view.peer.name,
        "origin": view.peer.origin,
        "size": head.size if head is not None else 0,
        "root": head.root.hex() if head is not None else "",
        "conflict": None,
    }
    if conflict is not None:
        shown = conflict.shown_head
        told = {
            "why": clean(conflict.why),
            "size": shown.size,
            "root": shown.root.hex(),
            "at_us": conflict.at_us,
        }
        row["conflict"] = {**told, "kept": conflict.kept, "shown": conflict.shown}
    return row


def _age_s(view: PeerView) -> float:
    """How long a peer that is not up has been so; 0 while it is."""
    if view.member.state is PeerState.UP:
        return 0.0
    return round(asyncio.get_running_loop().time() - view.member.since_s, 1)


def _process_row(node: str, origin: str, row: Mapping[str, Any], stale: bool, age_s: float) -> dict[str, Any]:
    shown = {name: row[name] for name in ("pid", "address", "name", "state", "behaviour")}
    return {"node": node, "origin": origin, **shown, "stale": stale, "age_s": age_s}
