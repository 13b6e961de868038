"""Serves the control API on the node's own event loop, on a Unix socket that only the node's user may use.

The socket is bound here (mode 0600 from its first moment), because uvicorn would open it to everybody; each
connection's peer is asked of the operating system (SO_PEERCRED) and becomes the operator of every request on
it. Signals stay the node's. What a caller may keep waiting, and how long, is :mod:`weftos.api.connections`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cognition.providers.http.fed_to_h11 import FED_BYTES, MOST_BLANKS, head_has_blanks
from kernel.helper.listening import listen
from kernel.helper.os_processes import read_process
from kernel.operations.operation import Operator
from weftos.api.api import Streams, create_app
from weftos.api.connections import ConnectionLimits, Connections, caller_of
from weftos.api.parts import OPERATOR, Control, encode, error_answer
from weftos.errors import WeftosError

DATE_S = 1.0


class Listener:
    """The served API. ``start`` returns when it answers; ``stop`` ends open streams and closes it."""

    def __init__(
        self, control: Control, path: Path, uid: int | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        self._path = path
        self._limits = limits or ConnectionLimits()
        self._streams = Streams()
        self._app = _OwnerOnly(create_app(control, self._streams), os.getuid() if uid is None else uid)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind and serve. Raises Invalid when the path is too long, OSError when it cannot be bound."""
        listening = listen(self._path)
        listening.setblocking(False)
        config = uvicorn.Config(
            self._app,
            http=_protocol(Connections(self._limits), self._limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,  # longer than any client keeps a connection, so that the client ends it
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]), name="control-api")
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            ready.cancel()
            self._task.result()
            raise WeftosError("the control API ended while it was starting", "internal")

    async def stop(self) -> None:
        """Stop listening, let answers under way finish, and remove the socket."""
        if self._server is not None and self._task is not None:
            self._server.end()
            self._streams.end()
            await self._task
            self._path.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """uvicorn's server as a guest: it says when it listens, leaves signals alone, and looks at the clock no more often
    than its ``date`` header needs.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Have it stop."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), DATE_S)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _protocol(connections: Connections, limits: ConnectionLimits) -> type[_PeerProtocol]:
    """The protocol class of one listener: uvicorn makes the objects, and hands them nothing of ours."""

    class OfThisListener(_PeerProtocol):
        held = connections
        bounds = limits

    return OfThisListener


class _PeerProtocol(H11Protocol):
    """uvicorn's protocol, with who is at the other end in the scope of each request of the connection, and with
    deadlines for what he sends."""

    held: Connections
    bounds: ConnectionLimits
    _refused = False
    _since: float | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent does
        super().connection_made(transport)
        peer = _peer_of(transport.get_extra_info("socket"))
        admission = self.held.admit(
            self, caller_of(peer["os_pid"], os.getpid(), _parent_of), self.loop.time()
        )
        if isinstance(admission.closes, _PeerProtocol):
            admission.closes.give_way()
        if not admission.admitted:
            self._refuse(503, "busy", admission.why)
            return
        self._since = self.loop.time()
        self._watch()
        app = self.app

        async def with_operator(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, OPERATOR: peer}, receive, send)

        self.app = with_operator

    def connection_lost(self, exc: Exception | None) -> None:
        self.held.leave(self)
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give h11 a little at a time, and nothing that takes it long (:mod:`cognition.providers.http.fed_to_h11`)."""
        if self._since is None:
            self._since = self.loop.time()
        for start in range(0, len(data), FED_BYTES):
            if self._refused or self.transport.is_closing():
                return
            piece = data[start : start + FED_BYTES]
            if self.conn.their_state is h11.DONE and len(self.conn.trailing_data[0]) > FED_BYTES:
                self.transport.abort()  # the next request, before this one is answered
                return
            if why := self._is_hard_on_h11(piece):
                self._refuse(400, "invalid", why)
                return
            super().data_received(piece)
        self._watch()

    def _is_hard_on_h11(self, piece: bytes) -> str:
        begun = self.conn.trailing_data[0]
        if self.conn.their_state is h11.IDLE:
            if head_has_blanks(begun + piece):
                return f"the head of the request has a run of {MOST_BLANKS} blanks"
        elif self.conn.their_state is h11.SEND_BODY and len(begun) > FED_BYTES:
            return f"a line of the chunked body has more than {FED_BYTES} bytes"
        return ""

    def on_response_complete(self) -> None:
        self._since = self.loop.time() if self.conn.trailing_data[0] else None
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.held.waits(self, self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def give_way(self) -> None:
        """Somebody else needs the place more."""
        self._unwatch()
        self.transport.abort()

    def _watch(self) -> None:
        """After whatever has happened: is it the caller's turn, and until when?"""
        self._unwatch()
        state = self.conn.their_state
        if state not in (h11.IDLE, h11.SEND_BODY):
            self.held.busy(self)
            return
        self.held.waits(self, self.loop.time())
        if self._since is not None and not self.transport.is_closing():
            limit_s = self.bounds.header_s if state is h11.IDLE else self.bounds.request_s
            self._deadline = self.loop.call_at(self._since + limit_s, self._too_late, limit_s)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self, limit_s: float) -> None:
        cycle: RequestResponseCycle | None = (
            self.cycle
        )  # None before the first request, whatever its type says
        if cycle and cycle.response_started and not cycle.response_complete:
            self.transport.abort()
        else:
            self._refuse(408, "timeout", f"the request was not whole within {limit_s:g} s: send it at once")

    def _refuse(self, status: int, code: str, why: str) -> None:
        """Answer without the application, and close."""
        self._refused = True
        self.held.leave(self)
        body = encode({"error": {"code": code, "message": why}}).encode()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(
            f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        )
        self.transport.close()


def _peer_of(connection: Any) -> Operator:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    os_pid, uid, _ = struct.unpack("3i", credentials)
    return {"uid": uid, "os_pid": os_pid}


def _parent_of(os_pid: int) -> int | None:
    """The process that a process is a child of; None when it cannot be found."""
    try:
        found = read_process(os_pid)
    except OSError:  # no descriptor
        return None
    return found.parent if found else None


class _OwnerOnly:
    """ASGI middleware: the node's user and nobody else, whatever the socket's mode says."""

    def __init__(self, app: ASGIApp, uid: int) -> None:
        self._app = app
        self._uid = uid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer: Operator = scope[OPERATOR]
        if peer["uid"] != self._uid:
            message = f"this node belongs to user {self._uid}, you are user {peer['uid']}: ask as its owner"
            await error_answer("refused", message)(scope, receive, send)
            return
        await self._app(scope, receive, send)
