"""Two tools that leave an effect outside. Nobody can be asked about that of the one, and the other has a probe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from weftos import EffectId, Probed, tool

PORT = Path(__file__).with_name("port")
"""Where the effect server listens, on loopback."""


async def _say(said: dict[str, Any]) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(PORT.read_text()))
    try:
        writer.write(json.dumps(said).encode() + b"\n")
        line = await reader.readline()
        if not line:
            raise ConnectionError("the effect server closed without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer
    finally:
        writer.close()


async def _leave(step: str, key: EffectId) -> str:
    counted = (await _say({"count": f"{step}:{key}"}))["counted"]
    return f"{step} is done ({counted})"


async def _find(key: EffectId) -> Probed:
    counts = (await _say({"ask": None}))["counts"]
    landed = any(effect.endswith(f":{key}") and count for effect, count in counts.items())
    return Probed("landed" if landed else "not_landed")


@tool
async def act(step: str, asked: int, key: EffectId) -> str:
    """Leave an effect that nobody can be asked about.

    Args:
        step: which call of which walk it is
        asked: how often the model had been asked for this step when it said so
        key: the id of the effect
    """
    return await _leave(step, key)


@tool(probe=_find)
async def act_probed(step: str, asked: int, key: EffectId) -> str:
    """Leave an effect that can be asked about.

    Args:
        step: which call of which walk it is
        asked: how often the model had been asked for this step when it said so
        key: the id of the effect
    """
    return await _leave(step, key)
