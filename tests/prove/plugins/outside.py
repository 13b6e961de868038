"""Tools whose effects are lines of a file outside, each with the id of its effect; the file lies beside this one."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from weftos import EffectId, Probed, tool

FILE = Path(__file__).with_name("effects.jsonl")


async def _append(effect: str, wait_ms: int, key: EffectId) -> str:
    """One line, by one write, in the middle of the wait."""
    await asyncio.sleep(wait_ms / 2000)
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps({"effect": effect, "id": key}).encode() + b"\n")
    finally:
        os.close(file)
    await asyncio.sleep(wait_ms / 2000)
    return effect


def _find(key: EffectId) -> Probed:
    happened = FILE.exists() and any(json.loads(line)["id"] == key for line in FILE.open())
    return Probed("landed" if happened else "not_landed")


@tool
async def append(effect: str, wait_ms: int, key: EffectId) -> str:
    """Leave an effect that nobody can be asked about.

    Args:
        effect: its name
        wait_ms: how long it takes
        key: the id of the effect
    """
    return await _append(effect, wait_ms, key)


@tool(probe=_find)
async def append_probed(effect: str, wait_ms: int, key: EffectId) -> str:
    """Leave an effect that can be asked about.

    Args:
        effect: its name
        wait_ms: how long it takes
        key: the id of the effect
    """
    return await _append(effect, wait_ms, key)
