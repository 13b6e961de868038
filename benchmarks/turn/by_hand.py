"""``python -m benchmarks.turn.by_hand ORDER``: the loop that one writes without weftos, model call and tool call.

ORDER is a JSON object: ``client`` (``gateway``, ``httpx`` or ``raw``), ``url``, ``model``, ``agents``, ``steps``,
``context_bytes``, ``what``: ``fixed`` for a conversation that stays as it is, ``growing`` for one to which each call
and its result are added, ``first`` for questions that are answered with words, each until its first. It prints
``ready``, waits for a line, works, and prints another object: how long each step took, how long all did, and the
processor time of this process. Nothing is recorded and the tool is a function: that is the floor.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from benchmarks.plugins.timing import act, context
from cognition.providers.http.connection import HttpBounds
from cognition.providers.http.server import HttpServer
from cognition.providers.http.sse import SseDecoder

PATH = "/chat/completions"
HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "authorization": "Bearer sk-none",
}
UNMEASURED = 3


def request(model: str, messages: Sequence[dict[str, Any]]) -> bytes:
    """The body of one request, encoded anew as each step does."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    function = {"name": "act", "description": "Give the text back.", "parameters": schema}
    document = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}],
    }
    return json.dumps(document, separators=(",", ":")).encode()


class Client(Protocol):
    """Something that posts and gives the ``data`` of each event."""

    def events(self, body: bytes) -> AsyncIterator[bytes]:
        """One request."""

    async def close(self) -> None:
        """Let go of connections."""


class Httpx:
    """As people write it."""

    def __init__(self, url: str, agents: int) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=agents)
        self._url = url + PATH
        self._client = httpx.AsyncClient(timeout=120, limits=limits, trust_env=False)

    async def events(self, body: bytes) -> AsyncIterator[bytes]:
        async with self._client.stream("POST", self._url, content=body, headers=HEADERS) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield line.removeprefix("data: ").encode()

    async def close(self) -> None:
        await self._client.aclose()


class Own:
    """With what the gateway asks its servers."""

    def __init__(self, url: str, agents: int) -> None:
        self._server = HttpServer(url, HttpBounds(kept=agents))

    async def events(self, body: bytes) -> AsyncIterator[bytes]:
        decoder = SseDecoder(2**20)
        async with self._server.post(PATH, HEADERS.items(), body) as response:
            assert response.status == 200
            while piece := await response.read():
                for data in decoder.feed(piece):
                    yield data

    async def close(self) -> None:
        self._server.close()


class Raw:
    """Bytes on a socket: what any client adds to."""

    def __init__(self, url: str, agents: int) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path + PATH
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def events(self, body: bytes) -> AsyncIterator[bytes]:
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection(self._host, self._port)
        )
        lines = [f"POST {self._path} HTTP/1.1", f"host: {self._host}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in HEADERS.items()]
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head
        while size := int(await reader.readline(), 16):
            event = await reader.readexactly(size + 2)
            yield event.removeprefix(b"data: ").rstrip()
        await reader.readline()
        self._idle.append((reader, writer))

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


CLIENTS: dict[str, Any] = {"gateway": Own, "httpx": Httpx, "raw": Raw}


async def ask(client: Client, body: bytes) -> list[dict[str, str]]:
    """One model call: the tool calls that it wants."""
    calls: list[dict[str, str]] = []
    async for data in client.events(body):
        if data == b"[DONE]":
            continue
        for choice in json.loads(data)["choices"]:
            for piece in choice["delta"].get("tool_calls", ()):
                if "id" in piece:
                    calls.append({"name": piece["function"]["name"], "arguments": ""})
                calls[-1]["arguments"] += piece["function"]["arguments"]
    return calls


def said_and_done(calls: Sequence[dict[str, str]], results: Sequence[str]) -> list[dict[str, Any]]:
    """What a conversation has more after a round of calls."""
    made = [
        {"id": f"call_{number}", "type": "function", "function": call} for number, call in enumerate(calls)
    ]
    gave = [
        {"role": "tool", "tool_call_id": call["id"], "content": text}
        for call, text in zip(made, results, strict=True)
    ]
    return [{"role": "assistant", "content": "", "tool_calls": made}, *gave]


async def steps(client: Client, order: dict[str, Any], count: int) -> list[int]:
    """One agent: durations of its steps, in nanoseconds."""
    messages = [*context(order["context_bytes"])]
    took = []
    for _ in range(count):
        started = time.perf_counter_ns()
        calls = await ask(client, request(order["model"], messages))
        results = [act(**json.loads(call["arguments"])) for call in calls]
        assert len(results) == 1
        if order["what"] == "growing":
            messages += said_and_done(calls, results)
        took.append(time.perf_counter_ns() - started)
    return took


async def first_words(client: Client, order: dict[str, Any], count: int) -> list[int]:
    """How long each question takes until its first word, in nanoseconds."""
    took = []
    for _ in range(count):
        started, first = time.perf_counter_ns(), 0
        async for data in client.events(request(order["model"], context(order["context_bytes"]))):
            if not first and data != b"[DONE]":
                told = [choice["delta"].get("content") for choice in json.loads(data)["choices"]]
                first = time.perf_counter_ns() if any(told) else 0
        took.append(first - started)
    return took


async def run(order: dict[str, Any]) -> dict[str, Any]:
    """All agents at once."""
    client = CLIENTS[order["client"]](order["url"], order["agents"])
    agents = range(order["agents"])
    work = first_words if order["what"] == "first" else steps
    await asyncio.gather(*(work(client, order, UNMEASURED) for _ in agents))
    print("ready", flush=True)
    sys.stdin.readline()
    processor_s, begin_s = time.process_time(), time.perf_counter()
    took = await asyncio.gather(*(work(client, order, order["steps"]) for _ in agents))
    took_s, processor_s = time.perf_counter() - begin_s, time.process_time() - processor_s
    await client.close()
    return {
        "took_ns": [each for agent in took for each in agent],
        "took_s": took_s,
        "processor_s": processor_s,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.loads(sys.argv[1])))))
