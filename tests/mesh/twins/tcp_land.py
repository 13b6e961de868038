"""The real wire for the tests: ZeroMQ over loopback, and a TCP proxy that cuts, freezes and garbles."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from mesh.bounds import DEFAULT_BOUNDS, MeshBounds
from mesh.wire.zmq_wire import ZmqWire


class TcpProxy:
    """Between whoever calls ``address`` and the node behind it. The twin of ``MemoryProxy``."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = host, int(port)
        self.address = ""
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._garbles = 0

    async def open(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def garble(self) -> None:
        self._garbles += 1

    async def close(self) -> None:
        self.thaw()
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward_writer}
        pumps = [
            asyncio.create_task(self._pump(reader, onward_writer)),
            asyncio.create_task(self._pump(onward_reader, writer)),
        ]
        self._tasks.update(pumps)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for side in (writer, onward_writer):
            side.transport.abort()
            self._writers.discard(side)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._flowing.wait()
                if self._garbles:
                    self._garbles -= 1
                    data = data[:-1] + bytes((data[-1] ^ 1,))
                writer.write(data)
                await writer.drain()
            await self._flowing.wait()


class TcpLand:
    """The twin of ``MemoryNetwork``."""

    def wire(self, bounds: MeshBounds = DEFAULT_BOUNDS) -> ZmqWire:
        return ZmqWire(bounds)

    def free_address(self) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{probe.getsockname()[1]}"

    async def proxy(self, target: str) -> TcpProxy:
        return await TcpProxy(target).open()
