"""A caller for whom a listening socket has no descriptor."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import suppress
from typing import Any

import pytest

from tests.patience import HANG_S


async def refusals_at_once(address: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often, in one turn of its loop, asyncio says that it cannot accept who waits at ``address``.

    When there are descriptors again he is accepted, and answered or turned away.
    """
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0)
    told: list[str] = []
    counted: asyncio.Future[int] = loop.create_future()

    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        told.append(context["message"])
        if len(told) == 1:
            loop.call_soon(lambda: counted.set_result(len(told)))

    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(family) as caller:
        caller.connect(address)
        caller.setblocking(False)
        loop.set_exception_handler(tell)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            at_once = await asyncio.wait_for(counted, HANG_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            loop.set_exception_handler(None)
        caller.send(b"\xff" * 64 + b"\r\n\r\n")
        with suppress(ConnectionResetError):
            await asyncio.wait_for(loop.sock_recv(caller, 4096), HANG_S)
    assert set(told) == {"socket.accept() out of system resource"}
    return at_once
