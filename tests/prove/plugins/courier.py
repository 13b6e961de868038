"""A behaviour that leaves an effect outside and carries its message on, over nodes."""

from __future__ import annotations

import json
from typing import Any

from kernel.abi import Message, ProcessInfo, Syscalls
from weftos import behaviour

ASK_S = 3


@behaviour
class Courier:
    """The message is a JSON object: ``id``, ``hop`` (a number), ``port`` of the effect server, ``route``, a list of
    [target, way], way being send or ask.

    It counts the effect ``ID.HOP`` and hands the rest of the route to its first target. Never tries again.
    """

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> str:
        work: dict[str, Any] = json.loads(message.text)
        effect = f"{work['id']}.{work['hop']}"
        counted = await sys.call_tool("count_effect", {"port": work["port"], "effect": effect})
        said = {"effect": effect, "counted": counted.status, "next": "end"}
        if work["route"]:
            (target, way), *rest = work["route"]
            text = json.dumps({**work, "hop": work["hop"] + 1, "route": rest})
            if way == "ask":
                result = await sys.call_tool("ask", {"to": target, "text": text, "timeout_s": ASK_S})
            else:
                result = await sys.call_tool("send_message", {"to": target, "text": text})
            said["next"] = f"{way} {result.status}"
        return json.dumps(said)
