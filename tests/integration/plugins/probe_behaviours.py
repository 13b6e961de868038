"""Third-party behaviours for the tests of a real node: what they do, a test reads from their reply."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prowl import besiege, daemonise, prowl

from cognition.agent import Agent
from kernel.abi import Down, Exit, Message, ProcessInfo, Syscalls, ToolCall
from kernel.cell.shell import Cell
from weftos import LogicalExit, behaviour


@behaviour
class Planner:
    """The message is a JSON list of ``[tool, arguments]``; the reply what came of each.

    ``[tool, text, n]`` gives the tool n times that text: more than a message can carry.
    """

    def __init__(self, info: ProcessInfo) -> None:
        self._pid = info.pid

    async def handle(self, message: Message, sys: Syscalls) -> str:
        results = []
        for name, arguments, *times in json.loads(message.text):
            text = arguments * (times or [1])[0] if isinstance(arguments, str) else json.dumps(arguments)
            [result] = await sys.call_tools([ToolCall(name, text)])
            results.append({"status": result.status, "text": result.text, "truncated": result.truncated})
        return json.dumps(results)


@behaviour
class Multiplier:
    """Has as many children made as the message says, one after the other, whatever it is told."""

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        for number in range(int(message.text)):
            await sys.call_tool("spawn_agent", {"name": f"m{number}"})
        return "done"


@behaviour
class Watcher:
    """Sets a monitor of what the message names, and replies with its reference; of a DOWN, with what it says."""

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.kind == "down":
            down = Down.of(message)
            return json.dumps([down.ref, down.pid, down.reason])
        return json.dumps([set_.ref for set_ in [await sys.monitor(name) for name in message.text.split()]])


@behaviour
class Linker:
    """Makes the calls that the message names, ``link:NAME``, ``unlink:REF``, ``trap:on``, ``monitor:NAME`` and
    ``flush:REF``, waits at ``until:FILE``, ends at ``leave:now``, and replies with what they gave; to an exit or a
    down, with what it says.
    """

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.kind in ("exit", "down"):
            end = Exit.of(message) if message.kind == "exit" else Down.of(message)
            return json.dumps([end.ref, end.pid, end.reason])
        return json.dumps([await self._call(sys, *call.split(":")) for call in message.text.split()])

    async def _call(self, sys: Syscalls, op: str, about: str) -> str:
        match op:
            case "link":
                return (await sys.link(about)).ref
            case "unlink":
                return str(await sys.unlink(about))
            case "trap":
                return str(await sys.trap_exits(about == "on"))
            case "monitor":
                return (await sys.monitor(about)).ref
            case "leave":
                raise SystemExit
            case "flush":
                return str(await sys.demonitor(about, flush=True))
        while not Path(about).exists():
            await asyncio.sleep(0.02)
        return about


@behaviour
class Gated:
    """Its system prompt names a file: it does not start while that is there."""

    def __init__(self, info: ProcessInfo) -> None:
        while Path(info.config["system_prompt"]).exists():
            time.sleep(0.02)

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return ""


@behaviour
class Holds:
    """Never ends a turn."""

    def __init__(self, info: ProcessInfo) -> None:
        self.info = info

    async def handle(self, message: Message, sys: Syscalls) -> str:
        await asyncio.Event().wait()
        return ""


@behaviour
class Remembers:
    """Replies with how its forerunner ended, as JSON; the first of all ends instead at the words crash and refuse."""

    def __init__(self, info: ProcessInfo) -> None:
        self._end = info.last_exit

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.text == "crash" and self._end is None:
            raise ValueError("on purpose")
        if message.text == "refuse" and self._end is None:
            raise LogicalExit("refused", "not a word of it")
        return json.dumps(None if self._end is None else asdict(self._end))


@behaviour
class Modules:
    """Replies with everything its cell has loaded; it is an agent, so all that an agent needs is among it."""

    def __init__(self, info: ProcessInfo) -> None:
        self._agent = Agent(info)

    async def handle(self, message: Message, sys_: Syscalls) -> str:
        return json.dumps(
            {"modules": sorted(sys.modules), "path": sys.path, "environment": sorted(os.environ)}
        )


@behaviour
class Raises:
    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        raise ValueError(f"no \x1b[31m {message.text}")


def _stolen_token() -> str:
    """The cell's token, from the frame of the function that was given it: hostile code reads what it likes."""
    frame = inspect.currentframe()
    while frame is not None:
        if "token" in frame.f_locals and "boot" in frame.f_locals:
            return str(frame.f_locals["token"])
        frame = frame.f_back
    raise LookupError("no frame of this thread holds a token")


@behaviour
class Traitor:
    """Hostile code in a cell: it takes the link of its cell and says what it likes."""

    def __init__(self, info: ProcessInfo) -> None:
        self._pid = info.pid

    async def handle(self, message: Message, sys: Syscalls) -> str:
        cell = next(thing for thing in gc.get_objects() if isinstance(thing, Cell))
        if message.text == "token":
            return _stolen_token()
        frame: list[Any] = json.loads(message.text)
        cell.link.send([self._pid if part == "me" else part for part in frame])
        await sys.now()
        return "still here"


@behaviour
class Prowler:
    """Hostile code in a cell: it looks for a key in every process's /proc."""

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return json.dumps(prowl(*json.loads(message.text)))


@behaviour
class Besieger:
    """Hostile code in a cell: it kills the process that the message names, and tries to open what comes after it."""

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        opened = await asyncio.to_thread(besiege, *json.loads(message.text))  # else its cell seems to hang
        return json.dumps(opened)


@behaviour
class Daemoniser:
    """Hostile code in a cell: it cuts a process loose, and replies with its pid."""

    def __init__(self, info: ProcessInfo) -> None:
        pass

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return str(daemonise())
