"""What is in doubt is decided as a person would: by asking the world outside whether it was done."""

from __future__ import annotations

import json
from contextlib import suppress

from kernel.operations.decisions import Resolution
from tests.prove.effects import EffectServer
from weftos import Client, WeftosError


def settle(node: Client, effects: EffectServer) -> int:
    """Decide all that is listed. How many there were."""
    decided = 0
    for doubt in node.doubts.list():
        effect = f"{json.loads(doubt['arguments'])['step']}:{doubt['effect_id']}"
        resolution: Resolution = "done" if effects.counts([effect])[effect] else "retry"
        with suppress(WeftosError):  # its own turn has settled it meanwhile
            node.doubts.resolve(doubt["id"], resolution)
            decided += 1
    return decided
