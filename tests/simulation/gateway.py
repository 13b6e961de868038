"""The gateway: it answers, late or never, refuses, loses what it was told, or is down for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kernel.budget.price import Price
from kernel.cell.conversation import canonical_json, digest_of
from kernel.helper.helper import Answered, HelperLost, HelperRefused
from tests.kernel.twins.put_by import answer_by
from tests.simulation.world import World

PRICE = Price(7, 1_300_000, 3)


class SimulatedGateway:
    def __init__(self, world: World) -> None:
        self._world = world
        self.down_until_s = 0.0
        self._asked = 0
        self._kept: set[bytes] = set()

    def ask(self, request: dict[str, Any], answered: Answered) -> Callable[[], None]:
        return answer_by(lambda: self._answer_to(request), answered)

    async def _answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        text = f"answer {self._world.boot}.{self._asked}"
        await asyncio.sleep(self._world.delay_s())
        if asyncio.get_running_loop().time() < self.down_until_s:
            self._kept.clear()
            raise HelperLost("the gateway is not running")
        fate = self._world.chance.random()
        if fate > 0.95:
            self._kept.clear()
        digests = [request["digests"][at : at + 32] for at in range(0, len(request["digests"]), 32)]
        for place, message in request["said"]:
            self._kept.add(digests[place])
            if digest_of(canonical_json(message)) != digests[place]:
                self._world.broken(f"the gateway is told {message} as another message")
        if not self._kept.issuperset(digests):
            return {"status": "lost"}
        if fate < 0.03:
            raise HelperRefused("the provider refuses")
        if fate < 0.05:
            await asyncio.sleep(1e6)
        return {"status": "ok", "text": text, "tool_calls": [], "input_tokens": 3, "output_tokens": 1}

    def cancel(self, stream: str) -> None:
        """Nobody waits for it any more."""

    def forget(self) -> None:
        self._kept.clear()

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        return provider or "twin", model or "twin-1"

    def price(self, provider: str, model: str) -> Price | None:
        return PRICE
