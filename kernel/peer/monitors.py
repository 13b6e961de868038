"""Monitors, as in Erlang/OTP: being told, once, that a process has ended, and why.

``noproc`` when there is none, ``noconnection`` when its node, or the link with it, is lost: then nobody knows whether
it has ended. A monitor follows one incarnation. Here it is not durable: it ends with the node that set it, or with the
link. What is durable of those that processes set is :mod:`kernel.slices.monitors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kernel.errors import Invalid, KernelError
from kernel.message.messaging import Messaging
from kernel.model.address import parse_target
from kernel.model.states import NOCONNECTION, NOPROC, is_reason
from kernel.peer.askers import asker_of
from kernel.peer.mesh_port import MeshPort
from kernel.peer.remote_calls import MAX_REF, MAX_TEXT_CHARS
from kernel.policy.asker import PERSON, Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import CallNode
from kernel.process.live import LiveProcess, LiveTable
from mesh.errors import MeshError
from mesh.identity.peers import Peer

NOT_ALLOWED = "refused"


class Monitors:
    """Who waits for the end of which process: futures for this node's own, peers by origin and reference."""

    def __init__(self, live: LiveTable, messaging: Messaging, mesh: MeshPort, policy: Policy) -> None:
        self._live = live
        self._messaging = messaging
        self._mesh = mesh
        self._policy = policy
        self._ref = 0
        self._local: dict[int, list[asyncio.Future[str]]] = {}
        self._theirs: dict[tuple[str, int], int] = {}
        self._ours: dict[tuple[str, int], asyncio.Future[str]] = {}

    @property
    def watched(self) -> int:
        """How many monitors there are on processes of this node."""
        return sum(map(len, self._local.values())) + len(self._theirs)

    # -- ours ----------------------------------------------------------------------------------------------------

    def watch(self, target: str) -> asyncio.Future[str]:
        """The reason with which a process of this node ends; ``noproc`` at once when there is none."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        process = self._at(target)
        if process is None:
            future.set_result(NOPROC)
        else:
            self._local.setdefault(process.pid, []).append(future)
            future.add_done_callback(lambda done: self._leave(process.pid, done))
        return future

    def _leave(self, pid: int, future: asyncio.Future[str]) -> None:
        """Who waited is told, or waits no longer."""
        waiting = self._local.get(pid, [])
        if future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._local[pid]

    def watch_remote(self, target: str, peer: Peer, asker: Asker = PERSON) -> asyncio.Future[str]:
        """The same for a process of ``peer``. Raises Busy, and AddressError for what can be no process: there it would
        end the link.
        """
        parse_target(target)
        monitored = sum(origin == peer.origin for origin, _ in self._ours)
        self._policy.require(asker, CallNode("monitor", monitored, peer.name))
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ref += 1
        key = (peer.origin, self._ref)
        try:
            self._mesh.send_op(peer.origin, {"op": "monitor", "ref": self._ref, "target": target})
        except MeshError:
            future.set_result(NOCONNECTION)
            return future
        self._ours[key] = future
        future.add_done_callback(lambda done: self._forget(key, done))
        return future

    def _forget(self, key: tuple[str, int], future: asyncio.Future[str]) -> None:
        if self._ours.pop(key, None) is not None and future.cancelled():
            self._send(key[0], {"op": "demonitor", "ref": key[1]})

    # -- theirs --------------------------------------------------------------------------------------------------

    def op(self, peer: Peer, op: Mapping[str, Any]) -> None:
        """A peer's ``monitor``, ``demonitor`` or ``down``. Raises Invalid for another shape."""
        ref = op.get("ref")
        if type(ref) is not int or not 0 <= ref < MAX_REF:
            raise Invalid("a monitor without a reference")
        key = (peer.origin, ref)
        match op["op"]:
            case "demonitor":
                self._theirs.pop(key, None)
            case "down":
                self._down(self._ours.get(key), _reason(op.get("reason")))
            case _:
                self._monitor(peer, key, op.get("target"))

    def _monitor(self, peer: Peer, key: tuple[str, int], target: object) -> None:
        if not isinstance(target, str) or "@" in target or len(target) > MAX_TEXT_CHARS:
            raise Invalid("a monitor of nothing")
        monitored = sum(origin == peer.origin for origin, _ in self._theirs)
        if self._policy.judge(asker_of(peer), CallNode("monitor", monitored)).decision != "allow":
            self._send(peer.origin, {"op": "down", "ref": key[1], "reason": NOT_ALLOWED})
            return
        process = self._at(target)
        if process is None:
            self._send(peer.origin, {"op": "down", "ref": key[1], "reason": NOPROC})
        else:
            self._theirs[key] = process.pid

    def _down(self, future: asyncio.Future[str] | None, reason: str) -> None:
        if future is not None and not future.done():
            future.set_result(reason)

    # -- what happens --------------------------------------------------------------------------------------------

    def exited(self, pid: int, reason: str) -> None:
        """A process of this node has ended."""
        for future in self._local.pop(pid, []):
            self._down(future, reason)
        for key in [key for key, watched in self._theirs.items() if watched == pid]:
            del self._theirs[key]
            self._send(key[0], {"op": "down", "ref": key[1], "reason": reason})

    def lost(self, peer: Peer) -> None:
        """A link with a peer is over, with all that it monitored and that was monitored there."""
        for key in [key for key in self._theirs if key[0] == peer.origin]:
            del self._theirs[key]
        for key, future in list(self._ours.items()):
            if key[0] == peer.origin:
                self._down(future, NOCONNECTION)

    def _at(self, target: str) -> LiveProcess | None:
        try:
            return self._live.at(self._messaging.resolve(target))
        except KernelError:
            return None

    def _send(self, origin: str, op: dict[str, Any]) -> None:
        try:
            self._mesh.send_op(origin, op)
        except MeshError as error:  # the other side learns it from the link's end
            self._mesh.cut(origin, str(error))


def _reason(said: object) -> str:
    """What a peer says of an end: one of the reasons there are, without words of its own. These would come to a process
    in the name, the session and the rights of whoever had it watch. Of another one nobody knows what it means.
    """
    known = isinstance(said, str) and (is_reason(said) or said == NOPROC)
    return str(said).partition(":")[0] if known else NOCONNECTION
