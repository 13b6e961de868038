"""The twin of the ZeroMQ wire: connections that are queues, between wires of one network in one process.

It keeps the wire's promises and no others: frames in order, a bounded queue, an end that is told after the last
frame. A :class:`MemoryProxy` stands between as the tests' TCP proxy does, and cuts, freezes or garbles.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque

from mesh.bounds import DEFAULT_BOUNDS, MeshBounds
from mesh.errors import TransportError
from mesh.identity.identity import Identity
from mesh.links.link_table import LinkTable
from mesh.links.transport import WireEvents

QUEUED_FRAMES = 256


class MemoryProxy:
    """Between whoever calls ``address`` and the wire behind it."""

    def __init__(self, network: MemoryNetwork, address: str, target: str) -> None:
        self.address = address
        self.target = target
        self._network = network
        self.frozen = False
        self.held: list[_Pipe] = []
        self._garbles = 0

    def cut(self) -> None:
        """End every connection through it."""
        for pipe in [pipe for pipe in self._network.pipes if pipe.proxy is self]:
            pipe.end()

    def freeze(self) -> None:
        """Let nothing pass, no end either, and tell nobody."""
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        for pipe in self._network.pipes:
            for _ in pipe.frames:
                pipe.flow_soon()
        for pipe in self.held:
            pipe.end()
        self.held.clear()

    def garble(self) -> None:
        """Change one bit of the next frame."""
        self._garbles += 1

    def passed(self, frame: bytes) -> bytes:
        if not self._garbles:
            return frame
        self._garbles -= 1
        return frame[:-1] + bytes((frame[-1] ^ 1,))

    async def close(self) -> None:
        self.cut()


class _Pipe:
    """One direction of a connection: what ``source`` sent and ``sink`` has not taken."""

    def __init__(
        self, network: MemoryNetwork, source: MemoryWire, sink: MemoryWire, proxy: MemoryProxy | None
    ):
        self.network, self.source, self.sink, self.proxy = network, source, sink, proxy
        self.source_number = self.sink_number = 0
        self.back: _Pipe
        self.frames: deque[bytes] = deque()
        self.full = self.ended = False
        network.pipes.append(self)

    def flow_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.flow)

    def flow(self) -> None:
        if not self.frames or (self.proxy is not None and self.proxy.frozen):
            return
        frame = self.frames.popleft()
        if self.proxy is not None:
            frame = self.proxy.passed(frame)
        if self.sink_number in self.sink.pipes:
            self.sink.events.on_frame(self.sink_number, frame)
        if self.full:
            self.full = False
            if self.source_number in self.source.pipes:
                self.source.events.on_writable(self.source_number)

    def closed(self) -> None:
        """One side has closed it: the other hears of it when the proxy lets it pass."""
        if self.proxy is not None and self.proxy.frozen:
            self.proxy.held.append(self)
        else:
            self.end()

    def end(self) -> None:
        """Both sides hear of the end after what is under way."""
        if not self.ended:
            self.ended = self.back.ended = True
            loop = asyncio.get_running_loop()
            for pipe in (self, self.back):
                self.network.pipes.remove(pipe)
                while pipe.frames:
                    pipe.flow()
                    if pipe.proxy is not None and pipe.proxy.frozen:
                        break
                loop.call_soon(pipe.sink.gone, pipe.sink_number)


class MemoryNetwork:
    """Addresses, and what is between them."""

    def __init__(self) -> None:
        self.listening: dict[str, MemoryWire] = {}
        self.pipes: list[_Pipe] = []
        self._proxies: dict[str, MemoryProxy] = {}
        self._ports = itertools.count(1)

    def wire(self, bounds: MeshBounds = DEFAULT_BOUNDS, host: str = "memory") -> MemoryWire:
        return MemoryWire(self, host)

    def free_address(self) -> str:
        return f"tcp://memory:{next(self._ports)}"

    async def proxy(self, target: str) -> MemoryProxy:
        proxy = MemoryProxy(self, self.free_address(), target)
        self._proxies[proxy.address] = proxy
        return proxy

    def behind(self, address: str) -> tuple[MemoryWire | None, MemoryProxy | None]:
        proxy = self._proxies.get(address)
        return self.listening.get(proxy.target if proxy is not None else address), proxy


class MemoryWire:
    """The twin of ``ZmqWire``. ``host``: where it dials from."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self.host = host
        self.events: WireEvents
        self.pipes: dict[int, _Pipe] = {}
        self._network = network
        self._numbers = itertools.count(1)
        self._address = ""

    async def open(self, events: WireEvents, listen: str | None) -> str:
        self.events = events
        if listen is not None:
            self._address = self._network.free_address() if listen.endswith(":*") else listen
            if self._address in self._network.listening:
                raise TransportError(f"cannot listen on {listen}: in use")
            self._network.listening[self._address] = self
        return self._address

    def dial(self, address: str) -> int:
        number = next(self._numbers)
        other, proxy = self._network.behind(address)
        if other is None:
            if not address.startswith("tcp://"):
                raise TransportError(f"cannot dial {address}: it has the form tcp://HOST:PORT")
            self.pipes[number] = _Pipe(self._network, self, self, None)
            self.pipes[number].back = self.pipes[number]
            asyncio.get_running_loop().call_soon(self.gone, number)
            return number
        there, back = _Pipe(self._network, self, other, proxy), _Pipe(self._network, other, self, proxy)
        there.back, back.back = back, there
        there.source_number = back.sink_number = number
        there.sink_number = back.source_number = next(other._numbers)
        self.pipes[number] = there
        other.pipes[there.sink_number] = back
        return number

    def send(self, conn: int, frame: bytes) -> bool:
        pipe = self.pipes.get(conn)
        if pipe is None or pipe.ended:
            return True
        if len(pipe.frames) >= QUEUED_FRAMES:
            pipe.full = True
            return False
        pipe.frames.append(frame)
        pipe.flow_soon()
        return True

    def address(self, conn: int) -> str:
        pipe = self.pipes.get(conn)
        return pipe.sink.host if pipe is not None else ""

    def trust(self, conn: int) -> None:
        pass

    def close(self, conn: int) -> None:
        pipe = self.pipes.pop(conn, None)
        if pipe is not None:
            asyncio.get_running_loop().call_soon(pipe.closed)

    async def shut(self) -> None:
        self._network.listening.pop(self._address, None)
        for conn in list(self.pipes):
            self.close(conn)
        await asyncio.sleep(0)

    def gone(self, conn: int) -> None:
        if self.pipes.pop(conn, None) is not None:
            self.events.on_gone(conn, "the connection ended")


def memory_transport(network: MemoryNetwork, me: Identity, bounds: MeshBounds = DEFAULT_BOUNDS) -> LinkTable:
    """The in-memory twin of a node's transport: the same links over the other wire."""
    return LinkTable(me, network.wire(bounds), bounds)
