"""Long work on the event loop, done a slice at a time: others go first."""

from __future__ import annotations

import asyncio

BUSY_S = 0.0003
GIVE_WAY_S = 0.002


async def give_way() -> None:
    """Between two slices: let the loop go round, and rest for a moment when that shows that it has other work to do.

    Whoever has others wait for some twenty rounds of the loop would otherwise have each of them take a slice longer.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await asyncio.sleep(0)
    if loop.time() - began_s > BUSY_S:
        await asyncio.sleep(GIVE_WAY_S)
