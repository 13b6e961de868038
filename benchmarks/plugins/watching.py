"""A behaviour that watches others and is told of their ends."""

from __future__ import annotations

import json

from kernel.abi import Message, ProcessInfo, Syscalls
from weftos import behaviour


@behaviour
class Watcher:
    """The message is a JSON list of those to be watched. An end is taken note of by the record of its turn alone."""

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.kind == "message":
            for target in json.loads(message.text):
                await sys.monitor(target)
        return message.kind
