"""Serves the control API on the node's own event loop, on a Unix socket that only the node's user may use.

The socket is bound here (mode 0600 from its first moment), because uvicorn would open it to everybody; each
connection's peer is asked of the operating system (SO_PEERCRED) and becomes the operator of every request on
it. Signals stay the node's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kernel.cell_door import listen
from weftos.api import Streams, create_app
from weftos.api_parts import OPERATOR, error_answer
from weftos.control import Control, Operator
from weftos.errors import WeftosError

MAX_CONNECTIONS = 256


class Listener:
    """The served API. ``start`` returns when it answers; ``stop`` ends open streams and closes it."""

    def __init__(self, control: Control, path: Path, uid: int | None = None) -> None:
        self._path = path
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
            http=_PeerProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
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
            self._server.should_exit = True
            self._streams.end()
            await self._task
            self._path.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """uvicorn's server as a guest: it says when it listens, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _PeerProtocol(H11Protocol):
    """uvicorn's protocol, with who is at the other end in the scope of each request of the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent does
        super().connection_made(transport)
        peer = _peer_of(transport.get_extra_info("socket"))
        app = self.app

        async def with_operator(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, OPERATOR: peer}, receive, send)

        self.app = with_operator


def _peer_of(connection: Any) -> Operator:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    os_pid, uid, _ = struct.unpack("3i", credentials)
    return {"uid": uid, "os_pid": os_pid}


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
