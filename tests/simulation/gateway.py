"""The gateway: it answers, late or never, refuses, or is down for a while."""

from __future__ import annotations

import asyncio
from typing import Any

from kernel.helper.helper import HelperLost, HelperRefused
from tests.simulation.world import World


class SimulatedGateway:
    def __init__(self, world: World) -> None:
        self._world = world
        self.down_until_s = 0.0
        self._asked = 0

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        text = f"answer {self._world.boot}.{self._asked}"
        await asyncio.sleep(self._world.delay_s())
        if asyncio.get_running_loop().time() < self.down_until_s:
            raise HelperLost("the gateway is not running")
        fate = self._world.chance.random()
        if fate < 0.03:
            raise HelperRefused("the provider refuses")
        if fate < 0.05:
            await asyncio.sleep(1e6)
        return {"status": "ok", "text": text, "tool_calls": [], "input_tokens": 3, "output_tokens": 1}

    def cancel(self, stream: str) -> None:
        """Nobody waits for it any more."""

    def forget(self) -> None:
        """It keeps nothing."""

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        return provider or "twin", model or "twin-1"
