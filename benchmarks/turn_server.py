"""``python -m benchmarks.turn_server``: a model server that wants a tool in each answer, and costs little.

It prints its port, then serves ``POST .../chat/completions`` until its standard input ends. The answer is a stream,
as a provider sends it: the call of ``act`` in pieces, usage, the end marker. It comes at once, after as many
milliseconds as the name of the model says (``pause-50``).
"""

from __future__ import annotations

import asyncio
import json
import os
import re

from tests.servers.model_server import stream_chunks

MODEL = "pause-{}"
_PAUSE = re.compile(rb'"model": ?"pause-(\d+)"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_ANSWER = {"tool_calls": [{"name": "act", "arguments": {"text": "x"}}]}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer() -> bytes:
    """The whole answer, as it stands on the wire."""
    asked = {"stream_options": {"include_usage": True}}
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in stream_chunks(_ANSWER, asked)]
    return _HEAD + b"".join(map(_chunk, [*events, b"data: [DONE]\n\n", b""]))


class _Connection(asyncio.Protocol):
    """One connection: requests with a body, one after the other."""

    ANSWER = answer()

    def __init__(self) -> None:
        self._held = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        body = self._held.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(self._held, 0, body)
        if length is None or len(self._held) < body + int(length[1]):
            return
        pause = _PAUSE.search(self._held, body, body + 100)
        assert pause is not None, "the model's name must come first and say a pause"
        pause_ms = int(pause[1])
        del self._held[: body + int(length[1])]
        if pause_ms:
            asyncio.get_running_loop().call_later(pause_ms / 1000, self._transport.write, self.ANSWER)
        else:
            self._transport.write(self.ANSWER)


async def serve() -> None:
    """Until nobody holds the other end of standard input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(os.read, 0, 1)


if __name__ == "__main__":
    asyncio.run(serve())
