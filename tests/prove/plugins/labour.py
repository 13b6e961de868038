"""A behaviour that works off a plan: the densest load a message can make."""

from __future__ import annotations

import json

from kernel.abi import Message, ProcessInfo, Syscalls, ToolCall, TurnResult
from weftos import behaviour

ASK_S = 3


@behaviour
class Labourer:
    """The message is a JSON object: ``id``, ``port`` of the effect server, ``rounds``, a list of texts; ``wait_ms``
    for each effect, if wanted.

    Each text is one round of calls made at once, a letter each: e counts an effect, h does so in haste, w writes a
    file, r reads the file of the first round, c calculates, t ticks, a asks the agent named in ``ask`` to count an
    effect. Ids of effects and names of files follow from the message alone.
    """

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        work = json.loads(message.text)
        dice = await sys.random()
        failed = []
        for number, letters in enumerate(work["rounds"]):
            calls = [_call(work, dice, letter, f"{number}.{index}") for index, letter in enumerate(letters)]
            results = await sys.call_tools(calls)
            failed += [f"{r.id} {r.name} {r.status}: {r.text[:200]}" for r in results if r.status != "ok"]
        reply = json.dumps({"id": work["id"], "dice": dice, "failed": failed})
        return TurnResult(reply, status="error" if failed else "ok")


def _call(work: dict[str, object], dice: int, letter: str, place: str) -> ToolCall:
    name, arguments = {
        "e": (
            "count_effect",
            {"port": work["port"], "effect": f"{work['id']}.{place}", "wait_ms": work.get("wait_ms", 0)},
        ),
        "h": (
            "hasty_effect",
            {"port": work["port"], "effect": f"{work['id']}.{place}", "wait_ms": work.get("wait_ms", 0)},
        ),
        "w": ("file_write", {"path": f"{work['id']}.{place}.txt", "content": f"{work['id']} {dice}\n"}),
        "r": ("file_read", {"path": f"{work['id']}.0.0.txt"}),
        "c": ("calculator", {"expression": "17*23"}),
        "t": ("tick", {"number": 1}),
        "a": ("ask", {"to": work.get("ask", ""), "text": _asked(work, place), "timeout_s": ASK_S}),
    }[letter]
    return ToolCall(name, json.dumps(arguments), place)


def _asked(work: dict[str, object], place: str) -> str:
    return json.dumps({"id": f"{work['id']}.{place}", "port": work["port"], "rounds": ["e"]})
