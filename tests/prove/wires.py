"""The wires between nodes, as TCP relays on loopback that can be cut, frozen and deafened. In a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

_PIECE_BYTES = 64 * 1024


class Wire:
    """One relay: whoever connects to ``port`` speaks with ``target``. Methods of :class:`Wires` change it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.open = True
        self.flowing = (asyncio.Event(), asyncio.Event())  # from whoever dialled, and back to it
        for flow in self.flowing:
            flow.set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side or :meth:`Wires.cut` ends it."""
        if not self.open:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, far_writer}
        try:
            there, back = self.flowing
            await asyncio.gather(
                self._carry(reader, far_writer, there), self._carry(far_reader, writer, back)
            )
        except asyncio.CancelledError:
            return  # the proof is over
        finally:
            for end in (writer, far_writer):
                self.writers.discard(end)
                end.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        try:
            while piece := await reader.read(_PIECE_BYTES):
                await flowing.wait()
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # the other side was killed, or the wire was cut: what was on its way is lost
        writer.transport.abort()


class Wires:
    """All wires of a proof; use as a context."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Wires:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lay(self, target: int) -> Wire:
        """A new wire to the port ``target``."""

        async def lay() -> Wire:
            wire = Wire(target)
            server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
            wire.port = server.sockets[0].getsockname()[1]
            return wire

        wire: Wire = self._do(lay())
        return wire

    def cut(self, wire: Wire) -> None:
        """End its connections, and let no new one through until :meth:`mend`."""

        async def cut() -> None:
            wire.open = False
            for writer in list(wire.writers):
                writer.transport.abort()

        self._do(cut())

    def freeze(self, wire: Wire) -> None:
        """Carry nothing, and say nothing of it, until :meth:`mend`."""

        async def freeze() -> None:
            for flow in wire.flowing:
                flow.clear()

        self._do(freeze())

    def deafen(self, wire: Wire, way: int) -> None:
        """Carry nothing one way (0: from whoever dialled, 1: back to it), and everything the other."""

        async def deafen() -> None:
            wire.flowing[way].clear()

        self._do(deafen())

    def mend(self, wire: Wire) -> None:
        """Let everything through again."""

        async def mend() -> None:
            wire.open = True
            for flow in wire.flowing:
                flow.set()

        self._do(mend())

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
