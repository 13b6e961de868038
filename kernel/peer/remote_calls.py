"""What a node asks of another one at once, over a link that is up: spawn, kill, and to be told of a process's end.

A call is a map with ``op`` and a ``ref`` of the caller's; the answer, op ``result``, has the same ``ref`` and either
``ok`` or ``code`` and ``why``. A call is not repeated: when the link ends first, the caller is told ``noconnection``
and looks for itself whether it was done.

    {"op": "spawn", "ref", "request": {...}}         granted by spawn      -> {address, pid, name}
    {"op": "kill", "ref", "target", "signal"}        granted by kill       -> {address, pid, signal}
    {"op": "monitor", "ref", "target"}               granted by ps         -> {"op": "down", "ref", "reason"}, later
    {"op": "demonitor", "ref"}
    {"op": "cancel", "ref", "target", "message", "why"}   granted by kill  -> {address, turn, message, others}
    {"op": "withdraw", "id", "sender"}               of its own questions; nobody waits any more for the answer to one
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kernel.errors import (
    Busy,
    Conflict,
    Invalid,
    KernelError,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
)
from kernel.model.states import NOCONNECTION
from kernel.peer.askers import asker_of
from kernel.peer.mesh_port import MeshPort
from kernel.policy.asker import PERSON
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import CallNode
from kernel.signals import Signal, Signals
from kernel.values import clean
from mesh.errors import MeshError
from mesh.identity.peers import Peer

CALL_S = 80.0
MAX_REF = 2**53
_BOOTS = 2**20
MAX_TEXT_CHARS = 1_200
_ERRORS: Mapping[str, type[KernelError]] = {
    error.code: error for error in (NotFound, Refused, Busy, TimedOut, Unavailable, Invalid, Conflict)
}

CALLS = ("spawn", "kill", "cancel")
"""What a peer can call."""


@dataclass(frozen=True, slots=True)
class PeerAsked(Signal):
    """A peer calls what it may. ``serve(work)`` carries out what ``work`` is, and answers with what it gives; a
    KernelError of it is a refusal.
    """

    peer: Peer
    op: Mapping[str, Any]
    serve: Callable[[Coroutine[Any, Any, dict[str, Any]]], None]


@dataclass(frozen=True, slots=True)
class QuestionWithdrawn(Signal):
    """``sender``, with its node, wants no answer any more to what is to be answered to ``reply_to``."""

    sender: str
    reply_to: str


def read_withdrawal(peer: Peer, op: Mapping[str, Any]) -> QuestionWithdrawn:
    """What a peer says by ``withdraw``. Raises Invalid."""
    ident, sender = op.get("id"), op.get("sender")
    if not (isinstance(ident, str) and isinstance(sender, str)) or len(ident) + len(sender) > MAX_TEXT_CHARS:
        raise Invalid("a withdrawal names a message and who has sent it")
    return QuestionWithdrawn(f"{sender}@{peer.origin}", f"{ident}@{peer.origin}")


class RemoteCalls:
    """Calls of this node that wait for an answer, and calls of peers that are being served.

    References begin at another number in each ``boot``: a peer may still answer what an earlier one has asked.
    """

    def __init__(self, mesh: MeshPort, policy: Policy, signals: Signals, boot: int) -> None:
        self._signals = signals
        self._mesh = mesh
        self._policy = policy
        self._ref = boot % _BOOTS * (MAX_REF // _BOOTS)
        self._waiting: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._serving: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- ours ----------------------------------------------------------------------------------------------------

    async def call(self, peer: Peer, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Ask ``peer``. Raises the KernelError it answers with, Unavailable (noconnection), TimedOut."""
        waiting = sum(origin == peer.origin for origin, _ in self._waiting.values())
        self._policy.require(PERSON, CallNode(op, waiting, peer.name))
        self._ref += 1
        ref = self._ref
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            self._mesh.send_op(peer.origin, {"op": op, "ref": ref, **arguments})
        except MeshError as error:
            raise Unavailable(f"{NOCONNECTION}: {peer.name}: {error}") from error
        self._waiting[ref] = (peer.origin, future)
        try:
            return await asyncio.wait_for(future, CALL_S)
        except TimeoutError:
            raise TimedOut(f"{peer.name} has not answered {op} within {CALL_S:g} s") from None
        finally:
            self._waiting.pop(ref, None)

    def answered(self, peer: Peer, op: Mapping[str, Any]) -> None:
        """A ``result``. One that nobody waits for, or of another peer than was asked, is ignored."""
        ref = op.get("ref")
        origin, future = self._waiting.get(ref, ("", None)) if type(ref) is int else ("", None)
        if future is None or origin != peer.origin or future.done():
            return
        done, code = op.get("ok"), op.get("code")
        if isinstance(done, dict):
            future.set_result(done)
        else:
            error = _ERRORS.get(code, Refused) if isinstance(code, str) else Refused
            future.set_exception(error(f"{peer.name} says: {_shown(op.get('why'))}"))

    def down(self, peer: Peer, why: str) -> None:
        """The link with a peer is over: whoever waits for an answer is told."""
        for origin, future in list(self._waiting.values()):
            if origin == peer.origin and not future.done():
                future.set_exception(
                    Unavailable(
                        f"{NOCONNECTION}: {peer.name} was lost ({why}); it may have been done all the same"
                    )
                )

    # -- theirs --------------------------------------------------------------------------------------------------

    def asked(self, peer: Peer, op: Mapping[str, Any]) -> None:
        """A peer's call: refused unless it may, and unless it has no more under way than it should."""
        ref = op.get("ref")
        if type(ref) is not int or not 0 <= ref < MAX_REF:
            raise Invalid("a call without a reference")
        under_way = self._serving.get(peer.origin, 0)
        try:
            self._policy.require(asker_of(peer), CallNode(op["op"], under_way))
        except KernelError as error:
            self._refuse(peer, ref, error)
            return
        self._serving[peer.origin] = under_way + 1
        self._signals.say(PeerAsked(peer, op, partial(self._begin, peer, ref)))

    def _begin(self, peer: Peer, ref: int, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(peer, ref, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: Peer, ref: int, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            done = await work
            self._send(peer, {"op": "result", "ref": ref, "ok": done})
        except KernelError as error:
            self._refuse(peer, ref, error)
        except Exception as error:
            self._refuse(peer, ref, Unavailable(f"the node failed at this ({type(error).__name__})"))
            raise
        finally:
            self._serving[peer.origin] -= 1

    def _refuse(self, peer: Peer, ref: int, error: KernelError) -> None:
        self._send(peer, {"op": "result", "ref": ref, "code": error.code, "why": str(error)[:MAX_TEXT_CHARS]})

    def _send(self, peer: Peer, op: dict[str, Any]) -> None:
        try:
            self._mesh.send_op(peer.origin, op)
        except MeshError as error:  # the caller learns it from the link's end
            self._mesh.cut(peer.origin, str(error))

    async def close(self) -> None:
        """Serve no longer."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _shown(why: object) -> str:
    return clean(why[:MAX_TEXT_CHARS]) if isinstance(why, str) else "no"
