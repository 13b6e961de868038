"""What people may ask of the cluster: the nodes, their processes, and what other nodes are to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernel.control.asked import Asked
from kernel.errors import KernelError, Refused, TimedOut
from kernel.kernel import Kernel
from kernel.operations.nodes.cluster import (
    Cluster,
    ClusterListing,
    ClusterRow,
    End,
    Identity,
    Monitor,
    NodeRow,
)
from kernel.operations.operation import Handler, Nothing
from kernel.operations.processes import Kill, Signalled
from kernel.operations.spawning import NOT_FOR_PEERS, Spawned, SpawnRequest
from kernel.state.recorder import ledger_errors
from kernel.values import clean
from mesh.identity.peers import Peer
from mesh.membership.membership import PeerState
from mesh.mesh import PeerView

CONFLICT_WORDS = "two heads contradict each other: see weftos peer heads"


class ClusterControl:
    """This node among others."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._remote = kernel.remote

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Cluster.identity.by(self.identity),
            Cluster.nodes.by(self.nodes),
            Cluster.ps.by(self.ps),
            Cluster.monitor.by(self.monitor),
        )

    async def identity(self, asked: Asked, request: Nothing) -> Identity:
        remote = self._remote
        return {"name": self._kernel.env.name, "origin": remote.mesh.origin, "address": remote.address}

    async def nodes(self, asked: Asked, request: Nothing) -> list[NodeRow]:
        ledger, remote = self._kernel.recorder.ledger, self._remote
        own: NodeRow = {
            "name": self._kernel.env.name,
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

    def _node_row(self, view: PeerView) -> NodeRow:
        outbox = self._kernel.state.in_transit.outbox.get(view.peer.origin, ())
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

    async def ps(self, asked: Asked, request: ClusterListing) -> list[ClusterRow]:
        address, _, origin = request.after.rpartition("@")
        own, limit, rows = self._remote.mesh.origin, request.limit, []
        if origin in ("", own):
            listed = self._kernel.processes.listing.rows(address, limit)
            rows = [_process_row(self._kernel.env.name, own, row, False, 0.0) async for row in listed]
            address = origin = ""
        for view in sorted(self._remote.mesh.peers(), key=lambda view: view.peer.origin):
            left = None if limit is None else limit - len(rows)
            if view.peer.origin >= origin and left != 0:
                rows += _advertised(view, address if view.peer.origin == origin else "", left)
        return rows

    async def monitor(self, asked: Asked, request: Monitor) -> End:
        """Raises TimedOut."""
        remote, target = self._remote, request.named
        local, peer = remote.split(target) if "@" in target else (target, None)
        future = remote.monitors.watch(local) if peer is None else remote.monitors.watch_remote(local, peer)
        try:
            return {"target": target, "reason": await asyncio.wait_for(future, request.wait_s)}
        except TimeoutError:
            raise TimedOut(f"{target} has not ended within {request.wait_s:g} s") from None

    async def spawn(self, asked: Asked, request: SpawnRequest, peer: Peer) -> Spawned:
        """Have ``peer`` start a process. Raises what it answers, Unavailable when it is not there."""
        if request.workspace:
            raise Refused("a workspace is for the other node to choose: leave it out")
        asked.record(on=peer.origin, name=request.name, under=request.under)
        with ledger_errors():
            await self._kernel.recorder.ledger.barrier()
        done = await self._remote.calls.call(peer, "spawn", {"request": told_to_peer(request)})
        address, pid = _checked(done, peer)
        return {"address": address, "pid": pid, "name": request.name, "node": peer.name}

    async def kill(self, asked: Asked, request: Kill, target: str, peer: Peer) -> Signalled:
        """Have ``peer`` send ``target``, one of its processes, an exit signal."""
        signal, why = request.signal, clean(request.why)
        asked.command(why, on=peer.origin, target=target, signal=signal)
        told = {"target": target, "signal": signal, "why": why}
        done = await self._remote.calls.call(peer, "kill", told)
        address, pid = _checked(done, peer)
        return {"address": address, "pid": pid, "signal": signal, "node": peer.name}


DEFAULT_CHOICES = (("auto_shutdown", "never"), ("on_logical", "restart"))
"""Of the fields that not all versions know."""


def told_to_peer(request: SpawnRequest) -> dict[str, Any]:
    """The request as it goes to another node, which may be of a version that does not know all fields: what is left to
    its defaults is not said.
    """
    said = {
        name: value
        for name, value in {**asdict(request), **_rights(request)}.items()
        if value not in (None, "") and value is not False and (name, value) not in DEFAULT_CHOICES
    }
    told = {name: value for name, value in said.items() if name not in NOT_FOR_PEERS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def _rights(request: SpawnRequest) -> dict[str, Any]:
    """The fields that are maps."""
    given = {
        "capabilities": request.capabilities,
        "budget": request.budget,
        "mailbox": request.mailbox,
    }
    return {name: None if value is None else value.told() for name, value in given.items()}


def _checked(done: Mapping[str, Any], peer: Peer) -> tuple[str, int]:
    """The address and PID in a peer's answer."""
    address, pid = done.get("address"), done.get("pid")
    if not isinstance(address, str) or type(pid) is not int:
        raise KernelError(f"{peer.name} answers with something else than a process")
    return f"{clean(address)[:1_200]}@{peer.name}", pid


def _age_s(view: PeerView) -> float:
    """How long a peer that is not up has been so; 0 while it is."""
    if view.member.state is PeerState.UP:
        return 0.0
    return round(asyncio.get_running_loop().time() - view.member.since_s, 1)


def _advertised(view: PeerView, after: str, limit: int | None) -> list[ClusterRow]:
    """The first ``limit`` processes of a peer behind the address ``after``, by address."""
    stale = view.member.state is not PeerState.UP
    shown = view.advert.processes if view.advert is not None else ()
    found = sorted((each for each in shown if each.address > after), key=lambda each: each.address)
    return [
        _process_row(view.peer.name, view.peer.origin, each._asdict(), stale, _age_s(view))
        for each in found[:limit]
    ]


def _process_row(node: str, origin: str, row: Mapping[str, Any], stale: bool, age_s: float) -> ClusterRow:
    return {
        "node": node,
        "origin": origin,
        "pid": row["pid"],
        "address": row["address"],
        "name": row["name"],
        "state": row["state"],
        "behaviour": row["behaviour"],
        "stale": stale,
        "age_s": age_s,
    }
