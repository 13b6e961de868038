"""HTTP/1.1 to one server, as much of it as model calls need: ``POST``, and the body of the answer as it comes.

Connections are kept. Nothing is done on its own: no redirect followed, no body unpacked, no cookie or proxy used.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import certifi
import h11

from cognition.providers.http.connection import CertificateError, ConnectError, Connection, HttpBounds

AddressInfo = tuple[int, int, int, str, Any]
"""As ``socket.getaddrinfo`` gives them."""
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_IN_A_PATH = "/%:@!$&'()*+,;=~"
_NEXT_ADDRESS_S = 0.25  # RFC 8305, section 5


def tls_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to believe: who is in ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, else who is in Mozilla's list (certifi).

    Raises OSError when what is named cannot be read, ``ssl.SSLError`` among them when it is no certificate.
    """
    file, directory = map(environment.get, CERTIFICATE_VARIABLES)
    if not (file or directory):
        file = certifi.where()
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(addresses: Sequence[AddressInfo]) -> socket.socket:
    """A connection to the first address that takes one. Raises OSError.

    The next one is tried when the one before has failed or is slow (RFC 8305). What asyncio has for this forgets
    sockets when it is cancelled.
    """
    left = list(addresses)
    dialling: set[asyncio.Task[socket.socket]] = set()
    try:
        while True:
            if left:
                dialling.add(asyncio.ensure_future(_dial_one(left.pop(0))))
            patience_s = _NEXT_ADDRESS_S if left else None
            await asyncio.wait(dialling, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in dialling if task.done()]:
                dialling.remove(task)
                if not (error := task.exception()):
                    return task.result()
                if not (left or dialling):
                    raise error
    finally:
        for task in dialling:
            task.cancel()
            task.add_done_callback(_hang_up)


async def _dial_one(address: AddressInfo) -> socket.socket:
    family, kind, protocol, _, where = address
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, where)
    except BaseException:
        connected.close()
        raise
    return connected


def _hang_up(task: asyncio.Task[socket.socket]) -> None:
    """Another address was faster, or nobody wants one any more."""
    if not task.cancelled() and not task.exception():
        task.result().close()


class Response:
    """The head of an answer, and its body while the exchange lasts. Names of ``headers`` are in lower case."""

    def __init__(self, head: h11.Response, connection: Connection) -> None:
        self.status = head.status_code
        self.headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        self.read = connection.read


class HttpServer:
    """One server by its URL, and the connections to it. Raises ValueError for ``https`` without ``tls``."""

    def __init__(self, url: str, bounds: HttpBounds, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        default = _DEFAULT_PORTS[parts.scheme]
        if parts.scheme == "https" and tls is None:
            raise ValueError(f"{url} needs a TLS context")
        self._bounds = bounds
        self._tls = tls if parts.scheme == "https" else None
        self._host = (parts.hostname or "").encode("idna").decode("ascii")
        self._port = parts.port or default
        self._path = quote(parts.path.rstrip("/"), safe=_IN_A_PATH)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._host_header = host if self._port == default else f"{host}:{self._port}"
        self._kept: list[Connection] = []
        self._resolver = ThreadPoolExecutor(
            1, "resolver"
        )  # of its own: a slow name is nothing to other servers
        self._resolving: asyncio.Future[list[AddressInfo]] | None = None

    @asynccontextmanager
    async def post(
        self,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        sent: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Response]:
        """The answer to ``body``, for the block. ``sent()``: from now on the server may have it. Raises HttpError, by
        reading too.
        """
        own = (("host", self._host_header), ("content-length", str(len(body))))
        request = h11.Request(method="POST", target=self._path + path, headers=[*own, *headers])
        connection = self._kept_connection() or await self._connect()
        try:
            sent()
            connection.send(request, body)
            yield Response(await connection.head(), connection)
        except BaseException:
            connection.abort()
            raise
        connection.leave()

    def close(self) -> None:
        """End the connections that wait for a question."""
        for connection in tuple(self._kept):
            connection.abort()

    def _kept_connection(self) -> Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.usable and connection.quiet:
                return connection
            connection.abort()
        return None

    async def _addresses(self) -> list[AddressInfo]:
        """Of the server; one look-up for all that ask at once. Raises OSError."""
        with contextlib.suppress(socket.gaierror):
            return self._look_up(socket.AI_NUMERICHOST)
        if self._resolving is None:
            self._resolving = asyncio.get_running_loop().run_in_executor(self._resolver, self._look_up)
            self._resolving.add_done_callback(self._resolved)
        return await asyncio.shield(self._resolving)

    def _look_up(self, flags: int = 0) -> list[AddressInfo]:
        return list(socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags))

    def _resolved(self, looked_up: asyncio.Future[list[AddressInfo]]) -> None:
        self._resolving = None
        if not looked_up.cancelled():
            looked_up.exception()  # whoever asked may have gone

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                addresses = await self._addresses()
                _, connection = await loop.create_connection(
                    lambda: Connection(self._bounds, self._changed),
                    sock=await dial(addresses),
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except TimeoutError as error:
            raise ConnectError(f"nobody took the call within {self._bounds.connect_s:g} s") from error
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(error.verify_message) from error
        except OSError as error:
            raise ConnectError(error.strerror or str(error)) from error
        return connection

    def _changed(self, connection: Connection) -> None:
        if not connection.usable:
            if connection in self._kept:
                self._kept.remove(connection)
        elif len(self._kept) < self._bounds.kept:
            self._kept.append(connection)
        else:
            connection.abort()
