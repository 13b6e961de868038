"""Where cells dial in: the node's Unix socket, or a TCP address for cells on other machines.

An entrance listens and hands each connection to the acceptor; it decides nothing. Cells that come in over TCP are
*remote*: they hold a lease, share no slot file with the node and cannot be killed by it directly.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, Protocol

from kernel.cell.link.noise_link import NoiseLink
from kernel.cell.link.noise_pipe import NoisePipe
from kernel.cells.cell_acceptor import Acceptor, CellConnection
from kernel.errors import Invalid
from kernel.helper.listening import ListeningSocket, listen
from mesh.identity.identity import NoiseKey


class Entrance(Protocol):
    """``dial`` is what a cell is told to come here: text and numbers, part of its start order."""

    @property
    def remote(self) -> bool: ...

    @property
    def dial(self) -> dict[str, Any]: ...

    @property
    def is_open(self) -> bool: ...

    async def open(self, acceptor: Acceptor) -> None:
        """Begin to listen. Raises Invalid, OSError."""

    def close(self) -> None:
        """Listen no longer."""


class UnixEntrance:
    """For cells on this machine."""

    remote = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None

    @property
    def dial(self) -> dict[str, Any]:
        return {"socket": str(self._path)}

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self, acceptor: Acceptor) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(acceptor.connection, sock=listen(self._path))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)


class TcpEntrance:
    """For cells anywhere. ``address`` is HOST:PORT and bound at once, so that port 0 becomes a real one.

    ``key`` is made for this boot and for this door: it has nothing to do with the keys that peers know. Raises
    Invalid, OSError.
    """

    remote = True

    def __init__(self, address: str, key: NoiseKey, boot: int, lease_s: float) -> None:
        host, port = split_address(address)
        if host in ("0.0.0.0", "::"):
            raise Invalid(f"{address} is no address that a cell could dial: name one of this machine's own")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = ListeningSocket(fileno=socket.create_server((host, port), family=family).detach())
        self._key = key
        self._boot = boot
        self._lease_s = lease_s
        self._server: asyncio.Server | None = None

    @property
    def dial(self) -> dict[str, Any]:
        host, port = self._socket.getsockname()[:2]
        return {"host": host, "port": port, "key": self._key.public.hex(), "lease_s": self._lease_s}

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self, acceptor: Acceptor) -> None:
        def connection() -> NoiseLink:
            return NoiseLink(NoisePipe(self._key, self._boot), acceptor.connection(CellConnection))

        self._server = await asyncio.get_running_loop().create_server(connection, sock=self._socket)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; an IPv6 address stands in brackets. Raises Invalid."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise Invalid(f"{address!r:.300} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def own_address_towards(address: str) -> str:
    """This machine's own address as whoever is at ``address`` (HOST:PORT) sees it. Sends nothing. Raises OSError."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port or 1))
        found: str = probe.getsockname()[0]
    return f"[{found}]" if ":" in found else found
