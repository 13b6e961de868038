"""Third-party tools for the tests of a real node."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path

from prowl import besiege, daemonise, prowl

from weftos import tool


async def _tell(port: int, effect: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(json.dumps({"count": effect}).encode() + b"\n")
        answer = await reader.readline()
        if not answer:
            raise ConnectionError("no answer")
        return str(json.loads(answer)["counted"])
    finally:
        writer.close()


@tool
async def count(port: int, effect: str) -> str:
    """Count one effect outside the node, with the cautious defaults: external, ask a person."""
    return await _tell(port, effect)


@tool(effects="none", on_doubt="retry")
async def look(port: int, effect: str) -> str:
    """The same for a call that may be made again."""
    return await _tell(port, effect)


@tool(effects="none")
def hostile() -> str:
    """Say what a terminal would obey."""
    return "\x1b]0;owned\x07\x1b[2J [link=file:///etc/passwd]click[/link] \u202e"


@tool(effects="none")
def worker_pid() -> int:
    """The process this runs in."""
    return os.getpid()


@tool(effects="none")
def dies() -> str:
    """End the process this runs in, each time."""
    os._exit(3)


@tool(effects="none", timeout_s=0.5)
def hangs() -> str:
    """Come back far too late."""
    time.sleep(3600)
    return "at last"


@tool
def breeds(note: str) -> str:
    """Have a process of its own do the work, which takes an hour; its pid goes into a file."""
    with subprocess.Popen(["sleep", "3600"]) as child:
        Path(note).write_text(f"{child.pid}\n")
        child.wait()
    return "done"


@tool(effects="none")
def floods() -> str:
    """Say more than anybody wants to hear."""
    return "flood " * 2**20


@tool(effects="none")
def prowls(yek: str, closed: list[int]) -> str:
    """Look for a key in every process's /proc, and try to open what the processes ``closed`` have."""
    return json.dumps(prowl(yek, closed))


@tool(effects="none", timeout_s=600.0)
def besieges(victim: int, stop: str) -> str:
    """Kill a process, and try to open each that comes after it, until a file is there."""
    return json.dumps(besiege(victim, stop))


@tool(effects="none")
def daemonises() -> int:
    """Cut a process loose; its pid."""
    return daemonise()
