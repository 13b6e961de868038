"""Somebody who holds as many places at a door as there are, and takes them again when they are taken away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.patience import HANG_S

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def flood(dial: Callable[[], Awaitable[Ends]], many: int) -> AsyncIterator[None]:
    """``many`` connections that say nothing; one that is cut comes again at once. Entered when some have been cut."""
    cut = asyncio.Event()

    async def come_again() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await dial()
                try:
                    await reader.read()
                finally:
                    writer.close()
                cut.set()

    tasks = [asyncio.ensure_future(come_again()) for _ in range(many)]
    try:
        await asyncio.wait_for(cut.wait(), HANG_S)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
