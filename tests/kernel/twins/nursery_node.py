"""A node as far as a nursery needs one, and the module of what it bears: ``python -m tests.kernel.twins.nursery_node
LOG``.

Reads one JSON command a line, and answers each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from kernel.helper import nursery as nurseries
from kernel.helper.helper import Helper, HelperLost, HelperOver, serve_link
from kernel.helper.nursery import Nursery
from tests.patience import HANG_S

BOOT = 77
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_OF_THE_LOOP = 2


def main(told: bytes, link_fd: int, boot: int) -> int:
    """What is borne."""

    async def handle(op: str, args: dict[str, Any]) -> Any:
        print("asked", op)
        return {
            "told": told.decode(),
            "boot": boot,
            "pid": os.getpid(),
            "parent": os.getppid(),
            "dumpable": ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0),
            "sockets": sum(_is_socket(fd) for fd in os.listdir("/proc/self/fd")) - _OF_THE_LOOP,
            "name": Path("/proc/self/comm").read_text().strip(),
        }

    if told == b"ends":
        return 3
    if told == b"fails":
        raise RuntimeError("the newborn does not want to")
    asyncio.run(serve_link(link_fd, boot, handle))
    return 0


def _is_socket(fd: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    except OSError:
        return False


class Case:
    def __init__(self, nursery: Nursery, log: Path) -> None:
        self.nursery = nursery
        self.log = log
        self.ends: asyncio.Queue[int | None] = asyncio.Queue()
        self.helper: Helper | None = None

    async def do(self, word: str, *given: Any) -> Any:
        match word:
            case "tell":
                try:
                    return self.nursery.tell(given[0].encode(), self.log)
                except HelperOver as error:
                    return [type(error).__name__, str(error)]
            case "start":
                self.helper = Helper(self.nursery, BOOT, lambda op, args: None, self.ends.put_nowait)
                try:
                    await self.helper.start()
                except (HelperOver, OSError) as error:
                    return [type(error).__name__, str(error)]
                return self.helper.os_pid
            case "ask":
                assert self.helper is not None
                try:
                    return await self.helper.request("ask", {})
                except HelperLost as error:
                    return str(error)
            case "end":
                return await asyncio.wait_for(self.ends.get(), HANG_S)
            case "stop":
                assert self.helper is not None
                return await self.helper.stop(HANG_S)
            case "impatient":
                nurseries._PATIENCE_S = nurseries._BURIAL_S = 0.1
        return None


async def run(nursery: Nursery, log: Path) -> None:
    case = Case(nursery, log)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await case.do(*json.loads(line))), flush=True)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    module, log = sys.argv[1:]
    asyncio.run(run(Nursery.begin("tester", module), Path(log)))
