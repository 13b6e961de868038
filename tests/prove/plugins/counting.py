"""Third-party tools with the cautious defaults: effects external, ask when in doubt."""

from __future__ import annotations

import asyncio
import json

from weftos import tool


@tool
async def count_effect(port: int, effect: str, wait_ms: int = 0) -> str:
    """Count one effect at the effect server.

    Args:
        port: where the effect server listens, on loopback
        effect: the id of the effect
        wait_ms: how long to wait first, so that a kill also finds calls whose effect has not happened
    """
    await asyncio.sleep(wait_ms / 1000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(json.dumps({"count": effect}).encode() + b"\n")
        answer = await reader.readline()
        if not answer:
            raise ConnectionError("the effect server closed without an answer")
        return str(json.loads(answer)["counted"])
    finally:
        writer.close()


@tool(timeout_s=0.5)
async def hasty_effect(port: int, effect: str, wait_ms: int = 0) -> str:
    """Count one effect at the effect server, or run out of time before or behind it.

    Args:
        port: where the effect server listens, on loopback
        effect: the id of the effect
        wait_ms: how long to wait first
    """
    return await count_effect(port, effect, wait_ms)


@tool
def tick(number: int) -> str:
    """Do nothing, under the declaration of a tool with effects outside: what a call costs by itself."""
    return str(number)
