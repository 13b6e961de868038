"""A behaviour for the cases of supervision: how it starts and how it ends, files say."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from kernel.abi import Message, ProcessInfo, Syscalls
from weftos import behaviour


@behaviour
class Supervised:
    """Its system prompt names a directory. It does not start while that has ``fails`` and its address, and its start
    takes as long as there is ``hangs`` and its address, with + for each slash. A turn whose message is its own PID
    lasts until there is a file of that name, and ends as that says: normal, crash, or in order.
    """

    def __init__(self, info: ProcessInfo) -> None:
        orders, address = Path(info.config["system_prompt"]), info.address.replace("/", "+")
        while (orders / f"hangs{address}").exists():
            time.sleep(0.02)
        if (orders / f"fails{address}").exists():
            raise RuntimeError("the test said so")
        self._pid, self._order = str(info.pid), orders / str(info.pid)

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.text != self._pid:  # what it is handed of its forerunner
            return ""
        while not self._order.exists():
            await asyncio.sleep(0.02)
        match self._order.read_text():
            case "normal":
                raise SystemExit
            case "crash":
                raise ValueError("the test said so")
        return ""
