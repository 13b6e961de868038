"""A behaviour that leaves an effect outside and carries its message on to the next agent of a route."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from kernel.abi import Message, ProcessInfo, Syscalls
from weftos import behaviour

ASK_S = 300
HELD_S = 300


@behaviour
class Trader:
    """The message is a JSON object: ``id``, ``hop`` (a number), ``ways``, send or ask for each hop, ``route``, all
    agents by hop, ``wait_ms`` for each effect, ``tool`` that leaves it.

    Leaves the effect ``ID.HOP`` and hands the rest to the next of the route; where that is refused it leaves
    ``ID.HOP.refused``. With ``hold``, a path, it holds its cell once, and writes there since when.
    """

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> str:
        work: dict[str, Any] = json.loads(message.text)
        if "hold" in work:
            return _hold(Path(work["hold"]))
        name, hop = f"{work['id']}.{work['hop']}", work["hop"] + 1
        await sys.call_tool(work["tool"], {"effect": name, "wait_ms": work["wait_ms"]})
        if hop < len(work["route"]):
            onward = {"to": work["route"][hop], "text": json.dumps({**work, "hop": hop})}
            if work["ways"][hop] == "ask":
                result = await sys.call_tool("ask", {**onward, "timeout_s": ASK_S})
            else:
                result = await sys.call_tool("send_message", onward)
            if result.status != "ok":
                await sys.call_tool(work["tool"], {"effect": f"{name}.refused", "wait_ms": 0})
        return name


def _hold(since: Path) -> str:
    """Compute without an await, which nobody else of the cell survives; the second time it is left alone."""
    if not since.exists():
        since.write_text(str(time.time_ns() // 1000))
        time.sleep(HELD_S)
    return "held"
