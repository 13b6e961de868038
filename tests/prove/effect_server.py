"""The outside world: counts effects by id, on disk before it answers. A process of its own.

One JSON object a line, each way. ``{"count": id}`` -> ``{"counted": n}``, a random while after the counting, so that a
kill finds calls whose effect has happened and is not yet known. ``{"ask": [ids]}`` -> ``{"counts": {id: n}}``, once no
counting of those ids is still under way; ``{"ask": null}`` for all, also those under way.

Prints its port, then serves until its standard input closes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 2**20


class Effects:
    """Counts, in memory and in ``log``; calls that arrive together share one fsync."""

    def __init__(self, log: Path, delay_s: float) -> None:
        self._file = log.open("ab", buffering=0)
        self._delay_s = delay_s
        self._counts: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._settled = asyncio.Condition()
        self._written: asyncio.Future[None] | None = None
        self._lines: list[str] = []

    async def count(self, effect: str) -> dict[str, Any]:
        async with self.under_way(effect):
            self._counts[effect] += 1
            counted = self._counts[effect]
            await self._write(effect)
        await asyncio.sleep(random.random() * self._delay_s)
        return {"counted": counted}

    @asynccontextmanager
    async def under_way(self, effect: str) -> AsyncIterator[None]:
        """While it is not known whether it will have happened: who asks for it waits."""
        self._under_way[effect] += 1
        try:
            yield
        finally:
            self._under_way[effect] -= 1
            async with self._settled:
                self._settled.notify_all()

    async def ask(self, effects: list[str] | None) -> dict[str, Any]:
        wanted = list(self._counts | self._under_way) if effects is None else effects
        async with self._settled:
            await self._settled.wait_for(lambda: not any(self._under_way[effect] for effect in wanted))
        return {"counts": {effect: self._counts[effect] for effect in wanted}}

    async def _write(self, effect: str) -> None:
        self._lines.append(effect + "\n")
        if self._written is None:
            loop = asyncio.get_running_loop()
            self._written = loop.create_future()
            loop.call_soon(self._flush, self._written)
        await self._written

    def _flush(self, written: asyncio.Future[None]) -> None:
        lines, self._lines, self._written = self._lines, [], None
        os.write(self._file.fileno(), "".join(lines).encode())
        os.fsync(self._file.fileno())
        written.set_result(None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. Whoever asked may die meanwhile: what was asked for is done all the same."""
        while line := await _line(reader):
            match json.loads(line):
                case {"count": str(effect)}:
                    answer = await self.count(effect)
                case {"ask": effects}:
                    answer = await self.ask(effects)
                case other:
                    raise ValueError(f"not a request: {other!r}")
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end, whether the other side closed or was killed."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


async def run(effects: Effects) -> None:
    server = await asyncio.start_server(effects.serve, "127.0.0.1", 0, limit=MAX_LINE_BYTES, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, closed.set)
    await closed.wait()


if __name__ == "__main__":
    asyncio.run(run(Effects(Path(sys.argv[1]), float(sys.argv[2]))))
