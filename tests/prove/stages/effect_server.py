"""The effect server of the walk: ``python -m tests.prove.stages.effect_server LOG WIRES``.

That of the other proofs, with a wire before each effect and one behind it. An effect is ``STEP:KEY``, the step and the
id of the effect. Who asked for one and was killed before it had happened has not asked: the word there is ``dead``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.prove.effect_server import Effects, run
from tests.prove.stages.places import call
from tests.prove.stages.plugins.tripwires import Tripwires

DEAD = "dead"


class WiredEffects(Effects):
    """See the module's words."""

    def __init__(self, log: Path, wires: Tripwires) -> None:
        super().__init__(log, 0.0)
        self._wires = wires

    async def count(self, effect: str) -> dict[str, Any]:
        """Raises ConnectionError when whoever asked is dead."""
        case, round_, index = effect.partition(":")[0].split(".")
        acting, acted = call(round_, index)
        async with self.under_way(effect):
            if await self._wires.stand_by(case, acting) == DEAD:
                raise ConnectionError("who asked for it is dead")
            counted = await super().count(effect)
        await self._wires.stand_by(case, acted)
        return counted

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super().serve(reader, writer)
        except ConnectionError:
            writer.close()


if __name__ == "__main__":
    asyncio.run(run(WiredEffects(Path(sys.argv[1]), Tripwires(Path(sys.argv[2])))))
