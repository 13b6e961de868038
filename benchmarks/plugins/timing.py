"""What the benchmarks run inside a node: a behaviour that times its own tool calls, and tools that do nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from kernel.abi import Message, ModelRequest, ProcessInfo, Syscalls, ToolCall, TurnResult
from weftos import behaviour, tool

ROUND = 50
_PIECE_BYTES = 4096


@tool(effects="none", on_doubt="retry")
def look(text: str) -> str:
    """Give the text back.

    Args:
        text: any text
    """
    return text


@tool(effects="external")
def act(text: str) -> str:
    """Give the text back, and count as a tool that changes the world.

    Args:
        text: any text
    """
    return text


@tool(effects="external")
def breed(note: str) -> str:
    """Have a process of its own sleep for an hour; its pid goes into a file.

    Args:
        note: path of the file
    """
    with subprocess.Popen(["sleep", "3600"]) as child:
        Path(note).write_text(f"{child.pid}\n")
        child.wait()
    return "done"


def context(size: int) -> tuple[dict[str, Any], ...]:
    """Messages of ``size`` bytes together."""
    sizes = [min(_PIECE_BYTES, size - at) for at in range(0, size, _PIECE_BYTES)]
    return tuple({"role": "user", "content": "x" * each} for each in sizes)


@behaviour
class Stopwatch:
    """The message is a JSON object whose ``do`` says what to time; the reply is one as well."""

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        delivered_us = time.time_ns() // 1000
        order = json.loads(message.text)
        match order["do"]:
            case "stamp":
                answer: dict[str, Any] = {"delivered_us": delivered_us}
            case "calls":
                answer = await _calls(order, sys)
            case "steps":
                answer = await _steps(order, sys)
            case "spawn":
                answer = await _spawn(order, sys)
        return TurnResult(json.dumps(answer))


async def _calls(order: dict[str, Any], sys: Syscalls) -> dict[str, Any]:
    """One call after the other. Durations in nanoseconds; begin and end on the machine's monotonic clock."""
    tool_name, arguments = order["tool"], json.dumps(order["arguments"])
    for _ in range(order["unmeasured"]):
        await sys.call_tool(tool_name, arguments)
    await asyncio.sleep(order["begin_s"] - time.monotonic() if "begin_s" in order else 0)
    begin_s = time.monotonic()
    took: list[int] = []
    failed = 0
    for _ in range(order["count"]):
        started = time.perf_counter_ns()
        result = await sys.call_tool(tool_name, arguments)
        took.append(time.perf_counter_ns() - started)
        failed += result.status != "ok"
    return {"took_ns": took, "begin_s": begin_s, "end_s": time.monotonic(), "failed": failed}


async def _steps(order: dict[str, Any], sys: Syscalls) -> dict[str, Any]:
    """Model call and tool call, one after the other, always with the same messages."""
    request = ModelRequest(context(order["context_bytes"]), ("act",), "", order["model"])
    await asyncio.sleep(order["begin_s"] - time.monotonic() if "begin_s" in order else 0)
    begin_s = time.monotonic()
    took: list[int] = []
    failed = 0
    for _ in range(order["count"]):
        started = time.perf_counter_ns()
        answer = await sys.ask_model(request)
        results = await sys.call_tools(answer.tool_calls)
        took.append(time.perf_counter_ns() - started)
        failed += [result.status for result in results] != ["ok"]
    return {"took_ns": took, "begin_s": begin_s, "end_s": time.monotonic(), "failed": failed}


async def _spawn(order: dict[str, Any], sys: Syscalls) -> dict[str, Any]:
    """Many children of this process, a round at a time."""
    failed = 0
    for first in range(0, order["count"], ROUND):
        names = [f"c{number}" for number in range(first, min(first + ROUND, order["count"]))]
        results = await sys.call_tools(
            [ToolCall("spawn_agent", json.dumps({"name": name})) for name in names]
        )
        failed += sum(result.status != "ok" for result in results)
    return {"failed": failed}
