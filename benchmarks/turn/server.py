"""``python -m benchmarks.turn.server``: a model server that wants a tool in each answer, and costs little.

It prints its port, then serves ``POST .../chat/completions`` until its standard input ends. The answer is a stream,
as a provider sends it: the call of ``act`` in pieces, each time with other arguments, usage, the end marker. It comes
at once, after as many milliseconds as the name of the model says (``pause-50``). With a number of rounds in the name
(``pause-50-rounds-20``) it is words once so many answers stand in the conversation.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from itertools import count
from typing import Any

from tests.servers.model_server import stream_chunks

MODEL = "pause-{}"
AGENT_MODEL = "pause-{}-rounds-{}"
_MODEL = re.compile(rb'"model": ?"pause-(\d+)(?:-rounds-(\d+))?"')
_ANSWERED = re.compile(rb'"role": ?"assistant"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_NUMBER = b"#" * 9
_CALL = {"tool_calls": [{"name": "act", "arguments": {"text": "#" * 10}}]}
_WORDS = {"text": "All that was wanted has been done now."}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(said: dict[str, Any]) -> bytes:
    """The whole answer, as it stands on the wire."""
    asked = {"stream_options": {"include_usage": True}}
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in stream_chunks(said, asked)]
    return _HEAD + b"".join(map(_chunk, [*events, b"data: [DONE]\n\n", b""]))


class _Connection(asyncio.Protocol):
    """One connection: requests with a body, one after the other."""

    CALL, WORDS = answer(_CALL), answer(_WORDS)
    NUMBERS = count()

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
        model = _MODEL.search(self._held, body, body + 100)
        assert model is not None, "the model's name must come first and say a pause"
        pause_ms, said = int(model[1]), self._answer(model[2])
        del self._held[: body + int(length[1])]
        if pause_ms:
            asyncio.get_running_loop().call_later(pause_ms / 1000, self._transport.write, said)
        else:
            self._transport.write(said)

    def _answer(self, rounds: bytes | None) -> bytes:
        if rounds is not None and len(_ANSWERED.findall(self._held)) >= int(rounds):
            return self.WORDS
        return self.CALL.replace(_NUMBER, b"%09d" % next(self.NUMBERS))


async def serve() -> None:
    """Until nobody holds the other end of standard input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(os.read, 0, 1)


if __name__ == "__main__":
    asyncio.run(serve())
